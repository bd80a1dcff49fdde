//! Whether the collector of cycles looks at an object: what is made by the million and leads nowhere back for most of its
//! life need not cost a look at each of its passes.

use pyo3::ffi;
use pyo3::prelude::*;

/// Hides an object from the collector: a cycle through it is not found until it is shown again.
#[pyfunction]
pub fn hide_from_collector(object: &Bound<'_, PyAny>) {
    // SAFETY: the object is live, one of those that can be tracked, and `object` proves that the interpreter is held.
    unsafe {
        if ffi::PyObject_IS_GC(object.as_ptr()) != 0 {
            ffi::PyObject_GC_UnTrack(object.as_ptr().cast());
        }
    }
}

/// Shows an object to the collector; nothing happens if it was never hidden.
#[pyfunction]
pub fn show_to_collector(object: &Bound<'_, PyAny>) {
    // SAFETY: as above, and it is not tracked twice. Its type has made all of its fields valid.
    unsafe {
        let object = object.as_ptr();
        if ffi::PyObject_IS_GC(object) != 0 && ffi::PyObject_GC_IsTracked(object) == 0 {
            ffi::PyObject_GC_Track(object.cast());
        }
    }
}
