//! Outcomes of encoding and decoding.

use pyo3::PyErr;

/// The result of writing a value in the native form.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeResult {
    /// The bytes are complete.
    Native,
    /// A part has no native form. The caller must discard the output and pickle the whole value.
    Foreign,
    /// There is no memory for a large part; the sink of blocks has the error.
    Unstored,
}

/// Creates the exception for a payload that cannot be read.
pub fn malformed(what: &str) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(format!(
        "a payload cannot be decoded: {what}; client and worker are out of step or memory was damaged"
    ))
}
