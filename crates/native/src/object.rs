//! One owned reference to a Python object, for the code that speaks to CPython directly.

use pyo3::ffi;
use pyo3::prelude::*;

/// A reference that is given back when dropped. It must be dropped under the interpreter, which every owner here holds.
#[derive(Debug)]
pub struct Owned(*mut ffi::PyObject);

impl Owned {
    /// Takes over a new reference, or the exception that a null stands for.
    ///
    /// # Errors
    /// The exception that is set when `object` is null.
    #[inline]
    pub fn or_raise(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        if object.is_null() { Err(PyErr::fetch(py)) } else { Ok(Self(object)) }
    }

    /// Takes a reference of its own to a live object.
    ///
    /// # Safety
    /// The caller holds the interpreter; `object` is live.
    #[inline]
    pub unsafe fn new_reference(object: *mut ffi::PyObject) -> Self {
        // SAFETY: passed on from the caller.
        Self(unsafe { ffi::Py_NewRef(object) })
    }

    /// Takes over the reference of a safe handle.
    pub fn from_bound(object: Bound<'_, PyAny>) -> Self {
        Self(object.into_ptr())
    }

    /// The object, borrowed.
    #[inline]
    pub const fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0
    }

    /// Gives the reference up to the caller.
    #[inline]
    pub const fn into_ptr(self) -> *mut ffi::PyObject {
        let object = self.0;
        std::mem::forget(self);
        object
    }

    /// Turns it into a safe handle.
    pub fn into_bound(self, py: Python<'_>) -> Bound<'_, PyAny> {
        // SAFETY: we own one reference and give it away.
        unsafe { Bound::from_owned_ptr(py, self.into_ptr()) }
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own one reference, and owners are dropped under the interpreter.
        unsafe { ffi::Py_DECREF(self.0) };
    }
}
