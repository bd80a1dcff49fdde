//! The errors of the arena.

use super::layout::Tier;
use std::io;
use thiserror::Error;

/// An error of the arena.
#[derive(Debug, Error)]
pub enum ArenaError {
    /// The system refused a descriptor, the addresses, or a file of that size.
    #[error(
        "cannot make an arena of {size} bytes of addresses: {source}; see `ulimit -n`, `-v` and `-f`"
    )]
    Create {
        /// Requested bytes of addresses.
        size: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The descriptor is not an arena.
    #[error("the descriptor is not an arena: its {field} is {value:#x}")]
    NotAnArena {
        /// The name of the wrong field.
        field: &'static str,
        /// The value of that field.
        value: u64,
    },
    /// The arena's memory limit is reached.
    #[error(
        "{size} bytes do not fit into the arena: {in_use} bytes of its limit of {limit} are in use; drop the results, and \
         the arrays that view them, that the program does not need any more"
    )]
    Full {
        /// Requested bytes.
        size: u64,
        /// Bytes in use, by the client and all workers.
        in_use: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The machine or a control group has little memory left, regardless of which process uses it.
    #[error(
        "{size} bytes do not fit into the arena: {available} bytes of memory are left to all processes of this machine or \
         its control group"
    )]
    Scarce {
        /// Requested bytes.
        size: u64,
        /// Bytes that were left.
        available: u64,
    },
    /// The limit of bytes on disk is reached.
    #[error("{in_use} bytes are on disk, and the limit is {limit}")]
    DiskFull {
        /// Requested bytes.
        size: u64,
        /// Bytes on disk, of the client and all workers.
        in_use: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The file system refused the bytes.
    #[error("they cannot be written to {directory}: {source}")]
    Disk {
        /// Requested bytes.
        size: u64,
        /// Directory of the file on disk.
        directory: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Neither memory nor disk has room.
    #[error("{memory}; nor on disk: {disk}; see `gristmill doctor` and GRISTMILL_SPILL_DIR")]
    Unspilled {
        /// The reason why there is no room in memory.
        memory: Box<ArenaError>,
        /// The reason why there is no room on disk.
        disk: Box<ArenaError>,
    },
    /// The system has no memory left.
    #[error("the system has no {size} bytes of shared memory left: {source}")]
    NoMemory {
        /// Requested bytes.
        size: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// A peer named a range of the arena that it must not name.
    #[error("a record names {size} bytes at offset {offset}, which are not in the arena")]
    BadRange {
        /// Offset of the range.
        offset: u64,
        /// Size of the range, bytes.
        size: u64,
    },
}

impl ArenaError {
    /// Returns the error of a block beyond the limit of its tier.
    pub(super) const fn full(tier: Tier, size: u64, in_use: u64, limit: u64) -> Self {
        match tier {
            Tier::Memory => Self::Full { size, in_use, limit },
            Tier::Disk => Self::DiskFull { size, in_use, limit },
        }
    }

    /// Combines the error of memory with that of the disk.
    pub(super) fn and_unspilled(self, disk: Self) -> Self {
        Self::Unspilled { memory: Box::new(self), disk: Box::new(disk) }
    }

    /// Returns the code that the exception in Python has.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Create { .. } => "arena_create",
            Self::NotAnArena { .. } => "not_an_arena",
            Self::Full { .. } => "arena_full",
            Self::NoMemory { .. } => "arena_no_memory",
            Self::Scarce { .. } => "arena_scarce",
            Self::DiskFull { .. } => "arena_disk_full",
            Self::Disk { .. } => "arena_disk",
            Self::Unspilled { .. } => "arena_unspilled",
            Self::BadRange { .. } => "arena_bad_range",
        }
    }
}
