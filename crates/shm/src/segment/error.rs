//! Why there is no segment.

use crate::ring::LayoutError;
use gristmill_wire::SlotId;
use std::io;
use thiserror::Error;

/// What went wrong with creating, opening or using a segment.
#[derive(Debug, Error)]
pub enum SegmentError {
    /// No descriptor for shared memory: the process or the system has too many open.
    #[error("cannot create shared memory: {source}; see `ulimit -n`")]
    Create {
        /// What the system says.
        source: io::Error,
    },
    /// The shared memory cannot have its size.
    #[error(
        "cannot give the shared memory its size of {size} bytes: {source}; see `ulimit -f` and the memory limit"
    )]
    Resize {
        /// Bytes asked for.
        size: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The shared memory cannot be mapped.
    #[error("cannot map {size} bytes of shared memory: {source}; see `ulimit -v`")]
    Map {
        /// Bytes asked for.
        size: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A descriptor does not behave like shared memory.
    #[error("the descriptor is not shared memory: {source}")]
    NotMemory {
        /// What the system says.
        source: io::Error,
    },
    /// Somebody could shrink the memory under the mapping, which would kill this process.
    #[error("the shared memory is not sealed against shrinking (its seals are {seals:#x})")]
    NotSealed {
        /// The seals that it has.
        seals: i32,
    },
    /// No slots, or a size beyond this machine's addresses.
    #[error("a segment of {slot_count} slots of {slot_size} bytes is not possible")]
    BadSize {
        /// Slots asked for.
        slot_count: u16,
        /// Bytes of each.
        slot_size: u64,
    },
    /// A ring cannot have its size.
    #[error(transparent)]
    Ring(#[from] LayoutError),
    /// The memory does not start as a segment does.
    #[error("this is not a segment: it starts with {magic:#x}")]
    NotASegment {
        /// Its first word.
        magic: u64,
    },
    /// Another installation made it.
    #[error(
        "the segment has version {version} and layout {hash:#x}, which another installation of Gristmill writes"
    )]
    OtherVersion {
        /// Its version.
        version: u64,
        /// The hash of its layout.
        hash: u64,
    },
    /// A field of its header cannot be.
    #[error("the segment's {field} cannot be {value}")]
    BadField {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// Its size is not what its header says.
    #[error("the segment has {found} bytes, not the {needed} that its header says")]
    WrongSize {
        /// Bytes it has.
        found: u64,
        /// Bytes it needs.
        needed: u64,
    },
    /// The table of a slot names a ring that is not in the segment.
    #[error("{slot} says it has a ring of {size} bytes at {offset}, which is not in the segment")]
    BadRing {
        /// Which slot.
        slot: SlotId,
        /// Where the ring would be.
        offset: u64,
        /// Its capacity, bytes.
        size: u32,
    },
    /// There is no such slot.
    #[error("there is no {slot}: the segment has {slot_count}")]
    NoSuchSlot {
        /// The slot asked for.
        slot: SlotId,
        /// How many there are.
        slot_count: u16,
    },
    /// The client uses `membarrier` and this process may not.
    #[error(
        "the client uses the system call membarrier and this process may not: a sandbox filters it here only"
    )]
    NoMembarrier,
}

impl SegmentError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Create { .. } => "segment_create",
            Self::Resize { .. } => "segment_resize",
            Self::Map { .. } => "segment_map",
            Self::NotMemory { .. } => "segment_not_memory",
            Self::NotSealed { .. } => "segment_not_sealed",
            Self::BadSize { .. } => "segment_bad_size",
            Self::Ring(_) => "segment_bad_ring_size",
            Self::NotASegment { .. } => "segment_not_one",
            Self::OtherVersion { .. } => "segment_other_version",
            Self::BadField { .. } => "segment_bad_field",
            Self::WrongSize { .. } => "segment_wrong_size",
            Self::BadRing { .. } => "segment_bad_ring",
            Self::NoSuchSlot { .. } => "segment_no_such_slot",
            Self::NoMembarrier => "segment_no_membarrier",
        }
    }
}
