//! Why a replay has no result.

use gristmill_core::{Status, SubmitError};
use thiserror::Error;

/// Why a replay has no result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReplayError {
    /// There is nobody to run anything.
    #[error("there are no workers")]
    NoWorkers,
    /// With these costs it is beyond what can be counted.
    #[error(
        "it would take longer than can be counted, {seconds:.0} s and more: see its bytes and the costs"
    )]
    TooLong {
        /// How long it could take besides what tasks ran.
        seconds: f64,
    },
    /// A task was not accepted.
    #[error("task {task} is refused: {error}")]
    Refused {
        /// Which.
        task: u32,
        /// Why.
        error: SubmitError,
    },
    /// A task did not succeed.
    #[error("task {task} has ended as {status:?}")]
    Failed {
        /// Which.
        task: u32,
        /// How.
        status: Status,
    },
    /// The scheduler did what it must not.
    #[error("task {task} {what}")]
    Broken {
        /// Which.
        task: u32,
        /// What it did.
        what: &'static str,
    },
    /// Nothing can happen any more.
    #[error("nothing can happen any more, and {ended} of {count} tasks have ended")]
    Stuck {
        /// Tasks that have ended.
        ended: u32,
        /// All.
        count: usize,
    },
}

impl ReplayError {
    /// A stable name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoWorkers => "replay_no_workers",
            Self::TooLong { .. } => "replay_too_long",
            Self::Refused { .. } => "replay_refused",
            Self::Failed { .. } => "replay_failed",
            Self::Broken { .. } => "replay_broken",
            Self::Stuck { .. } => "replay_stuck",
        }
    }
}
