//! Contexts that the tasks of this worker name: the worker assigns their numbers, and tells the client their
//! definitions.

use gristmill_client::setup_excess;
use gristmill_wire::peer::{ContextTerms, Files};
use gristmill_wire::{ContextId, NestedRequest, ResourceRequest};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{broken, current, drop_one};
use crate::engine::nanoseconds;

/// A context of this worker's tasks: the client keeps its definition for as long as this object lives.
#[pyclass(frozen, module = "gristmill._native")]
pub struct NestedContext {
    /// The id by which those tasks name it.
    pub number: ContextId,
}

#[pymethods]
impl NestedContext {
    /// Does nothing: the context is released with this object, at the end of a task.
    #[expect(clippy::unused_self, reason = "executors' uses have it too")]
    const fn release(&self) {}

    /// Returns `None`: a task has no report of a context.
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

/// Defines a context for the tasks that the running one submits, and tells the client. `setup` is the setup of a
/// process with the context, or only its key. `terms` are the maximum number of its workers, whether forks of one are
/// safe, the seconds that an unused worker is kept, and the resources of each worker.
///
/// # Errors
/// `RuntimeError` if no task runs; `ValueError` if a time is invalid; `MemoryError` if the setup is too large.
#[pyfunction]
pub fn nested_define_context(
    name: &str,
    setup: &Bound<'_, PyBytes>,
    terms: (u16, bool, Option<f64>, (u16, u32, u64)),
) -> PyResult<NestedContext> {
    let (worker, _) = current()?;
    if let Some(excess) = setup_excess(name, setup.as_bytes().len()) {
        return Err(PyMemoryError::new_err(excess));
    }
    let (workers_max, is_fork_safe, keep, (cores, gpus, memory)) = terms;
    let demand = ResourceRequest { cores, gpus, memory };
    let last = &worker.callee().nested.last_context;
    let linger_ns = nanoseconds("keep", keep)?.unwrap_or(u64::MAX);
    // When the numbers wrap around, the first ones have long been out of use.
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
