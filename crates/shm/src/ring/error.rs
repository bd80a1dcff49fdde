//! What can go wrong with a ring.

use super::Sequence;
use gristmill_wire::FrameError;
use thiserror::Error;

/// Why a record cannot be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BeginError {
    /// The reader has not made room yet; try again when it has.
    #[error("the ring has no room for a record of {size} bytes now: {free} bytes are free")]
    Full {
        /// Bytes of the record, its header and a pad in front included.
        size: u32,
        /// Bytes that the reader has released.
        free: u32,
    },
    /// No ring of this size ever takes it: larger payloads go to the arena.
    #[error("a record body of {size} bytes is beyond the ring's limit of {limit}")]
    TooLarge {
        /// Bytes of the body.
        size: usize,
        /// The largest possible body, bytes.
        limit: u32,
    },
    /// The reader's tail is where no reader can be: the ring is not used any further.
    #[error(
        "the ring's reader says it has read up to {found}, between {oldest} and {newest} is possible"
    )]
    BadTail {
        /// The tail that was read, a position in bytes.
        found: u64,
        /// The tail that was read before.
        oldest: u64,
        /// The writer's own position.
        newest: u64,
    },
}

impl BeginError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Full { .. } => "ring_full",
            Self::TooLarge { .. } => "ring_record_too_large",
            Self::BadTail { .. } => "ring_bad_tail",
        }
    }

    /// Whether the same call can succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// A ring whose bytes no writer writes: the peer is broken or hostile, the ring is not read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Corrupt {
    /// A header does not decode.
    #[error("the header at ring position {position} is not one: {source}")]
    Header {
        /// Where, bytes since the ring was reset.
        position: u64,
        /// What is wrong with it.
        source: FrameError,
    },
    /// A record's number is not the next one.
    #[error("the record at ring position {position} is numbered {found}, not {expected}")]
    Sequence {
        /// Where, bytes since the ring was reset.
        position: u64,
        /// The low bits of the number found.
        found: u16,
        /// The number that comes next.
        expected: Sequence,
    },
    /// Records reach over what the reader has not released.
    #[error("the record at ring position {position} reaches over unread ones, to {end}")]
    Overrun {
        /// Where, bytes since the ring was reset.
        position: u64,
        /// Where it says it ends.
        end: u64,
    },
}

impl Corrupt {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Header { .. } => "ring_bad_header",
            Self::Sequence { .. } => "ring_bad_sequence",
            Self::Overrun { .. } => "ring_overrun",
        }
    }
}

/// A capacity that no ring can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a ring has a power of two of bytes between {smallest} and {largest}, not {capacity}")]
pub struct LayoutError {
    /// The capacity asked for, bytes.
    pub capacity: u32,
    /// The smallest possible, bytes.
    pub smallest: u32,
    /// The largest possible, bytes.
    pub largest: u32,
}
