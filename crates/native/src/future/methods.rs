//! The type `gristmill.Future` and its methods.

use std::ffi::CStr;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::guarded::with_future;
use super::kind::{FutureTypeSpec, made_plain, make_plain};
use super::layout;
use super::standard;
use crate::engine::FutureStatus;
use crate::object::Owned;
use crate::raw::{method, option_seconds, optional_seconds};

/// Returns the type `gristmill.Future`, which the first call makes. A worker never calls this, which spares it the base
/// class and that class's imports.
///
/// # Errors
/// Any exception that making a type raises.
pub fn future_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    if let Some(made) = made_plain(py) {
        return Ok(made);
    }
    let methods = vec![
        method(c"result", result, c"result($self, timeout=None)\n--\n\nReturns the value of the task, or raises the exception of the task, CancelledError, or TimeoutError after `timeout` seconds."),
        method(c"exception", exception, c"exception($self, timeout=None)\n--\n\nReturns the exception of the task, or None; raises CancelledError, or TimeoutError after `timeout` seconds."),
        method(c"done", done, c"done($self)\n--\n\nReturns whether the task has its final state."),
        method(c"running", running, c"running($self)\n--\n\nReturns whether a worker has the task: it may have started."),
        method(c"cancelled", cancelled, c"cancelled($self)\n--\n\nReturns whether the task was cancelled."),
        method(c"cancel", cancel, c"cancel($self, running=False, grace=1.0)\n--\n\nCancels a task that has not started: True at once. With `running`, a started one is interrupted (TaskInterrupted is raised in it) and after `grace` seconds its worker is killed."),
        method(c"add_done_callback", add_done_callback, c"add_done_callback($self, fn)\n--\n\nCalls `fn(future)` when the task is final, from the dispatcher thread; at once if it is."),
        method(c"_gather", gather, c"Lets `sink` receive the final tasks of this future's engine before other waiters do."),
        method(c"timings", timings, c"timings($self)\n--\n\nReturns the times at which the task passed each stage, in nanoseconds after its submission: a gristmill.Timings."),
        method(c"set_running_or_notify_cancel", standard::refuse, c"Not for users: the engine runs the task."),
        method(c"set_result", standard::refuse, c"Not for users: the engine runs the task."),
        method(c"set_exception", standard::refuse, c"Not for users: the engine runs the task."),
        method(c"_current_state", standard::current_state, c"The state by the standard library's name."),
        method(c"_look", standard::look_name, c"What the task is doing: waiting, running, succeeded, failed or cancelled."),
        method(c"_failed", standard::failed, c"True if the task ended neither with a value nor by a cancellation."),
        // SAFETY: a zeroed definition ends the list.
        unsafe { std::mem::zeroed() },
    ];
    let parts = FutureTypeSpec {
        dealloc: layout::dealloc,
        traverse: layout::traverse,
        clear: layout::clear,
        methods: methods.leak(),
        properties: standard::properties().leak(),
        doc: c"The outcome of one task, now or later.",
        iterate: Some(iterate),
        lookup: None,
    };
    make_plain(py, &parts)
}

unsafe extern "C" fn result(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls methods with a live object and `count` live arguments, and the names' values behind them.
    unsafe {
        with_future(object, |future| {
            if let Some(value) = future.value() {
                return Ok(value);
            }
            let timeout = timeout_argument(future.py(), arguments, count, names)?;
            future.engine().result(future, timeout)
        })
    }
}

unsafe extern "C" fn exception(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `result`.
    unsafe {
        with_future(object, |future| {
            let timeout = timeout_argument(future.py(), arguments, count, names)?;
            future.engine().exception(future, timeout)
        })
    }
}

/// Reads the one argument `timeout`, given by position or by name.
unsafe fn timeout_argument(
    py: Python<'_>,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> PyResult<Option<Duration>> {
    // SAFETY: the callers guarantee it.
    let [timeout] = unsafe { crate::raw::bind(py, [c"timeout"], arguments, count, names)? };
    timeout.map_or(Ok(None), |timeout| optional_seconds(&timeout))
}

macro_rules! question {
    ($name:ident, $request:expr) => {
        unsafe extern "C" fn $name(
            object: *mut ffi::PyObject,
            _arguments: *const *mut ffi::PyObject,
            _count: ffi::Py_ssize_t,
            _names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            // SAFETY: CPython calls methods with a live object.
            unsafe {
                with_future(object, |future| {
                    let request: fn(FutureStatus) -> bool = $request;
                    Ok(crate::raw::boolean(request(standard::look(future)?)))
                })
            }
        }
    };
}

question!(done, FutureStatus::is_final);
question!(running, FutureStatus::is_running);
question!(cancelled, FutureStatus::is_cancelled);

unsafe extern "C" fn cancel(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `result`.
    unsafe {
        with_future(object, |future| {
            let py = future.py();
            let [running, grace] =
                crate::raw::bind(py, [c"running", c"grace"], arguments, count, names)?;
            let running = running.map_or(Ok(false), |running| running.is_truthy())?;
            let grace = grace.filter(|grace| !grace.is_none());
            let grace = grace.map(|grace| option_seconds("grace", &grace)).transpose()?;
            let grace = grace.unwrap_or(Duration::from_secs(1));
            let is_cancelled =
                future.engine().cancel(py, future.task(), running.then_some(grace))?;
            Ok(crate::raw::boolean(is_cancelled))
        })
    }
}

unsafe extern "C" fn add_done_callback(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `result`.
    unsafe {
        with_future(object, |future| {
            let py = future.py();
            let [callback] = crate::raw::bind(py, [c"fn"], arguments, count, names)?;
            let callback = callback
                .filter(Bound::is_callable)
                .ok_or_else(|| PyTypeError::new_err("add_done_callback needs a callable"))?;
            future.track();
            let registry = future.engine().registry(py)?;
            let arguments = (standard::as_object(future), callback);
            Ok(Owned::from_bound(registry.call_method1("add_callback", arguments)?))
        })
    }
}

/// Implements `_gather`: makes the dispatcher thread of this future's engine pass final tasks to the sink before it
/// calls the futures' callbacks.
unsafe extern "C" fn gather(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `result`.
    unsafe {
        with_future(object, |future| {
            let py = future.py();
            let [sink] = crate::raw::bind(py, [c"sink"], arguments, count, names)?;
            let sink = sink.ok_or_else(|| PyTypeError::new_err("_gather needs a sink"))?;
            let registry = future.engine().registry(py)?;
            Ok(Owned::from_bound(registry.call_method1("gather", (sink,))?))
        })
    }
}

/// Implements `timings`: returns the times at which the task passed each stage, in nanoseconds since it was submitted.
unsafe extern "C" fn timings(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as for `result`.
    unsafe { with_future(object, |future| future.engine().timings(future.py(), future.task())) }
}

/// Implements `__await__`: returns the iterator of asyncio's view of the future.
unsafe extern "C" fn iterate(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    const WRAP: &CStr = c"wrap_future";
    // SAFETY: as for `result`.
    unsafe {
        with_future(object, |future| {
            let py = future.py();
            let wrap = py.import("asyncio")?.getattr(WRAP.to_str().unwrap_or_default())?;
            let wrapped = wrap.call1((Bound::from_borrowed_ptr(py, future.as_ptr()),))?;
            Ok(Owned::from_bound(wrapped.call_method0("__await__")?))
        })
    }
}
