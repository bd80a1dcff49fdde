//! Contexts that the tasks of this worker name: numbers of its own, of which the client is told what they stand for.

use gristmill_wire::peer::{ContextTerms, Files};
use gristmill_wire::{ContextId, Demand, NestedRequest};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{broken, current, drop_one};
use crate::engine::nanoseconds;

/// A context of this worker's tasks: the client knows what it is as long as this lives.
#[pyclass(frozen, module = "gristmill._native")]
pub struct NestedContext {
    /// What those tasks name it by.
    pub number: ContextId,
}

#[pymethods]
impl NestedContext {
    /// Nothing: it goes with this object, at the end of a task.
    #[expect(clippy::unused_self, reason = "executors' uses have it too")]
    const fn release(&self) {}

    /// `None`: a task is not told.
    #[expect(clippy::unused_self, reason = "executors' uses have it too")]
    const fn report(&self) -> Option<Py<PyAny>> {
        None
    }
}

impl Drop for NestedContext {
    fn drop(&mut self) {
        drop_one(|dropped| dropped.contexts.push(self.number));
    }
}

/// Tells the client of a context, for the tasks that the running one submits: what a process with it sets up, or its key
/// alone; how many workers may have it, whether forks of one are safe, for how many seconds it is kept while nobody uses it,
/// and what each of its workers has.
///
/// # Errors
/// `RuntimeError` where no task runs; `ValueError` for a time that is none.
#[pyfunction]
pub fn nested_define_context(
    name: &str,
    setup: &Bound<'_, PyBytes>,
    terms: (u16, bool, Option<f64>, (u16, u32, u64)),
) -> PyResult<NestedContext> {
    let (worker, _) = current()?;
    let (workers_max, is_fork_safe, keep, (cores, gpus, memory)) = terms;
    let demand = Demand { cores, gpus, memory };
    let last = &worker.callee().last_context;
    let linger_ns = nanoseconds("keep", keep)?.unwrap_or(u64::MAX);
    // A worker that has counted to the end begins anew with numbers that are long out of use.
    last.set(last.get().wrapping_add(1).max(1));
    let number = ContextId(last.get());
    let (name, setup) = (name.as_bytes(), setup.as_bytes());
    let files = Files::default();
    let terms = ContextTerms {
        context: number,
        workers_max,
        is_fork_safe,
        linger_ns,
        demand,
        name,
        setup,
        files,
    };
    worker.request(&NestedRequest::DefineContext(terms)).map_err(broken)?;
    Ok(NestedContext { number })
}
