//! Numpy arrays of plain numbers, without numpy's headers: read through the buffer protocol, and created with one call
//! of `numpy.empty`.
//!
//! Layout: order (`C` or `F`), numpy's type character, number of dimensions, each extent in 64 bits, the data (or the
//! index of the block that holds it).

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;

use super::outcome::{EncodeResult, malformed};
use super::{BlockSink, BlockSource, tag, with_buffer};
use crate::object::Owned;
use gristmill_shm::BLOCK_MIN;

/// Numpy's limit is 64 from version 2 on; arrays with more dimensions than this are left to pickle.
const DIMENSIONS_MAX: usize = 32;
/// Type characters with the same meaning in the buffer protocol and in numpy.
const PLAIN: &[u8] = b"?bBhHiIlLqQefd";

/// Numpy's array type, learned from the first array that is encoded. Encoding does not import numpy.
#[derive(Debug, Default)]
pub struct ArrayTypes {
    array: OnceLock<usize>,
    /// The first element types seen that have no metadata.
    plain: [OnceLock<Py<PyAny>>; 4],
}

impl ArrayTypes {
    /// Creates an empty set of types.
    pub const fn new() -> Self {
        Self { array: OnceLock::new(), plain: [const { OnceLock::new() }; 4] }
    }

    /// Returns whether `kind` is exactly `numpy.ndarray`.
    pub fn is_array(&self, kind: *mut ffi::PyTypeObject) -> bool {
        if let Some(&known) = self.array.get() {
            return known == kind as usize;
        }
        // SAFETY: `kind` is the type of a live object; its name is a C string that lives as long as the type.
        let name = unsafe { CStr::from_ptr((*kind).tp_name) };
        name == c"numpy.ndarray" && *self.array.get_or_init(|| kind as usize) == kind as usize
    }

    /// Appends an array. Returns `Foreign` if it is not contiguous, has too many dimensions, or has an element type without
    /// a native form (see `numpy_character` and `Self::has_metadata`).
    ///
    /// # Safety
    /// The caller holds the interpreter; `object` is a live array.
    pub unsafe fn encode(
        &self,
        object: *mut ffi::PyObject,
        out: &mut Vec<u8>,
        blocks: &mut dyn BlockSink,
    ) -> EncodeResult {
        // SAFETY: the caller guarantees it.
        if unsafe { self.has_metadata(object) } {
            return EncodeResult::Foreign;
        }
        // SAFETY: the caller guarantees it; the buffer's memory is valid within the closure.
        let encoded = unsafe { with_buffer(object, |buffer| write_buffer(buffer, out, blocks)) };
        encoded.unwrap_or(EncodeResult::Foreign)
    }

    /// Returns whether the element type of an array has metadata, which has no native form.
    ///
    /// # Safety
    /// The same as for [`Self::encode`].
    unsafe fn has_metadata(&self, object: *mut ffi::PyObject) -> bool {
        // SAFETY: the caller holds the interpreter.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: the array is live.
        let array = unsafe { Bound::from_borrowed_ptr(py, object) };
        let Ok(dtype) = array.getattr(intern!(py, "dtype")) else { return false };
        let plain = &self.plain;
        if plain.iter().any(|known| known.get().is_some_and(|known| dtype.is(known))) {
            return false;
        }
        let metadata = dtype.getattr(intern!(py, "metadata"));
        let has_metadata = metadata.is_ok_and(|metadata| !metadata.is_none());
        if !has_metadata && let Some(free) = plain.iter().find(|known| known.get().is_none()) {
            // The answer can be kept: an element type never gains metadata, and numpy has one type object for each
            // plain type.
            let _ = free.set(dtype.unbind());
        }
        has_metadata
    }

    /// Reads an array off the front of `bytes`. Returns it and the rest.
    ///
    /// # Errors
    /// `ValueError` for malformed bytes; any exception that numpy raises.
    pub fn decode<'a>(
        &self,
        py: Python<'_>,
        bytes: &'a [u8],
        blocks: Option<&dyn BlockSource>,
    ) -> PyResult<(Owned, &'a [u8])> {
        let short = || malformed("an array in it ends too early");
        let (&[order, kind, dimensions], mut rest) =
            bytes.split_first_chunk::<3>().ok_or_else(short)?;
        let known =
            matches!(order, b'C' | b'F') && (PLAIN.contains(&kind) || b"FD".contains(&kind));
        if !known || usize::from(dimensions) > DIMENSIONS_MAX {
            return Err(malformed("an array in it has an unknown form"));
        }
        let mut shape = Vec::with_capacity(usize::from(dimensions));
        for _ in 0..dimensions {
            let (extent, behind) = rest.split_first_chunk::<8>().ok_or_else(short)?;
            shape.push(u64::from_le_bytes(*extent));
            rest = behind;
        }
        let count = shape.iter().try_fold(1u64, |count, &extent| count.checked_mul(extent));
        let size = count.and_then(|count| count.checked_mul(item_size(kind)));
        let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(short)?;
        if let Some(blocks) = blocks {
            let (index, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            let index = u32::from_le_bytes(*index);
            if blocks.bytes(index)?.1 != size {
                return Err(malformed("an array in it has another size than its block"));
            }
            let memory = blocks.memory(py, index)?;
            return Ok((view(py, memory, &shape, kind, order)?, rest));
        }
        let (data, rest) = rest.split_at_checked(size).ok_or_else(short)?;
        let array = py.import("numpy")?.call_method1(
            "empty",
            (
                pyo3::types::PyTuple::new(py, &shape)?,
                char::from(kind).to_string(),
                char::from(order).to_string(),
            ),
        )?;
        fill(py, &array, data)?;
        Ok((Owned::from_bound(array), rest))
    }
}

/// Returns the bytes of one element for a type character.
fn item_size(kind: u8) -> u64 {
    match kind {
        b'?' | b'b' | b'B' => 1,
        b'h' | b'H' | b'e' => 2,
        b'i' | b'I' | b'f' => 4,
        b'D' => 16,
        _ => 8,
    }
}

fn numpy_character(format: &CStr) -> Option<u8> {
    match format.to_bytes() {
        [kind] if PLAIN.contains(kind) => Some(*kind),
        b"Zf" => Some(b'F'),
        b"Zd" => Some(b'D'),
        _ => None,
    }
}

/// Writes the contents of a buffer as an array. Returns `Foreign` if the array has no native form.
///
/// # Safety
/// `buffer` is a filled-in contiguous buffer whose memory stays valid during the call.
unsafe fn write_buffer(
    buffer: &ffi::Py_buffer,
    out: &mut Vec<u8>,
    blocks: &mut dyn BlockSink,
) -> EncodeResult {
    let dimensions = usize::try_from(buffer.ndim).unwrap_or(usize::MAX);
    // SAFETY: the format of a buffer requested with PyBUF_FORMAT is a C string, or null for bytes.
    let kind = (!buffer.format.is_null())
        .then(|| unsafe { CStr::from_ptr(buffer.format) })
        .and_then(numpy_character);
    let (Some(kind), Ok(count)) = (kind, u8::try_from(dimensions)) else {
        return EncodeResult::Foreign;
    };
    if dimensions > DIMENSIONS_MAX {
        return EncodeResult::Foreign;
    }
    // SAFETY: `buffer` is filled in.
    let is_c = unsafe { ffi::PyBuffer_IsContiguous(buffer, c_char::from_ne_bytes(*b"C")) } != 0;
    let size = buffer.len.cast_unsigned();
    let is_block = size >= BLOCK_MIN && blocks.takes();
    let tag = if is_block { tag::ARRAY_IN_BLOCK } else { tag::ARRAY };
    out.extend_from_slice(&[tag, if is_c { b'C' } else { b'F' }, kind, count]);
    for index in 0..dimensions {
        // SAFETY: a contiguous buffer of PyBUF_ANY_CONTIGUOUS carries `ndim` extents.
        let extent = unsafe { *buffer.shape.add(index) };
        out.extend_from_slice(&extent.cast_unsigned().to_le_bytes());
    }
    if is_block {
        // SAFETY: a contiguous buffer is `len` readable bytes; an array in the arena holds its block.
        let stored = unsafe { blocks.store(buffer.buf.cast(), size, buffer.readonly != 0) };
        let Some(index) = stored else { return EncodeResult::Unstored };
        out.extend_from_slice(&index.to_le_bytes());
        return EncodeResult::Native;
    }
    if buffer.len > 0 {
        // SAFETY: a contiguous, non-empty buffer is `len` readable bytes at `buf`.
        let data = unsafe {
            std::slice::from_raw_parts(buffer.buf.cast::<u8>(), buffer.len.cast_unsigned())
        };
        out.extend_from_slice(data);
    }
    EncodeResult::Native
}

/// Makes an array over the buffer of `memory`, which the array keeps alive.
fn view(py: Python<'_>, memory: Owned, shape: &[u64], kind: u8, order: u8) -> PyResult<Owned> {
    let array = py.import("numpy")?.getattr("ndarray")?.call1((
        pyo3::types::PyTuple::new(py, shape)?,
        char::from(kind).to_string(),
        memory.into_bound(py),
        0,
        py.None(),
        char::from(order).to_string(),
    ))?;
    Ok(Owned::from_bound(array))
}

/// Copies `data` into a new array of exactly that size.
fn fill(py: Python<'_>, array: &Bound<'_, PyAny>, data: &[u8]) -> PyResult<()> {
    let mut buffer = MaybeUninit::<ffi::Py_buffer>::zeroed();
    let flags = ffi::PyBUF_ANY_CONTIGUOUS | ffi::PyBUF_WRITABLE;
    // SAFETY: `array` is live; the buffer is writable, contiguous and as long as checked, and is released at the end.
    unsafe {
        if ffi::PyObject_GetBuffer(array.as_ptr(), buffer.as_mut_ptr(), flags) < 0 {
            return Err(PyErr::fetch(py));
        }
        let mut buffer = buffer.assume_init();
        let fits = buffer.len.cast_unsigned() == data.len();
        if fits && !data.is_empty() {
            std::ptr::copy_nonoverlapping(data.as_ptr(), buffer.buf.cast::<u8>(), data.len());
        }
        ffi::PyBuffer_Release(&raw mut buffer);
        if fits { Ok(()) } else { Err(malformed("an array in it has another size than its form")) }
    }
}
