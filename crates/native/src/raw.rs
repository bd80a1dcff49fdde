//! Methods called by CPython directly, without a tuple of arguments: the handful where 40 ns are a third of the task.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::object::Owned;

/// The signature of `METH_FASTCALL | METH_KEYWORDS`.
pub type FastMethod = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Defines a method.
pub const fn method(name: &'static CStr, body: FastMethod, doc: &'static CStr) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: body },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }
}

/// Runs the body of a method: an error becomes the exception it is, a panic a `RuntimeError`, never an unwinding into C.
#[inline]
pub fn guard(body: impl FnOnce(Python<'_>) -> PyResult<Owned>) -> *mut ffi::PyObject {
    // SAFETY: CPython calls methods with the interpreter held.
    let py = unsafe { Python::assume_attached() };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(py))).unwrap_or_else(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(PyRuntimeError::new_err(format!("gristmill's native part panicked: {reason}")))
    });
    match outcome {
        Ok(value) => value.into_ptr(),
        Err(error) => {
            // PyO3 counts attachments, and puts off every release of a reference while it knows of none.
            Python::attach(|py| error.restore(py));
            std::ptr::null_mut()
        }
    }
}

/// Positional values and, behind them, the values of the named arguments.
///
/// # Safety
/// The arguments are as CPython gave them.
pub unsafe fn all_arguments<'a>(
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> &'a [*mut ffi::PyObject] {
    // SAFETY: passed on from the caller.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let total = (count + named).cast_unsigned();
        if total == 0 { &[] } else { std::slice::from_raw_parts(arguments, total) }
    }
}

/// Sorts the arguments of a call into places by position and name.
///
/// # Errors
/// `TypeError` for too many, unknown or doubled ones.
///
/// # Safety
/// The arguments are as CPython gave them, and the interpreter is held.
pub unsafe fn bind<'py, const N: usize>(
    py: Python<'py>,
    places: [&CStr; N],
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> PyResult<[Option<Bound<'py, PyAny>>; N]> {
    let mut bound = [const { None }; N];
    let count = count.cast_unsigned();
    if count > N {
        return Err(PyTypeError::new_err(format!(
            "at most {N} arguments are possible, not {count}"
        )));
    }
    // SAFETY: passed on from the caller: `count` values, and behind them one for each name.
    unsafe {
        for (index, place) in bound.iter_mut().enumerate().take(count) {
            *place = Some(Bound::from_borrowed_ptr(py, *arguments.add(index)));
        }
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        for index in 0..named {
            let name = Bound::from_borrowed_ptr(py, ffi::PyTuple_GET_ITEM(names, index));
            let name: String = name.extract()?;
            let place = places
                .iter()
                .position(|place| place.to_bytes() == name.as_bytes())
                .ok_or_else(|| PyTypeError::new_err(format!("unexpected argument {name:?}")))?;
            if bound[place].is_some() {
                return Err(PyTypeError::new_err(format!("argument {name:?} is given twice")));
            }
            let value = *arguments.add(count + index.cast_unsigned());
            bound[place] = Some(Bound::from_borrowed_ptr(py, value));
        }
    }
    Ok(bound)
}

/// Seconds as a duration; `None` for `None`. Negative ones are zero, as the standard library has it.
///
/// # Errors
/// `TypeError` for what is no number, `ValueError` for NaN.
pub fn optional_seconds(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_none() {
        return Ok(None);
    }
    let seconds: f64 = value.extract()?;
    if seconds.is_nan() {
        return Err(PyValueError::new_err("a time must be a number of seconds, not NaN"));
    }
    Ok(Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}

/// `True` or `False`, a new reference.
pub fn boolean(value: bool) -> Owned {
    // SAFETY: both are immortal or counted singletons, and callers hold the interpreter.
    unsafe { Owned::new_reference(if value { ffi::Py_True() } else { ffi::Py_False() }) }
}
