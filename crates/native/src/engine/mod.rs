//! The native half of `gristmill.Executor`: one client, and what the interpreter has to know to feed it.

mod app_lane;
mod configure;
mod context;
mod end;
mod map;
mod options;
mod outcome;
mod service;
mod submit;
mod wait;

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use gristmill_client::{Client, Door};
use gristmill_wire::TaskId;
use pyo3::ffi;
use pyo3::prelude::*;

pub use app_lane::{AppLane, submit_app};
pub use configure::{NodeFacts, cpu_count, node_options, read_program};
pub use context::ContextUse;
pub use end::{finish_all, remember};
pub use map::MapResults;
pub use options::{CallOptions, OptionValues, Options, demand, nanoseconds, submit_with_options};
pub use outcome::Look;
pub use submit::{ForeignFuture, pickle, submit_method};
pub use wait::wait_any;

use crate::codec::ArrayTypes;
use crate::function::FunctionCache;
use configure::Settings;

/// State that only the holder of the interpreter touches.
pub struct Attached<T>(RefCell<T>);

// SAFETY: every access goes through `with`, which wants proof that the interpreter is held; it is never given up inside.
unsafe impl<T: Send> Sync for Attached<T> {}

impl<T> Attached<T> {
    /// Keeps a value.
    pub fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// The value, for as long as no Python code runs.
    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

/// The base class of `gristmill.Executor`.
#[pyclass(subclass, frozen, weakref, module = "gristmill._native")]
pub struct Engine {
    settings: OnceLock<Settings>,
    client: OnceLock<Arc<Client>>,
    /// Where nodes come in, if its workers are there.
    door: OnceLock<Door>,
    functions: Attached<FunctionCache>,
    /// Where a call is encoded before it is copied into the task table.
    scratch: Attached<Vec<u8>>,
    arrays: ArrayTypes,
    registry: OnceLock<Py<PyAny>>,
    /// The process that made it, counted in forks: another one is a forked child, which has no engine.
    generation: u32,
    /// It was shut down, started or not.
    is_closed: AtomicBool,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(
        py: Python<'_>,
        _arguments: &Bound<'_, PyAny>,
        _named: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        crate::future::future_type(py)?;
        Ok(Self {
            settings: OnceLock::new(),
            client: OnceLock::new(),
            door: OnceLock::new(),
            functions: Attached::new(FunctionCache::default()),
            scratch: Attached::new(Vec::new()),
            arrays: ArrayTypes::new(),
            registry: OnceLock::new(),
            generation: crate::fork::generation(),
            is_closed: AtomicBool::new(false),
        })
    }
}

impl Engine {
    /// The engine in an object that is one.
    ///
    /// # Safety
    /// `object` is a live instance of `Engine` or a subclass, and outlives the reference; the interpreter is held.
    #[inline]
    pub unsafe fn from_object<'a>(object: *mut ffi::PyObject) -> &'a Self {
        // SAFETY: passed on from the caller; the class is frozen, so shared references are all there are.
        unsafe {
            let py = Python::assume_attached();
            let bound = Bound::from_borrowed_ptr(py, object);
            let engine: &Self = bound.cast_unchecked::<Self>().get();
            &*std::ptr::from_ref(engine)
        }
    }

    /// Whether this process is a forked child of the one that made the engine.
    #[inline]
    pub fn is_orphan(&self) -> bool {
        self.generation != crate::fork::generation()
    }

    /// The client, if the engine was started, and by this process.
    #[inline]
    pub fn client(&self) -> Option<&Arc<Client>> {
        self.client.get().filter(|_| !self.is_orphan())
    }

    /// Keeps the door open as long as the engine lives.
    pub fn keep_door(&self, door: Door) {
        let _ = self.door.set(door);
    }

    /// Where nodes come in.
    pub fn door(&self) -> Option<&Door> {
        self.door.get()
    }

    /// Lets go of a task: its future is gone.
    pub fn release(&self, task: TaskId) {
        if let Some(client) = self.client() {
            client.release(task);
        }
    }

    /// Who wants to know of which future: `gristmill._completion.Registry`, made when first needed.
    ///
    /// # Errors
    /// What making it raises.
    pub fn registry<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(registry) = self.registry.get() {
            return Ok(registry.bind(py).clone());
        }
        let settings = self.settings()?;
        let engine = settings.engine(py)?;
        let made = py.import("gristmill._completion")?.getattr("Registry")?.call1((engine,))?;
        Ok(self.registry.get_or_init(|| made.unbind()).bind(py).clone())
    }
}

impl Drop for Engine {
    /// An executor that nobody has any more finishes what it was given, as the standard library's does.
    fn drop(&mut self) {
        if let Some(client) = self.client() {
            client.begin_shutdown(false);
        }
    }
}
