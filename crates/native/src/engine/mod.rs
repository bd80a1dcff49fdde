//! The native half of `gristmill.Executor`: one client, and the interpreter's state that submission needs.

mod app_fast_path;
mod configure;
mod context;
mod end;
mod map;
mod options;
mod outcome;
mod service;
mod submit;
mod wait;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gristmill_client::{Client, ConnectionManager};
use gristmill_wire::TaskId;
use pyo3::ffi;
use pyo3::prelude::*;

pub use app_fast_path::{AppFastPath, submit_app};
pub use configure::{NodeFacts, node_options, read_program, spill_place};
pub use context::ContextUse;
pub use end::{abort_all, finish_all, remember};
pub use map::{MapResults, map_bytes_max};
pub use options::{BoundEngine, CallOptions, OptionFields, nanoseconds, submit_with_options};
pub use outcome::FutureStatus;
pub use submit::{ForeignFutureError, pickle, submit_method};
pub use wait::wait_any;

use crate::arena::Stored;
use crate::attached::Attached;
use crate::codec::ArrayTypes;
use crate::function::SharedCache;
use crate::made_once::MadeOnce;
use configure::Settings;

/// The base class of `gristmill.Executor`.
#[pyclass(subclass, frozen, weakref, module = "gristmill._native")]
pub struct Engine {
    settings: OnceLock<Settings>,
    client: OnceLock<Arc<Client>>,
    /// The connection manager of its nodes, if its workers are there.
    connection_manager: OnceLock<ConnectionManager>,
    functions: SharedCache,
    /// Buffer for the encoding of a call, before it is copied into the task table.
    scratch: Attached<Vec<u8>>,
    /// Large parts of waiting calls.
    stored: Mutex<Stored>,
    arrays: ArrayTypes,
    registry: MadeOnce<Py<PyAny>>,
    /// The fork generation of the process that made it: a forked child has another one, and has no engine.
    generation: u32,
    /// True if it was shut down, started or not.
    is_closed: AtomicBool,
    /// True if its end is that of the client.
    ends_client: bool,
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
        Ok(Self::unstarted())
    }
}

impl Engine {
    fn unstarted() -> Self {
        Self {
            settings: OnceLock::new(),
            client: OnceLock::new(),
            connection_manager: OnceLock::new(),
            functions: SharedCache::default(),
            scratch: Attached::new(Vec::new()),
            stored: Mutex::default(),
            arrays: ArrayTypes::new(),
            registry: MadeOnce::new(),
            generation: gristmill_sync::process::generation(),
            is_closed: AtomicBool::new(false),
            ends_client: true,
        }
    }

    /// Makes an engine that only waits for the results of another one's client, and reads them. It may outlive that engine.
    pub fn for_results(client: &Arc<Client>) -> Self {
        let mut engine = Self::unstarted();
        engine.client = OnceLock::from(Arc::clone(client));
        engine.ends_client = false;
        engine
    }

    /// Returns the bytes of all large parts and of all pickles of calls so far.
    pub fn passed_bytes(&self) -> u64 {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).passed()
    }

    /// Adds the bytes of a pickle, or of another call that was not submitted in the fast way.
    fn note_payload(&self, size: usize) {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).note_payload(size);
    }

    /// Returns the engine in a Python object that is an engine.
    ///
    /// # Safety
    /// `object` is a live instance of `Engine` or a subclass, and outlives the reference; the interpreter is held.
    #[inline]
    pub unsafe fn from_object<'a>(object: *mut ffi::PyObject) -> &'a Self {
        // SAFETY: the caller guarantees it; the class is frozen, so only shared references exist.
        unsafe {
            let py = Python::assume_attached();
            let bound = Bound::from_borrowed_ptr(py, object);
            let engine: &Self = bound.cast_unchecked::<Self>().get();
            &*std::ptr::from_ref(engine)
        }
    }

    /// Returns whether this process is a forked child of the one that made the engine.
    #[inline]
    pub fn is_orphan(&self) -> bool {
        self.generation != gristmill_sync::process::generation()
    }

    /// Returns the client, if this process has started the engine.
    #[inline]
    pub fn client(&self) -> Option<&Arc<Client>> {
        self.client.get().filter(|_| !self.is_orphan())
    }

    /// Keeps the connection manager for as long as the engine lives.
    pub fn keep_connection_manager(&self, connection_manager: ConnectionManager) {
        let _ = self.connection_manager.set(connection_manager);
    }

    /// Returns the connection manager of the nodes.
    pub fn connection_manager(&self) -> Option<&ConnectionManager> {
        self.connection_manager.get()
    }

    /// Releases a task whose future is gone.
    pub fn release(&self, task: TaskId) {
        if let Some(client) = self.client() {
            client.release(task);
        }
    }

    /// Returns the `gristmill._completion.Registry` of waiters and callbacks of futures. The first call makes it.
    ///
    /// # Errors
    /// Any exception that making it raises.
    pub fn registry<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let registry = match self.registry.get(py) {
            Some(registry) => registry,
            None => self.make_registry(py)?,
        };
        Ok(registry.bind(py).clone())
    }

    #[cold]
    fn make_registry(&self, py: Python<'_>) -> PyResult<&Py<PyAny>> {
        let engine = self.settings()?.engine(py)?;
        let registry = self.registry.get_or_make(py, || {
            let class = py.import("gristmill._completion")?.getattr("Registry")?;
            Ok(class.call1((&engine,))?.unbind())
        })?;
        engine.setattr("_registry", registry)?;
        Ok(registry)
    }
}

impl Drop for Engine {
    /// Begins the shutdown. An executor without references finishes its tasks, like the standard library's.
    fn drop(&mut self) {
        if let Some(client) = self.client()
            && self.ends_client
        {
            client.begin_shutdown(false);
        }
    }
}
