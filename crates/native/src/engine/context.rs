//! Contexts of an engine: what `gristmill.Context` holds of each executor that its functions run in.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use gristmill_client::{Client, ContextDefinition};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_wire::{ContextId, Demand};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{Engine, nanoseconds};
use crate::error;
use crate::image::parse;

/// One engine's use of one context, which stays there as long as this lives.
#[pyclass(frozen, module = "gristmill._native")]
pub struct ContextUse {
    client: Arc<Client>,
    id: ContextId,
    is_released: AtomicBool,
    /// The process that made it, counted in forks: a forked child has none of the engine's.
    generation: u32,
}

impl ContextUse {
    /// The number that tasks name it by, while it is in use.
    #[inline]
    pub fn id(&self) -> Option<ContextId> {
        // Relaxed without a partner: the flag is only asked with the interpreter held.
        (!self.is_released.load(Ordering::Relaxed)).then_some(self.id)
    }

    fn is_orphan(&self) -> bool {
        self.generation != crate::fork::generation()
    }

    fn end(&self) {
        if !self.is_orphan() && !self.is_released.swap(true, Ordering::Relaxed) {
            // as above
            self.client.forget_context(self.id);
        }
    }
}

impl Drop for ContextUse {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl ContextUse {
    /// Ends the use: tasks that name it are completed, then it goes.
    fn release(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// What it cost and was good for; `None` once nobody knows it any more.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.is_orphan() {
            return Ok(None);
        }
        let Some(report) = self.client.context_report(self.id) else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("name", &*report.name)?;
        dict.set_item("workers", report.stats.workers)?;
        dict.set_item("deployments", report.stats.deployments)?;
        dict.set_item("calls", report.stats.calls)?;
        dict.set_item("running", report.stats.running)?;
        dict.set_item("waiting", report.stats.waiting)?;
        dict.set_item("call_seconds", seconds(report.busy_ns))?;
        dict.set_item("setups", report.setups.count)?;
        dict.set_item("setup_seconds", seconds(report.setups.took_ns))?;
        dict.set_item("memory", report.setups.memory)?;
        dict.set_item("disk", report.disk)?;
        let Demand { gpus, memory, .. } = report.demand;
        dict.set_item("holds", (report.demand.places(), gpus, memory))?;
        dict.set_item("failure", report.failure.as_deref())?;
        Ok(Some(dict))
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[pymethods]
impl Engine {
    /// Whether tasks were submitted, or have been: the engine has been started.
    fn _has_started(&self) -> bool {
        self.client().is_some()
    }

    /// Makes a context known; called by `gristmill.Context`, with how many workers may have it, whether forks of one are safe,
    /// for how many seconds it is kept while nobody uses it, and what each of those has: places, thousandths of a GPU, bytes
    /// of memory. `files` are what nodes are to have: digests and paths. Raises `ResourceError` if no worker here could
    /// have it.
    fn _define_context(
        &self,
        py: Python<'_>,
        name: &str,
        setup: &Bound<'_, PyBytes>,
        terms: (u16, bool, Option<f64>, (u16, u32, u64)),
        files: Vec<(String, PathBuf)>,
    ) -> PyResult<ContextUse> {
        let (workers_max, is_fork_safe, keep, (cores, gpus, memory)) = terms;
        let client = Arc::clone(self.running_client(py)?);
        let mut names = Vec::new();
        let mut opened = Vec::new();
        for (digest, path) in files {
            names.push(parse(&digest)?);
            opened.push(Arc::new(File::open(&path)?));
        }
        let definition = ContextDefinition {
            name: name.into(),
            setup: setup.as_bytes().into(),
            workers_max,
            is_fork_safe,
            linger_ns: nanoseconds("keep", keep)?.unwrap_or(u64::MAX),
            files: names.into(),
            demand: Demand { cores, gpus, memory },
        };
        let defined = client.define_context(definition, opened);
        let id = defined.map_err(|refusal| error::context(py, name, refusal))?;
        let generation = crate::fork::generation();
        Ok(ContextUse { client, id, is_released: AtomicBool::new(false), generation })
    }
}
