//! Large parts of payloads: blocks of the arena instead of bytes of the payload.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;

use super::malformed;
use crate::object::Owned;

/// Takes large parts in.
pub trait BlockSink {
    /// Whether there is a place for large parts beside the payload at all.
    fn takes(&self) -> bool {
        true
    }

    /// The index of a block with these bytes: a copy, or, if they are in the arena and cannot change, their very place.
    /// `None` when there is no memory: the sink knows why.
    ///
    /// # Safety
    /// `data` is `size` readable bytes; they belong to an object that holds its block if they are in the arena.
    unsafe fn store(&mut self, data: *const u8, size: usize, is_readonly: bool) -> Option<u32>;
}

/// No place for large parts: they stay in the payload.
impl BlockSink for () {
    fn takes(&self) -> bool {
        false
    }

    unsafe fn store(&mut self, _data: *const u8, _size: usize, _is_readonly: bool) -> Option<u32> {
        None
    }
}

/// Gives them out.
pub trait BlockSource {
    /// The bytes of a block, which stay valid while the source is borrowed. Other processes may write to them.
    ///
    /// # Errors
    /// `ValueError`: there is no such block.
    fn bytes(&self, index: u32) -> PyResult<(*const u8, usize)>;

    /// An object with the buffer of a block, as writable as values from this source are to be.
    ///
    /// # Errors
    /// As [`Self::bytes`]; `MemoryError`.
    fn memory(&self, py: Python<'_>, index: u32) -> PyResult<Owned>;
}

/// No blocks at all.
impl BlockSource for () {
    fn bytes(&self, index: u32) -> PyResult<(*const u8, usize)> {
        Err(malformed(&format!("it names block {index} and has none")))
    }

    fn memory(&self, _py: Python<'_>, index: u32) -> PyResult<Owned> {
        Err(malformed(&format!("it names block {index} and has none")))
    }
}

/// Runs `body` with the contiguous buffer of an object; `None` when it has none.
///
/// # Safety
/// The caller holds the interpreter; `object` is live.
pub unsafe fn with_buffer<R>(
    object: *mut ffi::PyObject,
    body: impl FnOnce(&ffi::Py_buffer) -> R,
) -> Option<R> {
    let mut buffer = MaybeUninit::<ffi::Py_buffer>::zeroed();
    let flags = ffi::PyBUF_ANY_CONTIGUOUS | ffi::PyBUF_FORMAT;
    // SAFETY: `object` is live; on success `buffer` is filled in, and released below.
    unsafe {
        if ffi::PyObject_GetBuffer(object, buffer.as_mut_ptr(), flags) < 0 {
            ffi::PyErr_Clear();
            return None;
        }
        let mut buffer = buffer.assume_init();
        let result = body(&buffer);
        ffi::PyBuffer_Release(&raw mut buffer);
        Some(result)
    }
}
