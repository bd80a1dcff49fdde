//! Calls of native functions that need no Python object: bytes go in, and bytes come out.

use gristmill_shm::BLOCK_MIN;
use gristmill_worker::REPLY_MAX;
use pyo3::prelude::*;

use crate::codec::{decode_only_bytes, encode_bytes};
use crate::native_call::call_on_bytes;

/// The class of the functions that can be called so.
const CLASS: &str = "gristmill.native._functions.Function";
/// Bytes of the largest output that is written so: one that needs no block of the arena and fits into a record.
const OUTPUT_MAX: usize = if BLOCK_MIN < REPLY_MAX / 2 { BLOCK_MIN - 1 } else { REPLY_MAX / 2 };

/// A native function with the interface of buffers, loaded into this process.
pub struct DirectCall {
    address: usize,
    name: String,
    /// Bytes of its output; `None` for as many as the input has.
    capacity: Option<usize>,
}

impl DirectCall {
    /// Returns the function of a loaded callable; `None` if its calls need Python.
    pub fn of(callable: &Bound<'_, PyAny>) -> Option<Self> {
        if callable.get_type().fully_qualified_name().ok()?.to_str().ok()? != CLASS {
            return None;
        }
        let found = callable.call_method0("_direct_call").ok()?;
        let (address, name, capacity) = found.extract().ok()?;
        Some(Self { address, name, capacity })
    }

    /// Calls the function if the payload of the call is one argument of bytes, and appends its encoded result. Returns
    /// false if the call needs Python objects.
    #[inline]
    pub fn try_run(&self, py: Python<'_>, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(input) = decode_only_bytes(payload) else { return false };
        let capacity = self.capacity.unwrap_or(input.len());
        if capacity > OUTPUT_MAX {
            return false;
        }
        let mut output = vec![0; capacity];
        let written = call_on_bytes(py, self.address, &self.name, input, &mut output);
        encode_bytes(&output[..written], out);
        true
    }
}
