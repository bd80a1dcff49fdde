//! One owned reference to a Python object, for the code that speaks to CPython directly.

use pyo3::ffi;
use pyo3::prelude::*;

/// A reference that is given back when dropped. It must be dropped under the interpreter, which every owner here holds.
#[derive(Debug)]
#[repr(transparent)]
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

/// The objects of owners, borrowed.
pub const fn pointers(owners: &[Owned]) -> &[*mut ffi::PyObject] {
    // SAFETY: an owner is the one pointer in it.
    unsafe { std::slice::from_raw_parts(owners.as_ptr().cast(), owners.len()) }
}

/// The items of a tuple, borrowed.
///
/// # Safety
/// `tuple` is a tuple that outlives the slice.
#[inline]
pub unsafe fn tuple_items<'a>(tuple: *mut ffi::PyObject) -> &'a [*mut ffi::PyObject] {
    // SAFETY: a tuple's items lie behind its header, as many as its size says.
    unsafe {
        let first = (&raw const (*tuple.cast::<ffi::PyTupleObject>()).ob_item).cast();
        std::slice::from_raw_parts(first, ffi::PyTuple_GET_SIZE(tuple).cast_unsigned())
    }
}

/// Whether the collector may have to know of whoever refers to `object`: it is tracked, or may be one day.
///
/// # Safety
/// `object` is live and the interpreter is held.
#[inline]
pub unsafe fn may_be_in_a_cycle(object: *mut ffi::PyObject) -> bool {
    // SAFETY: passed on from the caller. Dicts become tracked with their first item that is; a tuple that the collector
    // has let go of stays so.
    unsafe {
        ffi::PyObject_IS_GC(object) != 0
            && (ffi::PyTuple_CheckExact(object) == 0 || ffi::PyObject_GC_IsTracked(object) != 0)
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own one reference, and owners are dropped under the interpreter.
        unsafe { ffi::Py_DECREF(self.0) };
    }
}
