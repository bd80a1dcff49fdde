//! Reasons for a worker to stop before it was told to.

use gristmill_shm::{ArenaError, Corrupt};
use gristmill_wire::FrameError;
use thiserror::Error;

/// The reason for a worker's loop to end before it was told to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkerEnd {
    /// The task ring is damaged.
    #[error("the task ring is damaged: {0}")]
    Ring(#[from] Corrupt),
    /// A record in it is malformed.
    #[error("a task record is malformed: {0}")]
    Frame(#[from] FrameError),
    /// A record refers to bytes that are not in the arena.
    #[error("a record is malformed: {0}")]
    Arena(Box<str>),
    /// A record cannot be written to the result ring: the client's end of the ring is damaged, or the record is too large.
    #[error("the worker cannot write to the result ring")]
    Results,
    /// A task forked this process: the rings belong to the worker that it was forked from.
    #[error("this process was forked from the worker, whose rings it must not use")]
    Forked,
}

impl From<ArenaError> for WorkerEnd {
    fn from(error: ArenaError) -> Self {
        Self::Arena(error.to_string().into())
    }
}
