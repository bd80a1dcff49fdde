//! Errors of decoding: the reasons to reject bytes from outside.

use thiserror::Error;

/// A record or frame that does not decode. The peer is broken or hostile, and its ring is not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The kind byte of a record is unknown.
    #[error("a record has the unknown kind {0}")]
    UnknownKind(u8),
    /// The size is too small, not a multiple of the alignment, or beyond the limit.
    #[error(
        "the header of a record states {size} bytes, and only multiples of 8 from 16 to {limit} are possible"
    )]
    BadSize {
        /// The size in the header, bytes.
        size: u32,
        /// The largest possible size at that position, bytes.
        limit: u32,
    },
    /// The record is shorter than the frame that its kind requires.
    #[error("a frame needs {needed} bytes and its record has {found}")]
    Truncated {
        /// Bytes that the frame needs.
        needed: usize,
        /// Bytes that the record has.
        found: usize,
    },
    /// The verdict byte of an answer is unknown.
    #[error("an answer has the unknown verdict {0}")]
    UnknownVerdict(u8),
    /// The payload kind is unknown.
    #[error("a frame has the unknown payload kind {0}")]
    UnknownPayload(u8),
    /// A task names more results of other tasks than the limit allows.
    #[error(
        "a task has {count} results of other tasks as arguments, and the limit is {}",
        crate::PARENTS_MAX
    )]
    TooManyParents {
        /// The number of results that the task states.
        count: u64,
    },
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    NoText,
    /// The digest of a blob is that of another number of bytes.
    #[error("a blob of {size} bytes has the name of a blob of {named} bytes")]
    Misnamed {
        /// The size stated beside the digest, bytes.
        size: u64,
        /// The size that the digest contains, bytes.
        named: u64,
    },
}
