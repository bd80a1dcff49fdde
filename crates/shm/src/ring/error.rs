//! The errors of a ring.

use super::Sequence;
use gristmill_wire::FrameError;
use thiserror::Error;

/// The reason why a record cannot be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BeginError {
    /// The reader has not released enough room yet; retry after it has.
    #[error("the ring has no room for a record of {size} bytes now: {free} bytes are free")]
    Full {
        /// Bytes of the record, including its header and a pad in front.
        size: u32,
        /// Bytes that the reader has released.
        free: u32,
    },
    /// The body is larger than this ring can ever take. Larger payloads go to the arena.
    #[error("a record body of {size} bytes exceeds the ring's limit of {limit}")]
    TooLarge {
        /// Bytes of the body.
        size: usize,
        /// The largest possible body, bytes.
        limit: u32,
    },
    /// The reader's tail is at an impossible position. The ring must not be used any more.
    #[error(
        "the reader of the ring states position {found}, which is not between {oldest} and {newest}"
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
    /// Returns true if the same call can succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// Bytes in a ring that no correct writer writes. The peer is broken or hostile, and the ring must not be read any
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Corrupt {
    /// A header does not decode.
    #[error("the bytes at ring position {position} are not a header: {source}")]
    Header {
        /// Position of the header, bytes since the ring was reset.
        position: u64,
        /// The decoding error.
        source: FrameError,
    },
    /// A record's number is not the next one.
    #[error("the record at ring position {position} is numbered {found}, not {expected}")]
    Sequence {
        /// Position of the record, bytes since the ring was reset.
        position: u64,
        /// The low bits of the number found.
        found: u16,
        /// The number that comes next.
        expected: Sequence,
    },
    /// A record reaches over bytes that the reader has not released.
    #[error("the record at ring position {position} overlaps unread records: it ends at {end}")]
    Overrun {
        /// Position of the record, bytes since the ring was reset.
        position: u64,
        /// The end of the record according to its header.
        end: u64,
    },
}

/// A capacity that no ring can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a ring has a power of two of bytes between {smallest} and {largest}, not {capacity}")]
pub struct LayoutError {
    /// The requested capacity, bytes.
    pub capacity: u32,
    /// The smallest possible capacity, bytes.
    pub smallest: u32,
    /// The largest possible capacity, bytes.
    pub largest: u32,
}
