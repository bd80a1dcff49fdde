//! Contexts of an engine: the objects that `gristmill.Context` holds for each executor that its functions run in.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use gristmill_client::{Client, ContextDefinition};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_wire::{ContextId, ResourceRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{Engine, nanoseconds};
use crate::error;
use crate::image::parse;

/// One engine's use of one context. The engine keeps the context for as long as this object lives.
#[pyclass(frozen, module = "gristmill._native")]
pub struct ContextUse {
    client: Arc<Client>,
    id: ContextId,
    is_released: AtomicBool,
    /// The fork generation of the process that made it: a forked child has none of the engine's contexts.
    generation: u32,
}

impl ContextUse {
    /// Returns the id by which tasks name it, while it is in use.
    #[inline]
    pub fn id(&self) -> Option<ContextId> {
        // Relaxed without a partner: the flag is only read with the interpreter held.
        (!self.is_released.load(Ordering::Relaxed)).then_some(self.id)
    }

    fn is_orphan(&self) -> bool {
        self.generation != gristmill_sync::process::generation()
    }

    fn end(&self) {
        if !self.is_orphan() && !self.is_released.swap(true, Ordering::Relaxed) {
            // Relaxed: as above.
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
    /// Ends the use: tasks that name the context are completed, then it is dropped.
    fn release(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    /// Returns the cost and the use of the context so far; `None` once the engine has dropped it.
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
        let ResourceRequest { gpus, memory, .. } = report.demand;
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
    /// Returns whether the engine has started, which the first task does.
    fn _has_started(&self) -> bool {
        self.client().is_some()
    }

    /// Defines a context; called by `gristmill.Context`. `terms` are the maximum number of its workers, whether forks
    /// of one are safe, the seconds that an unused worker is kept, and the resources of each: CPU slots, thousandths of
    /// a GPU, bytes of memory. `files` are the files that nodes need: digests and paths. Raises `ResourceError` if no
    /// worker here could ever hold it.
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
            demand: ResourceRequest { cores, gpus, memory },
        };
        let defined = client.define_context(definition, opened);
        let id = defined.map_err(|refusal| error::context(py, name, refusal))?;
        let generation = gristmill_sync::process::generation();
        Ok(ContextUse { client, id, is_released: AtomicBool::new(false), generation })
    }
}
