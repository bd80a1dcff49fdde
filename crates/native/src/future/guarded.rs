//! Methods of futures as CPython calls them: with an object that must be a future.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::layout::FutureRef;
use crate::object::Owned;
use crate::raw::guard;

/// Runs a method with the future, its arguments and the interpreter. An error becomes an exception, and so does a
/// panic.
pub(super) unsafe fn with_future(
    object: *mut ffi::PyObject,
    body: impl FnOnce(FutureRef<'_>) -> PyResult<Owned>,
) -> *mut ffi::PyObject {
    guard(|py| {
        let future = FutureRef::from_ptr(py, object)
            .ok_or_else(|| PyTypeError::new_err("this is no future of gristmill"))?;
        body(future)
    })
}
