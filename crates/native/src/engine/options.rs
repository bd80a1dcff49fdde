//! Options of tasks: the base class of `gristmill.TaskOptions`.

use std::sync::OnceLock;

use gristmill_client::{Budgets, TaskOptions};
use gristmill_sync::clock::monotonic_ns;
use gristmill_wire::{ContextId, Demand};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use super::submit::submit_call;
use super::{Attached, ContextUse, Engine};
use crate::raw::{all_arguments, guard};

/// What one call asks for.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// Of its task.
    pub task: TaskOptions,
    /// Arrays in the arena go by reference, and those of the result come as read-only views.
    pub views: bool,
}

/// An executor together with options for its tasks.
#[pyclass(subclass, frozen, module = "gristmill._native")]
pub struct Options {
    set: OnceLock<Terms>,
}

/// An engine, and what its tasks get.
pub struct Terms {
    pub engine: Py<Engine>,
    options: CallOptions,
    /// From the submission on.
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

/// The options as Python gives them: `timeout`, `deadline`, `retries`, `loss_retries`, `timeout_retries`, `priority`,
/// `grace`, `views`, what it needs; times are seconds.
pub type OptionValues = (Option<f64>, Option<f64>, u16, u16, u16, i32, f64, bool, DemandValues);
/// What a task needs: workers' places, thousandths of a GPU, bytes of memory.
pub type DemandValues = (u16, u32, u64);

/// What a task needs.
pub const fn demand((cores, gpus, memory): DemandValues) -> Demand {
    Demand { cores, gpus, memory }
}

impl Terms {
    /// Checks the values.
    ///
    /// # Errors
    /// `ValueError`: a time is negative or no number.
    pub fn new(
        engine: Py<Engine>,
        values: OptionValues,
        context: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (timeout, deadline, retries, loss_retries, timeout_retries, priority, ..) = values;
        let (.., grace, views, needs) = values;
        let task = TaskOptions {
            timeout_ns: nanoseconds("timeout", timeout)?,
            grace_ns: nanoseconds("grace", Some(grace))?,
            budgets: Some(Budgets { retries, loss_retries, timeout_retries }),
            priority,
            demand: demand(needs),
            ..TaskOptions::default()
        };
        let deadline_ns = nanoseconds("deadline", deadline)?;
        let context = context.map(|object| NamedContext { object, used: Attached::new(None) });
        Ok(Self { engine, options: CallOptions { task, views }, deadline_ns, context })
    }

    /// What a task gets that is submitted now.
    ///
    /// # Errors
    /// `UnpicklableError`, and others: its context cannot be described.
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

/// Seconds to nanoseconds.
pub fn nanoseconds(name: &str, seconds: Option<f64>) -> PyResult<Option<u64>> {
    let Some(seconds) = seconds else { return Ok(None) };
    let time = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!("{name} must be a positive number of seconds, not {seconds}"))
    })?;
    Ok(Some(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyAny>, _named: Option<&Bound<'_, PyAny>>) -> Self {
        Self { set: OnceLock::new() }
    }

    /// Stores the executor and the options; called once, by `TaskOptions.__init__`.
    #[pyo3(signature = (engine, values, context=None))]
    fn _set(
        &self,
        engine: Py<Engine>,
        values: OptionValues,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.set
            .set(Terms::new(engine, values, context)?)
            .map_err(|_| PyRuntimeError::new_err("options are set once"))
    }
}

impl Options {
    /// The engine and what its tasks get if they are submitted now.
    ///
    /// # Errors
    /// `RuntimeError` when `__init__` was not called; those of [`Terms::now`].
    pub fn now(&self, py: Python<'_>) -> PyResult<(&Py<Engine>, CallOptions)> {
        let terms = self
            .set
            .get()
            .ok_or_else(|| PyRuntimeError::new_err("options are made by Executor.options()"))?;
        Ok((&terms.engine, terms.now(py)?))
    }
}

/// `Options.submit(fn, /, *args, **kwargs)`.
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
            let (engine, options) = bound.cast_unchecked::<Options>().get().now(py)?;
            let arguments = all_arguments(arguments, count, names);
            let engine = (engine.get(), engine.as_ptr());
            submit_call(py, engine, arguments, names, Some(&options))
        }
    })
}
