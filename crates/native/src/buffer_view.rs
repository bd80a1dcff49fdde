//! Views of memory that a Python object owns, by the buffer protocol.

use std::ffi::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Memory that an object gives views of.
pub struct OwnedMemory {
    pub pointer: *mut u8,
    /// Number of bytes.
    pub size: usize,
    pub is_readonly: bool,
}

/// Fills in the view that `__getbuffer__` of the memory's owner was passed, with the `flags` that it was passed.
///
/// # Errors
/// `BufferError`: the memory is read-only and the flags request a writable view.
///
/// # Safety
/// The view and the flags are those that Python has passed. The memory is there for as long as `owner` lives; the view takes a
/// reference to it.
pub unsafe fn fill_view(
    owner: &Bound<'_, PyAny>,
    (view, flags): (*mut ffi::Py_buffer, c_int),
    memory: &OwnedMemory,
) -> PyResult<()> {
    let (pointer, size) = (memory.pointer.cast(), memory.size.cast_signed());
    let is_readonly = c_int::from(memory.is_readonly);
    // SAFETY: the caller guarantees it.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), pointer, size, is_readonly, flags) };
    if filled < 0 {
        return Err(PyErr::take(owner.py())
            .unwrap_or_else(|| PyBufferError::new_err("the memory has no such buffer")));
    }
    Ok(())
}
