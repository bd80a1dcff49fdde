//! The errors of a segment.

use crate::ring::LayoutError;
use gristmill_wire::SlotId;
use std::io;
use thiserror::Error;

/// An error of creating, opening or using a segment.
#[derive(Debug, Error)]
pub enum SegmentError {
    /// No descriptor for shared memory: the process or the system has too many open.
    #[error("cannot create shared memory: {source}; see `ulimit -n`")]
    Create {
        /// The error of the system.
        source: io::Error,
    },
    /// The shared memory cannot have its size.
    #[error(
        "cannot give the shared memory its size of {size} bytes: {source}; see `ulimit -f` and the memory limit"
    )]
    Resize {
        /// Requested bytes.
        size: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The shared memory cannot be mapped.
    #[error("cannot map {size} bytes of shared memory: {source}; see `ulimit -v`")]
    Map {
        /// Requested bytes.
        size: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// A descriptor does not behave like shared memory.
    #[error("the descriptor is not shared memory: {source}")]
    NotMemory {
        /// The error of the system.
        source: io::Error,
    },
    /// Another process could shrink the memory under the mapping, which would kill this process.
    #[error("the shared memory is not sealed against shrinking (its seals are {seals:#x})")]
    NotSealed {
        /// The seals that it has.
        seals: i32,
    },
    /// The segment has no slots, or is larger than this machine's address space.
    #[error("a segment of {slot_count} slots of {slot_size} bytes is not possible")]
    BadSize {
        /// Requested slots.
        slot_count: u16,
        /// Size of each slot, bytes.
        slot_size: u64,
    },
    /// A ring cannot have its size.
    #[error(transparent)]
    Ring(#[from] LayoutError),
    /// The memory is not a segment: it does not start with a segment's magic number. Its code is `segment_not_one`.
    #[error("this is not a segment: it starts with {magic:#x}")]
    NotASegment {
        /// Its first word.
        magic: u64,
    },
    /// Another installation made the segment.
    #[error(
        "the segment has version {version} and layout {hash:#x}, which only another version of Gristmill writes"
    )]
    OtherVersion {
        /// The segment's version.
        version: u64,
        /// The hash of its layout.
        hash: u64,
    },
    /// A field of the header has an impossible value.
    #[error("the segment's {field} cannot be {value}")]
    BadField {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        value: u64,
    },
    /// The segment's size differs from the size in its header.
    #[error("the segment has {found} bytes, not the {needed} that its header states")]
    WrongSize {
        /// Size found, bytes.
        found: u64,
        /// Size needed, bytes.
        needed: u64,
    },
    /// A slot's table names a ring outside the segment.
    #[error(
        "the table of {slot} names a ring of {size} bytes at {offset}, which is outside the segment"
    )]
    BadRing {
        /// The slot.
        slot: SlotId,
        /// Offset of the ring.
        offset: u64,
        /// Its capacity, bytes.
        size: u32,
    },
    /// The slot does not exist.
    #[error("there is no {slot}: the segment has {slot_count}")]
    NoSuchSlot {
        /// The requested slot.
        slot: SlotId,
        /// Number of slots.
        slot_count: u16,
    },
    /// The client uses `membarrier` and this process may not: a sandbox of this process, but not of the client, forbids it.
    #[error(
        "the client uses the system call membarrier, and a sandbox denies it to this process only"
    )]
    NoMembarrier,
}
