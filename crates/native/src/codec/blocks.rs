//! Large parts of payloads: stored in blocks of the arena instead of in the payload.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;

use super::outcome::malformed;
use crate::object::Owned;

/// Storage for large parts while a value is encoded.
pub trait BlockSink {
    /// Returns whether large parts can be stored beside the payload at all.
    fn takes(&self) -> bool {
        true
    }

    /// Returns the index of a block with these bytes: a copy, or their own block if they are in the arena and cannot
    /// change. Returns `None` if there is no memory; the sink then has the error.
    ///
    /// # Safety
    /// `data` is `size` readable bytes. If they are in the arena, they belong to an object that holds their block.
    unsafe fn store(&mut self, data: *const u8, size: usize, is_readonly: bool) -> Option<u32>;
}

/// A sink that takes no large parts: they stay in the payload.
impl BlockSink for () {
    fn takes(&self) -> bool {
        false
    }

    unsafe fn store(&mut self, _data: *const u8, _size: usize, _is_readonly: bool) -> Option<u32> {
        None
    }
}

/// Access to large parts while a value is decoded.
pub trait BlockSource {
    /// Returns the bytes of a block, which stay valid while the source is borrowed. Other processes may write to them.
    ///
    /// # Errors
    /// `ValueError` if there is no such block.
    fn bytes(&self, index: u32) -> PyResult<(*const u8, usize)>;

    /// Returns an object with the buffer of a block, writable if values from this source should be.
    ///
    /// # Errors
    /// The errors of [`Self::bytes`]; `MemoryError`.
    fn memory(&self, py: Python<'_>, index: u32) -> PyResult<Owned>;
}

/// A source without blocks.
impl BlockSource for () {
    fn bytes(&self, index: u32) -> PyResult<(*const u8, usize)> {
        Err(malformed(&format!("it names block {index} and has none")))
    }

    fn memory(&self, _py: Python<'_>, index: u32) -> PyResult<Owned> {
        Err(malformed(&format!("it names block {index} and has none")))
    }
}

/// Runs `body` with the contiguous buffer of an object. Returns `None` if the object has none.
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
