//! The way out for values without a native form: `gristmill._pickling`, which is cloudpickle with futures as holes.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use super::decode::{Arguments, Parents, malformed};
use super::tag;
use crate::object::Owned;

const MODULE: &str = "gristmill._pickling";

/// Appends a pickled call; gives the futures among its arguments, in the order of their indices as parents.
///
/// # Errors
/// `UnpicklableError`, which names the offending part.
pub fn pickle_call<'py>(
    positional: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
    out: &mut Vec<u8>,
) -> PyResult<Bound<'py, PyList>> {
    let module = positional.py().import(MODULE)?;
    let (pickled, futures): (Bound<'py, PyAny>, Bound<'py, PyList>) =
        module.call_method1("dump_call", (positional, named))?.extract()?;
    append(&pickled, out)?;
    Ok(futures)
}

/// Appends a pickled value.
///
/// # Errors
/// `UnpicklableError`, which names the offending part.
pub fn pickle_value(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let pickled = value.py().import(MODULE)?.call_method1("dump_value", (value,))?;
    append(&pickled, out)
}

fn append(pickled: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    out.push(tag::PICKLE);
    out.extend_from_slice(pickled.cast::<PyBytes>()?.as_bytes());
    Ok(())
}

/// Reads a pickle whose holes are parents.
///
/// # Errors
/// Whatever unpickling raises.
pub fn load_pickle(py: Python<'_>, bytes: &[u8], parents: &mut impl Parents) -> PyResult<Owned> {
    let values = PyDict::new(py);
    for index in parents_named(bytes)? {
        values.set_item(index, parents.parent(py, index)?.into_bound(py))?;
    }
    let value = py.import(MODULE)?.call_method1("load", (PyBytes::new(py, bytes), values))?;
    Ok(Owned::from_bound(value))
}

/// A pickle of ours begins with the number of parents that it names, all of them 0 to that number.
fn parents_named(bytes: &[u8]) -> PyResult<std::ops::Range<u16>> {
    let count = bytes.first_chunk::<2>().ok_or_else(|| malformed("a pickle is too short"))?;
    Ok(0..u16::from_le_bytes(*count))
}

pub(super) fn load_call(
    py: Python<'_>,
    bytes: &[u8],
    parents: &mut impl Parents,
    arguments: &mut Arguments,
) -> PyResult<()> {
    let call = load_pickle(py, bytes, parents)?.into_bound(py);
    let (positional, named): (Bound<'_, PyTuple>, Bound<'_, PyDict>) = call.extract()?;
    arguments.fill(&positional, &named)
}
