//! An owned reference to a Python object, for the code that calls CPython directly.

use pyo3::ffi;
use pyo3::prelude::*;

/// A reference that is released when dropped. It must be dropped with the interpreter held, as every owner here does.
#[derive(Debug)]
#[repr(transparent)]
pub struct Owned(*mut ffi::PyObject);

impl Owned {
    /// Takes over a new reference. Returns the pending exception if it is null.
    ///
    /// # Errors
    /// The exception that is set if `object` is null.
    #[inline]
    pub fn or_raise(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        if object.is_null() { Err(PyErr::fetch(py)) } else { Ok(Self(object)) }
    }

    /// Takes a new reference to a live object.
    ///
    /// # Safety
    /// The caller holds the interpreter; `object` is live.
    #[inline]
    pub unsafe fn new_reference(object: *mut ffi::PyObject) -> Self {
        // SAFETY: the caller guarantees it.
        Self(unsafe { ffi::Py_NewRef(object) })
    }

    /// Takes over the reference of a safe handle.
    pub fn from_bound(object: Bound<'_, PyAny>) -> Self {
        Self(object.into_ptr())
    }

    /// Returns the object, borrowed.
    #[inline]
    pub const fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0
    }

    /// Passes the reference to the caller.
    #[inline]
    pub const fn into_ptr(self) -> *mut ffi::PyObject {
        let object = self.0;
        std::mem::forget(self);
        object
    }

    /// Converts it into a safe handle.
    pub fn into_bound(self, py: Python<'_>) -> Bound<'_, PyAny> {
        // SAFETY: we own one reference and pass it on.
        unsafe { Bound::from_owned_ptr(py, self.into_ptr()) }
    }
}

/// Returns the objects of owners, borrowed.
pub const fn pointers(owners: &[Owned]) -> &[*mut ffi::PyObject] {
    // SAFETY: an owner consists of exactly one pointer.
    unsafe { std::slice::from_raw_parts(owners.as_ptr().cast(), owners.len()) }
}

/// Returns the items of a tuple, borrowed.
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

/// Returns whether a reference to `object` may close a cycle, so that the collector must know its owner: the object is
/// tracked, or may be one day.
///
/// # Safety
/// `object` is live and the interpreter is held.
#[inline]
pub unsafe fn may_be_in_a_cycle(object: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller guarantees it. Dicts become tracked with their first tracked item; a tuple that the collector
    // has untracked stays so.
    unsafe {
        ffi::PyObject_IS_GC(object) != 0
            && (ffi::PyTuple_CheckExact(object) == 0 || ffi::PyObject_GC_IsTracked(object) != 0)
    }
}

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: we own one reference, and owners are dropped with the interpreter held.
        unsafe { ffi::Py_DECREF(self.0) };
    }
}
