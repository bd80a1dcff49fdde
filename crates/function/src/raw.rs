//! The structure of a call, as `gristmill_call.h` declares it.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

/// A call in the memory of the caller. A structure of an older header ends before the last fields.
#[repr(C)]
pub struct RawCall {
    /// Bytes of the structure.
    pub(crate) size: u64,
    pub(crate) input: RawBuffer,
    pub(crate) output: RawOutput,
    pub(crate) error: RawText,
    pub(crate) is_cancelled: unsafe extern "C" fn(*const Self) -> i32,
    pub(crate) allocate: unsafe extern "C" fn(*mut Self, u64) -> *mut c_void,
    /// Of the caller.
    _caller: *mut c_void,
    _deadline_ns: u64,
    pub(crate) time_left: unsafe extern "C" fn(*const Self) -> u64,
    pub(crate) kept: RawKept,
}

impl RawCall {
    /// Bytes of the oldest structure, which has all that is needed to answer a call.
    pub(crate) const SIZE_MIN: usize = offset_of!(Self, _deadline_ns);
    /// Bytes of a structure that has the time left.
    pub(crate) const SIZE_WITH_TIME: usize = offset_of!(Self, kept);
    /// Bytes of a structure that has the kept buffers.
    pub(crate) const SIZE_WITH_KEPT: usize = size_of::<Self>();
}

/// A buffer that the function only reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawBuffer {
    pub(crate) data: *const c_void,
    pub(crate) size: u64,
}

/// Room for the output.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawOutput {
    pub(crate) data: *mut c_void,
    pub(crate) capacity: u64,
    /// Bytes of the output.
    pub(crate) size: u64,
}

/// Room for the text of an error, which a zero byte ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawText {
    pub(crate) data: *mut c_char,
    pub(crate) capacity: u64,
}

/// The buffers that the worker keeps for the function.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawKept {
    pub(crate) first: *const RawBuffer,
    pub(crate) count: u64,
}
