//! Options of tasks: the fields of `gristmill.TaskOptions`, decoded once, and the base class of `gristmill.BoundExecutor`.

use gristmill_client::{Budgets, TaskOptions};
use gristmill_sync::clock::monotonic_ns;
use gristmill_wire::{ContextId, ResourceRequest};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use super::submit::submit_call;
use super::{ContextUse, Engine};
use crate::attached::Attached;
use crate::raw::{all_arguments, guard};

/// Options of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// Options of its task.
    pub task: TaskOptions,
    /// True if arrays in the arena travel by reference, and those of the result are read-only views.
    pub views: bool,
}

/// The fields of an object that `gristmill._option_values` has checked, such as a `gristmill.TaskOptions`. Times are seconds.
#[derive(FromPyObject)]
pub struct OptionFields {
    pub timeout: Option<f64>,
    pub start_within: Option<f64>,
    pub retries: u16,
    pub loss_retries: u16,
    pub timeout_retries: u16,
    pub priority: i32,
    pub grace: f64,
    pub views: bool,
    /// CPU slots, thousandths of a GPU, bytes of memory.
    #[pyo3(attribute("_demand"))]
    demand: (u16, u32, u64),
    context: Option<Py<PyAny>>,
}

impl OptionFields {
    /// Returns the numbers of further attempts.
    pub const fn budgets(&self) -> Budgets {
        Budgets {
            retries: self.retries,
            loss_retries: self.loss_retries,
            timeout_retries: self.timeout_retries,
        }
    }

    /// Returns whether a task with these options is one without options.
    pub fn is_plain(&self) -> bool {
        let attempts = (self.retries, self.loss_retries, self.timeout_retries);
        self.timeout.is_none()
            && self.start_within.is_none()
            && self.context.is_none()
            && (attempts, self.priority, self.views) == ((0, 0, 0), 0, false)
            && self.demand == (1, 0, 0)
    }

    /// Returns the resource request of a task.
    pub const fn demand(&self) -> ResourceRequest {
        let (cores, gpus, memory) = self.demand;
        ResourceRequest { cores, gpus, memory }
    }
}

/// An executor with options for its tasks.
#[pyclass(subclass, frozen, module = "gristmill._native")]
pub struct BoundEngine {
    terms: BoundTaskOptions,
    /// The object with the checked fields.
    values: Py<PyAny>,
}

/// An engine, and the options of the tasks submitted through it.
pub struct BoundTaskOptions {
    pub engine: Py<Engine>,
    options: CallOptions,
    /// Time from the submission on.
    deadline_ns: Option<u64>,
    context: Option<NamedContext>,
}

/// The `gristmill.Context` that tasks run in, and the engine's use of it, which begins with the first of them.
struct NamedContext {
    object: Py<PyAny>,
    used: Attached<Option<Py<ContextUse>>>,
}

impl NamedContext {
    fn id(&self, py: Python<'_>, engine: &Py<Engine>) -> PyResult<ContextId> {
        let known =
            |used: &mut Option<Py<ContextUse>>| used.as_ref().and_then(|one| one.get().id());
        if let Some(id) = self.used.with(py, known) {
            return Ok(id);
        }
        let used = self.object.call_method1(py, "_use", (engine,))?;
        let used = used.cast_bound::<ContextUse>(py)?.clone();
        let id = used.get().id();
        let before = self.used.with(py, |known| known.replace(used.unbind()));
        drop(before);
        id.ok_or_else(|| PyRuntimeError::new_err("a context that is used is not released"))
    }
}

impl BoundTaskOptions {
    /// Decodes the fields and binds them to an engine.
    ///
    /// # Errors
    /// `ValueError` if a time is negative or not a number.
    pub fn new(engine: Py<Engine>, fields: OptionFields) -> PyResult<Self> {
        let task = TaskOptions {
            timeout_ns: nanoseconds("timeout", fields.timeout)?,
            grace_ns: nanoseconds("grace", Some(fields.grace))?,
            budgets: Some(fields.budgets()),
            priority: fields.priority,
            demand: fields.demand(),
            ..TaskOptions::default()
        };
        let deadline_ns = nanoseconds("start_within", fields.start_within)?;
        let options = CallOptions { task, views: fields.views };
        let name = |object| NamedContext { object, used: Attached::new(None) };
        Ok(Self { engine, options, deadline_ns, context: fields.context.map(name) })
    }

    /// Returns the options of a task that is submitted now.
    ///
    /// # Errors
    /// `UnpicklableError` and others, if its context cannot be described.
    #[inline]
    pub fn now(&self, py: Python<'_>) -> PyResult<CallOptions> {
        let mut options = self.options;
        options.task.deadline_ns =
            self.deadline_ns.map(|after| monotonic_ns().saturating_add(after));
        if let Some(context) = &self.context {
            options.task.context = context.id(py, &self.engine)?;
        }
        Ok(options)
    }
}

/// Converts seconds to nanoseconds.
pub fn nanoseconds(name: &str, seconds: Option<f64>) -> PyResult<Option<u64>> {
    let Some(seconds) = seconds else { return Ok(None) };
    let time = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!("{name} must be a positive number of seconds, not {seconds}"))
    })?;
    Ok(Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

#[pymethods]
impl BoundEngine {
    #[new]
    fn new(engine: Py<Engine>, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let terms = BoundTaskOptions::new(engine, values.extract()?)?;
        Ok(Self { terms, values: values.clone().unbind() })
    }

    /// Returns the executor.
    #[getter]
    fn executor(&self, py: Python<'_>) -> Py<Engine> {
        self.terms.engine.clone_ref(py)
    }

    /// Returns the values, as Python passed them.
    #[getter]
    fn _values(&self, py: Python<'_>) -> Py<PyAny> {
        self.values.clone_ref(py)
    }
}

impl BoundEngine {
    /// Returns the engine, and the options of a task that is submitted now.
    ///
    /// # Errors
    /// The errors of [`BoundTaskOptions::now`].
    pub fn now(&self, py: Python<'_>) -> PyResult<(&Py<Engine>, CallOptions)> {
        Ok((&self.terms.engine, self.terms.now(py)?))
    }
}

/// Implements `BoundEngine.submit(fn, /, *args, **kwargs)`.
pub unsafe extern "C" fn submit_with_options(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    guard(|py| {
        // SAFETY: CPython calls the method with an instance of the class, and the arguments it promises.
        unsafe {
            let bound = Bound::from_borrowed_ptr(py, object);
            let (engine, options) = bound.cast_unchecked::<BoundEngine>().get().now(py)?;
            let arguments = all_arguments(arguments, count, names);
            let engine = (engine.get(), engine.as_ptr());
            submit_call(py, engine, arguments, names, Some(&options))
        }
    })
}
