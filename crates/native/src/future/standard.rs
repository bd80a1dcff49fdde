//! The private attributes of the base class that `concurrent.futures` reads from its futures, as views.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::guarded::with_future;
use super::layout::FutureRef;
use crate::engine::FutureStatus;
use crate::object::Owned;

/// Returns the status of a future's task.
pub(super) fn look(future: FutureRef<'_>) -> PyResult<FutureStatus> {
    future.engine().look(future.py(), future.task())
}

/// Returns the state by its name in the standard library.
fn state_name(look: FutureStatus) -> &'static str {
    match look {
        FutureStatus::Waiting => "PENDING",
        FutureStatus::Running => "RUNNING",
        FutureStatus::Cancelled => "CANCELLED_AND_NOTIFIED",
        FutureStatus::Succeeded | FutureStatus::Failed => "FINISHED",
    }
}

pub(super) unsafe extern "C" fn current_state(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls methods with a live object, here and below.
    unsafe {
        with_future(object, |future| {
            let name = state_name(look(future)?);
            Ok(Owned::from_bound(pyo3::types::PyString::intern(future.py(), name).into_any()))
        })
    }
}

/// Implements `_look`: returns the status by the engine's own name.
pub(super) unsafe extern "C" fn look_name(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| {
            let name = match look(future)? {
                FutureStatus::Waiting => "waiting",
                FutureStatus::Running => "running",
                FutureStatus::Succeeded => "succeeded",
                FutureStatus::Failed => "failed",
                FutureStatus::Cancelled => "cancelled",
            };
            Ok(Owned::from_bound(pyo3::types::PyString::intern(future.py(), name).into_any()))
        })
    }
}

pub(super) unsafe extern "C" fn failed(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| {
            Ok(crate::raw::boolean(matches!(look(future)?, FutureStatus::Failed)))
        })
    }
}

/// Implements `set_result` and its like, which fail: only the engine sets results.
pub(super) unsafe extern "C" fn refuse(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |_| {
            Err(PyRuntimeError::new_err("only the engine sets the outcome of its futures"))
        })
    }
}

/// Defines a property that `of` computes.
pub(super) fn property(
    name: &'static CStr,
    of: unsafe extern "C" fn(*mut ffi::PyObject, *mut c_void) -> *mut ffi::PyObject,
) -> ffi::PyGetSetDef {
    ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(of),
        set: None,
        doc: std::ptr::null(),
        closure: std::ptr::null_mut(),
    }
}

/// Returns the properties of the type; a zeroed one ends the list.
pub(super) fn properties() -> Vec<ffi::PyGetSetDef> {
    vec![
        property(c"_state", state),
        property(c"_condition", condition),
        property(c"_waiters", waiters),
        property(c"_task", task_word),
        property(c"_result", known_result),
        property(c"_exception", known_exception),
        // SAFETY: all fields of the definition may be zero.
        unsafe { std::mem::zeroed() },
    ]
}

pub(super) fn as_object<'py>(future: FutureRef<'py>) -> Bound<'py, PyAny> {
    // SAFETY: a future reference is a live object.
    unsafe { Bound::from_borrowed_ptr(future.py(), future.as_ptr()) }
}

unsafe extern "C" fn state(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| {
            let condition = future.engine().registry(future.py())?.getattr("condition")?;
            Ok(Owned::from_bound(condition.call_method1("state", (as_object(future),))?))
        })
    }
}

unsafe extern "C" fn condition(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| {
            Ok(Owned::from_bound(future.engine().registry(future.py())?.getattr("condition")?))
        })
    }
}

unsafe extern "C" fn waiters(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| {
            let py = future.py();
            future.track();
            let registry = future.engine().registry(py)?;
            let kind = py.import("gristmill._completion")?.getattr("Waiters")?;
            Ok(Owned::from_bound(kind.call1((registry, as_object(future)))?))
        })
    }
}

unsafe extern "C" fn task_word(object: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| {
            let word = future.task().word().into_pyobject(future.py())?;
            Ok(Owned::from_bound(word.into_any()))
        })
    }
}

unsafe extern "C" fn known_result(
    object: *mut ffi::PyObject,
    _: *mut c_void,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| match look(future)? {
            FutureStatus::Succeeded => future.engine().result(future, None),
            _ => Ok(Owned::from_bound(future.py().None().into_bound(future.py()))),
        })
    }
}

unsafe extern "C" fn known_exception(
    object: *mut ffi::PyObject,
    _: *mut c_void,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |future| match look(future)? {
            FutureStatus::Failed => future.engine().exception(future, None),
            _ => Ok(Owned::from_bound(future.py().None().into_bound(future.py()))),
        })
    }
}
