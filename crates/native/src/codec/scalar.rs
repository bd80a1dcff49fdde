//! Scalars, which most small tasks take and return: handled before the set-up that other values need.

use std::ffi::c_int;

use pyo3::ffi;

use super::tag;

/// Appends the encoding of a number, a truth value or `None`. For any other object it returns false and appends
/// nothing.
///
/// # Safety
/// The caller holds the interpreter; `object` is a live object.
#[inline]
pub unsafe fn encode_scalar(object: *mut ffi::PyObject, out: &mut Vec<u8>) -> bool {
    // SAFETY: `object` is live, and each branch has checked the exact type that its call needs.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        if kind == &raw mut ffi::PyLong_Type {
            return encode_integer(object, out);
        }
        if kind == &raw mut ffi::PyFloat_Type {
            out.push(tag::FLOAT);
            out.extend_from_slice(&ffi::PyFloat_AS_DOUBLE(object).to_le_bytes());
        } else if object == ffi::Py_None() {
            out.push(tag::NONE);
        } else if object == ffi::Py_True() {
            out.push(tag::TRUE);
        } else if object == ffi::Py_False() {
            out.push(tag::FALSE);
        } else {
            return false;
        }
        true
    }
}

/// Appends the encoding of an integer. Returns false if it needs more than 64 bits.
///
/// # Safety
/// The same as for [`encode_scalar`]; `object` is an `int`.
#[inline]
unsafe fn encode_integer(object: *mut ffi::PyObject, out: &mut Vec<u8>) -> bool {
    let mut overflow: c_int = 0;
    // SAFETY: `object` is an int, for which this call cannot raise.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow) };
    if overflow != 0 {
        return false;
    }
    if let Ok(small) = i8::try_from(value) {
        out.extend_from_slice(&[tag::INT8, small.cast_unsigned()]);
    } else if let Ok(medium) = i32::try_from(value) {
        let [first, second, third, fourth] = medium.to_le_bytes();
        out.extend_from_slice(&[tag::INT32, first, second, third, fourth]);
    } else {
        out.push(tag::INT64);
        out.extend_from_slice(&value.to_le_bytes());
    }
    true
}

/// Returns the bytes that are the only argument of a call; `None` for any other call, and for bytes that lie in a block.
#[inline]
pub fn decode_only_bytes(payload: &[u8]) -> Option<&[u8]> {
    let (size, bytes) = match payload {
        [tag::CALL, 1, 0, tag::BYTES8, size, bytes @ ..] => (usize::from(*size), bytes),
        [tag::CALL, 1, 0, tag::BYTES, rest @ ..] => {
            let (size, bytes) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*size) as usize, bytes)
        }
        _ => return None,
    };
    (bytes.len() == size).then_some(bytes)
}

/// Appends the encoding of bytes that are short enough for a payload without blocks.
#[inline]
pub fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    if let Ok(short) = u8::try_from(bytes.len()) {
        out.extend_from_slice(&[tag::BYTES8, short]);
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "a payload is shorter")]
        let size = bytes.len() as u32;
        out.push(tag::BYTES);
        out.extend_from_slice(&size.to_le_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Creates the scalar at the front of `bytes`. Returns a new reference, or null with an exception set, and the size in
/// bytes. Returns `None` if `bytes` do not begin with a scalar.
///
/// # Safety
/// The caller holds the interpreter.
#[inline]
pub unsafe fn decode_scalar(bytes: &[u8]) -> Option<(*mut ffi::PyObject, usize)> {
    let (&tag, rest) = bytes.split_first()?;
    // SAFETY: the caller guarantees it.
    unsafe {
        Some(match tag {
            tag::INT8 => (ffi::PyLong_FromLong(i8::from_le_bytes(*rest.first_chunk()?).into()), 2),
            tag::INT32 => {
                (ffi::PyLong_FromLong(i32::from_le_bytes(*rest.first_chunk()?).into()), 5)
            }
            tag::INT64 => (ffi::PyLong_FromLongLong(i64::from_le_bytes(*rest.first_chunk()?)), 9),
            tag::FLOAT => (ffi::PyFloat_FromDouble(f64::from_le_bytes(*rest.first_chunk()?)), 9),
            tag::NONE => (ffi::Py_NewRef(ffi::Py_None()), 1),
            tag::TRUE => (ffi::Py_NewRef(ffi::Py_True()), 1),
            tag::FALSE => (ffi::Py_NewRef(ffi::Py_False()), 1),
            _ => return None,
        })
    }
}
