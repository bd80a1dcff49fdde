//! What `concurrent.futures` itself reads of its futures: the private attributes of the base class, as views.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::layout::FutureRef;
use super::methods::with_future;
use crate::engine::Look;
use crate::object::Owned;

/// The state of a future's task.
pub(super) fn look(future: FutureRef<'_>) -> PyResult<Look> {
    future.engine().look(future.py(), future.task())
}

/// The state by the name that the standard library has for it.
fn state_name(look: Look) -> &'static str {
    match look {
        Look::Waiting => "PENDING",
        Look::Running => "RUNNING",
        Look::Cancelled => "CANCELLED_AND_NOTIFIED",
        Look::Succeeded | Look::Failed => "FINISHED",
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

/// `_look`: the state by the engine's own name.
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
                Look::Waiting => "waiting",
                Look::Running => "running",
                Look::Succeeded => "succeeded",
                Look::Failed => "failed",
                Look::Cancelled => "cancelled",
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
        with_future(object, |future| Ok(crate::raw::boolean(matches!(look(future)?, Look::Failed))))
    }
}

/// `set_result` and its like: the engine sets results, nobody else.
pub(super) unsafe extern "C" fn refuse(
    object: *mut ffi::PyObject,
    _arguments: *const *mut ffi::PyObject,
    _count: ffi::Py_ssize_t,
    _names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        with_future(object, |_| {
            Err(PyRuntimeError::new_err("the engine sets the outcome of its futures, nobody else"))
        })
    }
}

/// A property computed by `of`.
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

/// The properties of the type; a zeroed one ends the list.
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
            Look::Succeeded => future.engine().result(future, None),
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
            Look::Failed => future.engine().exception(future, None),
            _ => Ok(Owned::from_bound(future.py().None().into_bound(future.py()))),
        })
    }
}
