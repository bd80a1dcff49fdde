//! Conversion between Python values and payload bytes.
//!
//! The common types are written natively, 4 to 60 ns each. If any part has another type, the *whole* payload is a
//! pickle, so that pickle handles identity between parts of one call (`f(a, a)`). The native form is used only if the
//! difference cannot be observed: exact builtin types, no mutable object twice, bounded depth.
//!
//! A payload is either `PICKLE` and the bytes of `gristmill._pickling`, or native. A native call is `CALL` (or
//! `WIDE_CALL`), the counts of positional and named arguments, their values, and the names; a native result is one
//! value. Bytes come from another process: decoding checks every length and raises a Python exception, and never gives
//! a wrong value or crashes.
//!
//! Large parts (arrays, `bytes`, `str`, pickles and their out-of-band buffers from `BLOCK_MIN` on) are not among these
//! bytes. They are in blocks of the arena, and the payload has the index of each block.

mod arguments;
mod array;
mod blocks;
mod decode;
mod encode;
mod outcome;
pub mod pickle;
mod probe;
mod scalar;

pub use arguments::{Arguments, ParentValues};
pub use array::ArrayTypes;
pub use blocks::{BlockSink, BlockSource, with_buffer};
pub use decode::{decode_call, decode_only_scalar, decode_scalars, decode_value};
pub use encode::{ParentSink, encode_call, encode_value};
pub use outcome::{EncodeResult, malformed};
pub use pickle::{PickledNames, pickle_call, pickle_value};
pub use probe::{call_payload, decode_payload, encode_payload};
pub use scalar::{decode_only_bytes, encode_bytes, encode_scalar};

/// First byte of each encoded value.
mod tag {
    pub const NONE: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    /// One signed byte.
    pub const INT8: u8 = 3;
    /// Four bytes, little-endian like all numbers here.
    pub const INT32: u8 = 4;
    pub const INT64: u8 = 5;
    pub const FLOAT: u8 = 6;
    pub const COMPLEX: u8 = 7;
    /// A length byte, then ASCII.
    pub const ASCII8: u8 = 8;
    /// A 32-bit length, then UTF-8.
    pub const STR: u8 = 9;
    pub const BYTES8: u8 = 10;
    pub const BYTES: u8 = 11;
    /// A 32-bit count, then that many values.
    pub const TUPLE: u8 = 12;
    pub const LIST: u8 = 13;
    /// A 32-bit count, then that many keys and values.
    pub const DICT: u8 = 14;
    /// A numpy array, see `array`.
    pub const ARRAY: u8 = 15;
    /// The value of a parent task: its 16-bit index among the task's parents.
    pub const PARENT: u8 = 16;
    /// Like `ARRAY`, with the 32-bit index of a block instead of the data.
    pub const ARRAY_IN_BLOCK: u8 = 17;
    /// The 32-bit index of the block that holds the bytes, or the UTF-8.
    pub const BYTES_IN_BLOCK: u8 = 18;
    pub const STR_IN_BLOCK: u8 = 19;
    /// Like `PARENT`, with a 32-bit index.
    pub const FAR_PARENT: u8 = 20;
    /// The rest of the payload is a call whose counts are one byte each.
    pub const CALL: u8 = 32;
    /// The rest of the payload is a pickle.
    pub const PICKLE: u8 = 33;
    /// A 32-bit count of blocks, their 32-bit indices, then the pickle. If nothing follows the indices, the last block
    /// is the pickle; the other blocks are its buffers.
    pub const PICKLE_WITH_BLOCKS: u8 = 34;
    /// Like `CALL`, with 32-bit counts: more than 255 arguments of a kind.
    pub const WIDE_CALL: u8 = 35;
}

/// Returns whether a payload is a pickle.
pub fn is_pickle(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(&(tag::PICKLE | tag::PICKLE_WITH_BLOCKS)))
}

/// Maximum depth of native values; deeper ones are left to pickle, which has its own limit and its own error.
const DEPTH_MAX: u32 = 24;
