//! Buffers in the arguments of a task, which its result may contain.

use pyo3::ffi;
use pyo3::prelude::*;

use crate::nested::is_lent;

unsafe extern "C" {
    /// Returns the view of a pickle buffer, borrowed; null with an exception if it was released. In CPython since 3.8.
    fn PyPickleBuffer_GetBuffer(buffer: *mut ffi::PyObject) -> *const ffi::Py_buffer;
}

/// Marks a buffer as writable for pickling if it is read-only only because it is in an argument of the task: the reader
/// of the pickle gets its own memory.
///
/// # Errors
/// `ValueError` if the buffer was released; `TypeError` if it is no `PickleBuffer`.
#[pyfunction]
pub fn return_lent(buffer: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: the call checks the type. The view belongs to the buffer, which only reads it; nothing here writes
    // through it.
    unsafe {
        let view = PyPickleBuffer_GetBuffer(buffer.as_ptr());
        if view.is_null() {
            return Err(PyErr::fetch(buffer.py()));
        }
        let view = view.cast_mut();
        let (data, size) = ((*view).buf.cast::<u8>(), (*view).len.cast_unsigned());
        if (*view).readonly != 0 && is_lent(data, size) {
            (*view).readonly = 0;
        }
    }
    Ok(())
}
