//! The pickled form of values without a native form: `gristmill._pickling`, cloudpickle with placeholders for futures.

use gristmill_shm::BLOCK_MIN;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use super::arguments::{Arguments, ParentValues};
use super::outcome::{EncodeResult, malformed};
use super::{BlockSink, BlockSource, tag, with_buffer};
use crate::made_once::MadeOnce;
use crate::object::Owned;

const WRITER: &str = "gristmill._pickling";
const READER: &str = "gristmill._unpickling";

/// The function that reads pickles, looked up once: no module can be imported while the interpreter shuts down.
static LOAD: MadeOnce<Py<PyAny>> = MadeOnce::new();

/// The objects that the pickle of a call names instead of holding them.
pub struct PickledNames<'py> {
    /// The futures among the arguments, in the order of their indices as parents.
    pub futures: Bound<'py, PyList>,
    /// The objects that the arguments share with functions and with other calls. The worker must have them before the call.
    pub needs: Bound<'py, PyList>,
}

/// Appends a pickled call. Returns the objects that it names.
///
/// # Errors
/// `UnpicklableError`, which names the offending part.
pub fn pickle_call<'py>(
    positional: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
    out: &mut Vec<u8>,
    blocks: &mut dyn BlockSink,
) -> PyResult<(EncodeResult, PickledNames<'py>)> {
    let py = positional.py();
    let (buffers, needs) = (PyList::empty(py), PyList::empty(py));
    let taken = blocks.takes().then_some(&buffers);
    let (pickled, futures): (Bound<'py, PyAny>, Bound<'py, PyList>) = py
        .import(WRITER)?
        .call_method1("dump_call", (positional, named, taken, &needs))?
        .extract()?;
    Ok((append(&pickled, &buffers, out, blocks)?, PickledNames { futures, needs }))
}

/// Appends a pickled value.
///
/// # Errors
/// `UnpicklableError`, which names the offending part.
pub fn pickle_value(
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    blocks: &mut dyn BlockSink,
) -> PyResult<EncodeResult> {
    let buffers = PyList::empty(value.py());
    let pickled = value
        .py()
        .import(WRITER)?
        .call_method1("dump_value", (value, blocks.takes().then_some(&buffers)))?;
    append(&pickled, &buffers, out, blocks)
}

fn append(
    pickled: &Bound<'_, PyAny>,
    buffers: &Bound<'_, PyList>,
    out: &mut Vec<u8>,
    blocks: &mut dyn BlockSink,
) -> PyResult<EncodeResult> {
    let bytes = pickled.cast::<PyBytes>()?.as_bytes();
    let is_large = bytes.len() >= BLOCK_MIN && blocks.takes();
    if buffers.is_empty() && !is_large {
        out.push(tag::PICKLE);
        out.extend_from_slice(bytes);
        return Ok(EncodeResult::Native);
    }
    let count = u32::try_from(buffers.len() + usize::from(is_large))?;
    out.push(tag::PICKLE_WITH_BLOCKS);
    out.extend_from_slice(&count.to_le_bytes());
    let large = is_large.then(|| pickled.clone());
    for object in buffers.iter().chain(large) {
        // SAFETY: the object is live, and the interpreter is held.
        let stored = unsafe {
            with_buffer(object.as_ptr(), |buffer| {
                blocks.store(buffer.buf.cast(), buffer.len.cast_unsigned(), buffer.readonly != 0)
            })
        };
        let stored = stored.ok_or_else(|| PyBufferError::new_err("a buffer is not contiguous"))?;
        let Some(index) = stored else { return Ok(EncodeResult::Unstored) };
        out.extend_from_slice(&index.to_le_bytes());
    }
    if !is_large {
        out.extend_from_slice(bytes);
    }
    Ok(EncodeResult::Native)
}

/// Loads a pickle whose placeholders are parents. `bytes` begin with the tag.
///
/// # Errors
/// Any exception that unpickling raises.
pub fn load_pickle(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl ParentValues,
    blocks: &dyn BlockSource,
) -> PyResult<Owned> {
    let (indices, inline) = split(bytes)?;
    let buffers = PyList::empty(py);
    for index in indices {
        buffers.append(blocks.memory(py, index)?.into_bound(py))?;
    }
    let data = if inline.is_empty() && !buffers.is_empty() {
        let last = buffers.get_item(buffers.len() - 1)?;
        buffers.del_item(buffers.len() - 1)?;
        last
    } else {
        PyBytes::new(py, inline).into_any()
    };
    // SAFETY: the object is live; the bytes are copied out at once.
    let count = unsafe {
        with_buffer(data.as_ptr(), |buffer| {
            (buffer.len >= 4).then(|| *buffer.buf.cast::<[u8; 4]>())
        })
    };
    // Our pickles begin with the count of the parents that they refer to, numbered from 0 without gaps.
    let count = count.flatten().ok_or_else(|| malformed("a pickle is too short"))?;
    let values = PyDict::new(py);
    for index in 0..u32::from_le_bytes(count) {
        values.set_item(index, parents.parent(py, index)?.into_bound(py))?;
    }
    let value = load(py)?.call1((data, values, buffers))?;
    Ok(Owned::from_bound(value))
}

/// Returns the function that reads a pickle. The first call imports it.
///
/// # Errors
/// Any exception that the import raises.
pub fn load(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let load = LOAD.get_or_make(py, || Ok(py.import(READER)?.getattr("load")?.unbind()))?;
    Ok(load.bind(py))
}

/// Splits a payload into the indices of its blocks and the bytes behind them.
fn split(bytes: &[u8]) -> PyResult<(Vec<u32>, &[u8])> {
    let short = || malformed("a pickle is too short");
    let (&kind, rest) = bytes.split_first().ok_or_else(short)?;
    if kind == tag::PICKLE {
        return Ok((Vec::new(), rest));
    }
    let (count, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let size = (u32::from_le_bytes(*count) as usize).checked_mul(4).ok_or_else(short)?;
    let (indices, rest) = rest.split_at_checked(size).ok_or_else(short)?;
    let (indices, _) = indices.as_chunks::<4>();
    Ok((indices.iter().map(|index| u32::from_le_bytes(*index)).collect(), rest))
}

pub(super) fn load_call(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl ParentValues,
    blocks: &dyn BlockSource,
    arguments: &mut Arguments,
) -> PyResult<()> {
    let call = load_pickle(py, bytes, parents, blocks)?.into_bound(py);
    let (positional, named): (Bound<'_, PyTuple>, Bound<'_, PyDict>) = call.extract()?;
    arguments.fill(&positional, &named)
}
