//! Why bytes from outside are not a frame.

use thiserror::Error;

/// A record or frame that does not decode: the peer is broken or hostile, and its ring is not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The kind byte names no kind of record.
    #[error("a record has the unknown kind {0}")]
    UnknownKind(u8),
    /// The size is too small, not a multiple of the alignment, or beyond the limit.
    #[error("a record says it has {size} bytes, where 16 to {limit} in steps of 8 are possible")]
    BadSize {
        /// The size that the header states, bytes.
        size: u32,
        /// The largest possible size at that place, bytes.
        limit: u32,
    },
    /// The record is shorter than the frame that its kind promises.
    #[error("a frame needs {needed} bytes and its record has {found}")]
    Truncated {
        /// Bytes the frame needs.
        needed: usize,
        /// Bytes the record has.
        found: usize,
    },
    /// The verdict byte of an answer names no verdict.
    #[error("an answer has the unknown verdict {0}")]
    UnknownVerdict(u8),
    /// The payload kind names no kind of payload.
    #[error("a frame has the unknown payload kind {0}")]
    UnknownPayload(u8),
    /// The name of a blob is that of another number of bytes.
    #[error("a blob of {size} bytes has the name of one of {named}")]
    Misnamed {
        /// How many bytes there are to be.
        size: u64,
        /// How many its name says there are.
        named: u64,
    },
}

impl FrameError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::UnknownKind(_) => "frame_unknown_kind",
            Self::BadSize { .. } => "frame_bad_size",
            Self::Truncated { .. } => "frame_truncated",
            Self::UnknownVerdict(_) => "frame_unknown_verdict",
            Self::UnknownPayload(_) => "frame_unknown_payload",
            Self::Misnamed { .. } => "frame_misnamed",
        }
    }
}
