//! How Python values become payload bytes and values again.
//!
//! The common types are written natively, 4 to 60 ns each; everything else makes the *whole* payload a pickle, so that
//! identity between parts of one call (`f(a, a)`) is what pickle makes of it. The native form is used only where no one
//! could tell the difference: exact builtin types, no mutable object met twice, bounded depth.
//!
//! A payload is either `PICKLE` and the bytes of `gristmill._pickling`, or native: for a call `CALL` (or `WIDE_CALL`), the
//! counts of positional and named arguments, their values, the names; for a result one value. Bytes come from another
//! process: decoding checks every length and gives a Python exception, never a wrong value or a crash.
//!
//! What is large (arrays, `bytes`, `str`, pickles and their out-of-band buffers from `BLOCK_MIN` on) is not among these
//! bytes but in blocks of the arena, which they name by index.

mod array;
mod blocks;
mod decode;
mod encode;
mod pickle;
mod probe;
mod scalar;

pub use array::ArrayTypes;
pub use blocks::{BlockSink, BlockSource, with_buffer};
pub use decode::{
    Arguments, Parents, decode_call, decode_only_scalar, decode_scalars, decode_value, malformed,
};
pub use encode::{Encoded, ParentSink, encode_call, encode_value};
pub use pickle::{pickle_call, pickle_value};
pub use probe::{call_payload, decode_payload, encode_payload};
pub use scalar::encode_scalar;

/// First byte of each encoded value.
mod tag {
    pub const NONE: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    /// One signed byte.
    pub const INT8: u8 = 3;
    /// Four bytes, little-endian, as everything here.
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
    /// As `ARRAY`, with the 32-bit index of a block in the place of the data.
    pub const ARRAY_IN_BLOCK: u8 = 17;
    /// The 32-bit index of the block that the bytes, or the UTF-8, are.
    pub const BYTES_IN_BLOCK: u8 = 18;
    pub const STR_IN_BLOCK: u8 = 19;
    /// The rest of the payload is a call, whose counts are a byte each.
    pub const CALL: u8 = 32;
    /// The rest of the payload is a pickle.
    pub const PICKLE: u8 = 33;
    /// A 32-bit count of blocks with buffers, their 32-bit indices, then either the pickle, or nothing: then it is the
    /// last of those blocks.
    pub const PICKLE_WITH_BLOCKS: u8 = 34;
    /// As `CALL`, with counts of 32 bits: more than 255 arguments of a kind.
    pub const WIDE_CALL: u8 = 35;
}

/// Values nested deeper than this are left to pickle, which has its own limit and its own error.
const DEPTH_MAX: u32 = 24;
