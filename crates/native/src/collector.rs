//! Control of the garbage collector's tracking of an object: an object that is made by the million, and is in no cycle
//! for most of its life, need not cost time in each collection.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;

use crate::engine::ForeignFutureError;

/// Hides an instance of a Python class from the collector, which finds no cycle through it until it is shown again.
///
/// # Errors
/// `TypeError` for any other object: destructors written in C may rely on the collector's links.
#[pyfunction]
pub fn hide_from_collector(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let of_python = ForeignFutureError::type_object(object.py());
    // SAFETY: the object and the class are live, and `object` proves that the interpreter is held. All instances of
    // classes made by a `class` statement (and the exception's class was in effect made so) have the same destructor,
    // which accepts untracked objects.
    unsafe {
        let destructor = (*ffi::Py_TYPE(object.as_ptr())).tp_dealloc;
        let of_classes = (*of_python.as_type_ptr()).tp_dealloc;
        if destructor.map(|it| it as usize) != of_classes.map(|it| it as usize) {
            let kind = object.get_type().name()?;
            let text = format!(
                "only instances of Python classes can be hidden from the collector, not a {kind}"
            );
            return Err(PyTypeError::new_err(text));
        }
        if ffi::PyObject_IS_GC(object.as_ptr()) != 0 {
            ffi::PyObject_GC_UnTrack(object.as_ptr().cast());
        }
    }
    Ok(())
}

/// Shows an object to the collector. Does nothing if it was never hidden.
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
