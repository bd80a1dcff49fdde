//! Decoding of bytes to values.

use pyo3::ffi;
use pyo3::prelude::*;

use super::arguments::{Arguments, ParentValues};
use super::outcome::malformed;
use super::scalar::decode_scalar;
use super::{ArrayTypes, BlockSource, DEPTH_MAX, tag};
use crate::object::Owned;

/// Decodes a call into `arguments`, which must be empty.
///
/// # Errors
/// The exception that decoding raised; `arguments` may then be partly filled, and the caller must clear it.
pub fn decode_call(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl ParentValues,
    (arrays, blocks): (&ArrayTypes, &dyn BlockSource),
    arguments: &mut Arguments,
) -> PyResult<()> {
    match bytes.first() {
        Some(&(tag::CALL | tag::WIDE_CALL)) => {
            decode_native_call(py, bytes, parents, (arrays, blocks), arguments)
        }
        Some(&(tag::PICKLE | tag::PICKLE_WITH_BLOCKS)) => {
            super::pickle::load_call(py, bytes, parents, blocks, arguments)
        }
        _ => Err(malformed("it does not begin as a call")),
    }
}

/// Does the same as [`decode_call`] if all arguments are positional scalars. Otherwise returns false and leaves
/// `arguments` empty.
#[inline]
pub fn decode_scalars(_py: Python<'_>, bytes: &[u8], arguments: &mut Arguments) -> bool {
    let [tag::CALL, positional, 0, rest @ ..] = bytes else { return false };
    let mut rest = rest;
    for _ in 0..*positional {
        // SAFETY: `_py` proves that we hold the interpreter.
        let decoded = unsafe { decode_scalar(rest) }.filter(|(object, _)| !object.is_null());
        let Some((object, size)) = decoded else { break };
        arguments.values.push(object);
        rest = &rest[size..];
    }
    arguments.positional = usize::from(*positional);
    let is_complete = rest.is_empty() && arguments.values.len() == arguments.positional + 1;
    if !is_complete {
        arguments.clear();
        // If there was no memory, the general path also finds that, and reports it.
        // SAFETY: as above.
        unsafe { ffi::PyErr_Clear() };
    }
    is_complete
}

fn decode_native_call(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl ParentValues,
    (arrays, blocks): (&ArrayTypes, &dyn BlockSource),
    arguments: &mut Arguments,
) -> PyResult<()> {
    let mut decoder = ValueDecoder { py, rest: bytes, parents, arrays, blocks, depth: 0, owed: 0 };
    let (positional, named) = decoder.call_counts()?;
    arguments.positional = positional;
    arguments.values.reserve(positional + named as usize);
    for _ in 0..positional + named as usize {
        decoder.owed -= 1;
        let value = decoder.value()?;
        arguments.values.push(value.into_ptr());
    }
    if named > 0 {
        decoder.owed -= named as usize;
        arguments.names = Some(decoder.names(named)?);
    }
    decoder.end()
}

/// Returns the value in `bytes` if it is a scalar and there is memory for it: a fast path before [`decode_value`].
#[inline]
pub fn decode_only_scalar(py: Python<'_>, bytes: &[u8]) -> Option<Owned> {
    // SAFETY: `py` proves that we hold the interpreter.
    let (object, size) = unsafe { decode_scalar(bytes) }?;
    let value = Owned::or_raise(py, object).ok()?;
    (size == bytes.len()).then_some(value)
}

/// Decodes one value.
///
/// # Errors
/// The exception that decoding raised.
pub fn decode_value(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl ParentValues,
    arrays: &ArrayTypes,
    blocks: &dyn BlockSource,
) -> PyResult<Owned> {
    if let Some(value) = decode_only_scalar(py, bytes) {
        return Ok(value);
    }
    if let Some(&(tag::PICKLE | tag::PICKLE_WITH_BLOCKS)) = bytes.first() {
        return super::pickle::load_pickle(py, bytes, parents, blocks);
    }
    let mut decoder = ValueDecoder { py, rest: bytes, parents, arrays, blocks, depth: 0, owed: 0 };
    let value = decoder.value()?;
    decoder.end()?;
    Ok(value)
}

/// A reader of values off the front of `rest`.
pub struct ValueDecoder<'a, 'py, P> {
    py: Python<'py>,
    rest: &'a [u8],
    parents: &'a mut P,
    arrays: &'a ArrayTypes,
    blocks: &'a dyn BlockSource,
    depth: u32,
    /// Elements that the enclosing containers still lack.
    owed: usize,
}

impl<'a, P: ParentValues> ValueDecoder<'a, '_, P> {
    /// Takes `count` bytes off the front.
    #[inline]
    fn take(&mut self, count: usize) -> PyResult<&'a [u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> PyResult<[u8; N]> {
        let (taken, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| malformed("it ends too early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn count(&mut self) -> PyResult<u32> {
        let count = u32::from_le_bytes(self.array()?);
        // Each element needs at least a byte, here and in the enclosing containers: so all counts together cannot make
        // us allocate more than the payload justifies.
        if (count as usize).saturating_add(self.owed) > self.rest.len() {
            return Err(malformed("it counts more elements than it has bytes"));
        }
        Ok(count)
    }

    /// Reads the tag of a call and its counts of positional and named arguments.
    #[inline]
    fn call_counts(&mut self) -> PyResult<(usize, u32)> {
        let [tag] = self.array()?;
        let (positional, named) = if tag == tag::CALL {
            let [positional, named] = self.array()?;
            (u32::from(positional), u32::from(named))
        } else {
            let (positional, named) = (self.array()?, self.array()?);
            (u32::from_le_bytes(positional), u32::from_le_bytes(named))
        };
        // A named argument is a value and a name; both are owed like the elements of a container.
        self.owed = (positional as usize).saturating_add(2 * named as usize);
        if self.owed > self.rest.len() {
            return Err(malformed("it counts more arguments than it has bytes"));
        }
        Ok((positional as usize, named))
    }

    fn end(&self) -> PyResult<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(malformed("it has bytes behind its end")) }
    }

    #[inline]
    fn value(&mut self) -> PyResult<Owned> {
        // SAFETY: `py` proves that we hold the interpreter.
        if let Some((object, size)) = unsafe { decode_scalar(self.rest) } {
            self.rest = &self.rest[size..];
            return Owned::or_raise(self.py, object);
        }
        let [tag] = self.array()?;
        self.sized_value(tag)
    }

    fn sized_value(&mut self, tag: u8) -> PyResult<Owned> {
        match tag {
            tag::ASCII8 => {
                let [size] = self.array()?;
                self.string(usize::from(size))
            }
            tag::STR => {
                let size = self.count()?;
                self.string(size as usize)
            }
            tag::BYTES8 => {
                let [size] = self.array()?;
                self.byte_string(usize::from(size))
            }
            tag::BYTES => {
                let size = self.count()?;
                self.byte_string(size as usize)
            }
            tag::COMPLEX => {
                let (real, imaginary) = (self.array()?, self.array()?);
                // SAFETY: `py` proves that we hold the interpreter.
                let object = unsafe {
                    ffi::PyComplex_FromDoubles(
                        f64::from_le_bytes(real),
                        f64::from_le_bytes(imaginary),
                    )
                };
                Owned::or_raise(self.py, object)
            }
            tag::PARENT => {
                let index = u16::from_le_bytes(self.array()?);
                self.parents.parent(self.py, index.into())
            }
            tag::FAR_PARENT => {
                let index = u32::from_le_bytes(self.array()?);
                self.parents.parent(self.py, index)
            }
            tag::BYTES_IN_BLOCK => {
                let (bytes, size) = self.blocks.bytes(u32::from_le_bytes(self.array()?))?;
                // SAFETY: the source gives `size` readable bytes, which are copied.
                let object =
                    unsafe { ffi::PyBytes_FromStringAndSize(bytes.cast(), size.cast_signed()) };
                Owned::or_raise(self.py, object)
            }
            tag::STR_IN_BLOCK => {
                let (bytes, size) = self.blocks.bytes(u32::from_le_bytes(self.array()?))?;
                // SAFETY: the source gives `size` readable bytes; Python validates the UTF-8.
                let object = unsafe {
                    ffi::PyUnicode_DecodeUTF8(bytes.cast(), size.cast_signed(), std::ptr::null())
                };
                Owned::or_raise(self.py, object)
            }
            tag::TUPLE | tag::LIST | tag::DICT | tag::ARRAY | tag::ARRAY_IN_BLOCK => {
                if self.depth == DEPTH_MAX + 1 {
                    return Err(malformed("its values are nested too deeply"));
                }
                self.depth += 1;
                let value = self.container(tag);
                self.depth -= 1;
                value
            }
            tag::INT8 | tag::INT32 | tag::INT64 | tag::FLOAT => Err(malformed("it ends too early")),
            _ => Err(malformed(&format!("it has the unknown tag {tag}"))),
        }
    }

    fn container(&mut self, tag: u8) -> PyResult<Owned> {
        match tag {
            tag::TUPLE => {
                let count = self.count()?;
                self.tuple(count)
            }
            tag::LIST => self.list(),
            tag::DICT => self.dict(),
            _ => {
                let blocks = (tag == tag::ARRAY_IN_BLOCK).then_some(self.blocks);
                let (value, rest) = self.arrays.decode(self.py, self.rest, blocks)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    fn string(&mut self, size: usize) -> PyResult<Owned> {
        let bytes = self.take(size)?;
        // SAFETY: `bytes` are `size` readable bytes; Python validates the UTF-8.
        let object = unsafe {
            ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), size.cast_signed(), std::ptr::null())
        };
        Owned::or_raise(self.py, object)
    }

    fn byte_string(&mut self, size: usize) -> PyResult<Owned> {
        let bytes = self.take(size)?;
        // SAFETY: `bytes` are `size` readable bytes.
        let object =
            unsafe { ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), size.cast_signed()) };
        Owned::or_raise(self.py, object)
    }

    /// Reads the names of arguments and checks that they are strings, because CPython does not check that.
    fn names(&mut self, count: u32) -> PyResult<Owned> {
        let names = self.tuple(count)?;
        for index in 0..(count as usize).cast_signed() {
            // SAFETY: `names` is a full tuple of `count` items.
            let is_name = unsafe {
                ffi::PyUnicode_CheckExact(ffi::PyTuple_GET_ITEM(names.as_ptr(), index)) != 0
            };
            if !is_name {
                return Err(malformed("the name of an argument in it is no string"));
            }
        }
        Ok(names)
    }

    fn tuple(&mut self, count: u32) -> PyResult<Owned> {
        let count = (count as usize).cast_signed();
        // SAFETY: each item of the new tuple is set once, in order, before other code sees the tuple; dropping it early
        // drops the items that were set.
        unsafe {
            let tuple = Owned::or_raise(self.py, ffi::PyTuple_New(count))?;
            self.owed += count.cast_unsigned();
            for index in 0..count {
                self.owed -= 1;
                let value = self.value()?;
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index, value.into_ptr());
            }
            Ok(tuple)
        }
    }

    fn list(&mut self) -> PyResult<Owned> {
        let count = (self.count()? as usize).cast_signed();
        // SAFETY: as for tuples.
        unsafe {
            let list = Owned::or_raise(self.py, ffi::PyList_New(count))?;
            self.owed += count.cast_unsigned();
            for index in 0..count {
                self.owed -= 1;
                let value = self.value()?;
                ffi::PyList_SET_ITEM(list.as_ptr(), index, value.into_ptr());
            }
            Ok(list)
        }
    }

    fn dict(&mut self) -> PyResult<Owned> {
        let count = self.count()?;
        // SAFETY: `dict` is a dict, and `key` and `value` are live; setting an item takes its own references.
        unsafe {
            let dict = Owned::or_raise(self.py, ffi::PyDict_New())?;
            for _ in 0..count {
                let key = self.value()?;
                let value = self.value()?;
                if ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) < 0 {
                    return Err(PyErr::fetch(self.py));
                }
            }
            Ok(dict)
        }
    }
}
