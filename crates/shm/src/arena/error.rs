//! Why there is no arena, or no room in it.

use std::io;
use thiserror::Error;

/// What went wrong with the arena.
#[derive(Debug, Error)]
pub enum ArenaError {
    /// No descriptor, no addresses, or no file of that size.
    #[error(
        "cannot make an arena of {size} bytes of addresses: {source}; see `ulimit -n`, `-v` and `-f`"
    )]
    Create {
        /// Bytes of addresses asked for.
        size: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The descriptor holds something else.
    #[error("the descriptor is not an arena: its {field} is {value:#x}")]
    NotAnArena {
        /// What is wrong.
        field: &'static str,
        /// What it is.
        value: u64,
    },
    /// The limit is reached.
    #[error(
        "{size} bytes do not fit into the arena: {in_use} bytes of its limit of {limit} are in use; drop results, or \
         arrays that view them, that are not needed any more"
    )]
    Full {
        /// Bytes asked for.
        size: u64,
        /// Bytes in use, by the client and all workers.
        in_use: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The system has no memory.
    #[error("the system has no {size} bytes of shared memory left: {source}")]
    NoMemory {
        /// Bytes asked for.
        size: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A peer named a piece of the arena that it cannot name.
    #[error("a record names {size} bytes at {offset} of the arena, which are not there")]
    BadRange {
        /// Where.
        offset: u64,
        /// How many.
        size: u64,
    },
}

impl ArenaError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Create { .. } => "arena_create",
            Self::NotAnArena { .. } => "arena_not_one",
            Self::Full { .. } => "arena_full",
            Self::NoMemory { .. } => "arena_no_memory",
            Self::BadRange { .. } => "arena_bad_range",
        }
    }
}
