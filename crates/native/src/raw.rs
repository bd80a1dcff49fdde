//! Methods that CPython calls directly, without a tuple of arguments: the few where 40 ns are a third of the task.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyFloat;

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

/// Runs the body of a method. An error becomes its exception and a panic a `RuntimeError`; neither unwinds into C.
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
            // PyO3 counts attachments, and defers every release of a reference while it knows of none.
            // SAFETY: as above. The interpreter may have begun to end, which is not checked: finalizers run then, too.
            unsafe { Python::attach_unchecked(|py| error.restore(py)) };
            std::ptr::null_mut()
        }
    }
}

/// Returns the positional values and, behind them, the values of the named arguments.
///
/// # Safety
/// CPython has passed the arguments.
pub unsafe fn all_arguments<'a>(
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> &'a [*mut ffi::PyObject] {
    // SAFETY: the caller guarantees it.
    unsafe {
        let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        let total = (count + named).cast_unsigned();
        if total == 0 { &[] } else { std::slice::from_raw_parts(arguments, total) }
    }
}

/// Assigns the arguments of a call to parameters, by position and by name.
///
/// # Errors
/// `TypeError` for too many, unknown or repeated arguments.
///
/// # Safety
/// CPython has passed the arguments, and the interpreter is held.
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
            "at most {N} arguments can be given, not {count}"
        )));
    }
    // SAFETY: the caller guarantees it: there are `count` values, and behind them one for each name.
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

/// Converts the timeout of a call; `None` for `None`. Negative times are zero, as in the standard library.
///
/// # Errors
/// The errors of `_options.patience`, which names `timeout`: for a value that is not a number, for NaN, and for one
/// that exceeds every float.
#[inline]
pub fn optional_seconds(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_none() {
        return Ok(None);
    }
    let seconds = match value.cast_exact::<PyFloat>() {
        Ok(float) if !float.value().is_nan() => float.value(),
        _ => match checked(value, "patience", (value,))? {
            Some(seconds) => seconds,
            None => return Ok(None),
        },
    };
    Ok(Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}

/// Converts the option `name`, which is a time.
///
/// # Errors
/// The errors of `_options.seconds`, which names the option.
pub fn option_seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: Option<f64> = checked(value, "seconds", (name, value))?;
    Ok(Duration::try_from_secs_f64(seconds.unwrap_or_default()).unwrap_or(Duration::MAX))
}

/// Checks a value with a function of `gristmill._options`.
#[cold]
fn checked<'py>(
    value: &Bound<'py, PyAny>,
    check: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Option<f64>> {
    value.py().import("gristmill._options")?.getattr(check)?.call1(arguments)?.extract()
}

/// Returns `True` or `False` as a new reference.
pub fn boolean(value: bool) -> Owned {
    // SAFETY: both are immortal or counted singletons, and callers hold the interpreter.
    unsafe { Owned::new_reference(if value { ffi::Py_True() } else { ffi::Py_False() }) }
}
