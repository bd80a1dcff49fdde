//! The codec alone, for its tests: encoding and decoding without an engine between.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{
    Arguments, ArrayTypes, EncodeResult, decode_call, decode_value, encode_value, pickle_value,
};
use crate::object::Owned;

/// Encodes a value as the payload of a result.
#[pyfunction]
pub fn encode_payload<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    // SAFETY: the interpreter is held and `value` is live.
    if unsafe { encode_value(value.as_ptr(), &mut out, &ArrayTypes::new(), &mut ()) }
        == EncodeResult::Foreign
    {
        out.clear();
        let _ = pickle_value(value, &mut out, &mut ())?;
    }
    Ok(PyBytes::new(value.py(), &out))
}

/// Decodes the payload of a result.
#[pyfunction]
pub fn decode_payload<'py>(py: Python<'py>, payload: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode_value(py, payload, &mut (), &ArrayTypes::new(), &()).map(|value| value.into_bound(py))
}

/// Calls `function` with the arguments in the payload of a call.
#[pyfunction]
pub fn call_payload<'py>(
    function: &Bound<'py, PyAny>,
    payload: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let mut arguments = Arguments::new();
    decode_call(py, payload, &mut (), (&ArrayTypes::new(), &()), &mut arguments)?;
    // SAFETY: the interpreter is held and `function` is live.
    let result: *mut ffi::PyObject = unsafe { arguments.call(function.as_ptr()) };
    Owned::or_raise(py, result).map(|value| value.into_bound(py))
}
