//! Bytes to values.

use pyo3::ffi;
use pyo3::prelude::*;

use super::scalar::decode_scalar;
use super::{ArrayTypes, BlockSource, DEPTH_MAX, tag};
use crate::object::Owned;

/// Gives the values of a task's parents to the decoder.
pub trait Parents {
    /// The value of parent `index`, a new reference; an error when there is none of that index or it does not decode.
    ///
    /// # Errors
    /// The Python exception that the call of the task is to raise.
    fn parent(&mut self, py: Python<'_>, index: u16) -> PyResult<Owned>;
}

/// No parents: for results.
impl Parents for () {
    fn parent(&mut self, _py: Python<'_>, index: u16) -> PyResult<Owned> {
        Err(malformed(&format!("it names parent {index} of a value that has none")))
    }
}

/// What a payload is that cannot be read.
pub fn malformed(what: &str) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(format!(
        "a payload cannot be decoded: {what}; client and worker are out of step or memory was damaged"
    ))
}

/// The arguments of one call, in the form that `PyObject_Vectorcall` takes.
pub struct Arguments {
    /// One free place (which the callee may use), then positional and named values; new references.
    values: Vec<*mut ffi::PyObject>,
    positional: usize,
    names: Option<Owned>,
}

impl Arguments {
    /// An empty set whose storage can be used for many calls.
    pub fn new() -> Box<Self> {
        Box::new(Self { values: vec![std::ptr::null_mut()], positional: 0, names: None })
    }

    /// Calls `function` with the arguments and drops them.
    ///
    /// # Safety
    /// The caller holds the interpreter; `function` is a live object.
    pub unsafe fn call(&mut self, function: *mut ffi::PyObject) -> *mut ffi::PyObject {
        let names = self.names.as_ref().map_or(std::ptr::null_mut(), Owned::as_ptr);
        // SAFETY: `values` holds a free place and then as many live objects as the counts say.
        let result = unsafe {
            ffi::PyObject_Vectorcall(
                function,
                self.values.as_ptr().add(1),
                self.positional | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
                names,
            )
        };
        self.clear();
        result
    }

    /// Drops the arguments.
    pub fn clear(&mut self) {
        for value in self.values.drain(1..) {
            // SAFETY: each value is a reference that this set owns, and `decode_call` ran under the interpreter.
            unsafe { ffi::Py_DECREF(value) };
        }
        self.positional = 0;
        self.names = None;
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Decodes a call into `arguments`, which must be empty.
///
/// # Errors
/// The exception that decoding raised; `arguments` may then be partly filled and is to be cleared.
pub fn decode_call(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl Parents,
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

/// As [`decode_call`], if there is nothing but positional arguments without parts; else false, and `arguments` are empty.
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
        // No memory: the general way will find that too, and say so.
        // SAFETY: as above.
        unsafe { ffi::PyErr_Clear() };
    }
    is_complete
}

fn decode_native_call(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl Parents,
    (arrays, blocks): (&ArrayTypes, &dyn BlockSource),
    arguments: &mut Arguments,
) -> PyResult<()> {
    let mut decoder = Decoder { py, rest: bytes, parents, arrays, blocks, depth: 0, owed: 0 };
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

impl Arguments {
    /// Fills in the arguments of a pickled call.
    pub(super) fn fill(
        &mut self,
        positional: &Bound<'_, pyo3::types::PyTuple>,
        named: &Bound<'_, pyo3::types::PyDict>,
    ) -> PyResult<()> {
        self.positional = positional.len();
        self.values.extend(positional.iter().map(|value| value.into_ptr()));
        if !named.is_empty() {
            self.values.extend(named.values().iter().map(|value| value.into_ptr()));
            let names = named.keys().to_tuple();
            self.names = Some(Owned::from_bound(names.into_any()));
        }
        Ok(())
    }
}

/// The value in `bytes`, if it is one without parts and there is memory for it: a look before [`decode_value`].
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
    parents: &mut impl Parents,
    arrays: &ArrayTypes,
    blocks: &dyn BlockSource,
) -> PyResult<Owned> {
    if let Some(value) = decode_only_scalar(py, bytes) {
        return Ok(value);
    }
    if let Some(&(tag::PICKLE | tag::PICKLE_WITH_BLOCKS)) = bytes.first() {
        return super::pickle::load_pickle(py, bytes, parents, blocks);
    }
    let mut decoder = Decoder { py, rest: bytes, parents, arrays, blocks, depth: 0, owed: 0 };
    let value = decoder.value()?;
    decoder.end()?;
    Ok(value)
}

/// Reads values off the front of `rest`.
pub struct Decoder<'a, 'py, P> {
    py: Python<'py>,
    rest: &'a [u8],
    parents: &'a mut P,
    arrays: &'a ArrayTypes,
    blocks: &'a dyn BlockSource,
    depth: u32,
    /// Elements that the containers around this place still lack.
    owed: usize,
}

impl<'a, P: Parents> Decoder<'a, '_, P> {
    /// Takes `count` bytes.
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
        // Each element needs a byte at least, here and in the containers around: all counts together cannot make us
        // allocate more than the payload justifies.
        if (count as usize).saturating_add(self.owed) > self.rest.len() {
            return Err(malformed("it counts more elements than it has bytes"));
        }
        Ok(count)
    }

    /// The counts of positional and named arguments, from the tag on.
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
        if self.rest.is_empty() { Ok(()) } else { Err(malformed("it goes on behind its end")) }
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

    /// The names of arguments: CPython trusts its callers that they are strings.
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
        // SAFETY: a new tuple's items are set once each, in order, before anybody else sees it; dropping it early drops
        // those that were set.
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
        // SAFETY: `dict` is a dict, and `key` and `value` are live; setting an item takes references of its own.
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
