//! Errors of replays.

use gristmill_core::{Status, SubmitError};
use thiserror::Error;

/// The reason why a replay has no result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReplayError {
    /// The cluster has no workers.
    #[error("the cluster has no workers")]
    NoWorkers,
    /// With these costs, the virtual time could overflow.
    #[error(
        "the replay would take {seconds:.0} s or more, which exceeds the virtual clock: check the bytes of the tasks and the costs"
    )]
    TooLong {
        /// Upper bound of the time besides the tasks' runs, seconds.
        seconds: f64,
    },
    /// The scheduler refused a task.
    #[error("task {task} is refused: {error}")]
    Refused {
        /// Index of the task.
        task: u32,
        /// Reason.
        error: SubmitError,
    },
    /// A task did not succeed.
    #[error("task {task} has ended as {status:?}")]
    Failed {
        /// Index of the task.
        task: u32,
        /// Final status of the task.
        status: Status,
    },
    /// The scheduler broke a rule.
    #[error("task {task} {what}")]
    Broken {
        /// Index of the task.
        task: u32,
        /// Violation.
        what: &'static str,
    },
    /// No event is left, but some tasks have not ended.
    #[error("no event is left, and {ended} of {count} tasks have ended")]
    Stuck {
        /// Number of tasks that have ended.
        ended: u32,
        /// Number of all tasks.
        count: usize,
    },
}

impl ReplayError {
    /// Returns the code that the exception in Python has.
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
