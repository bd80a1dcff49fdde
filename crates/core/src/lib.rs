//! State machine of one client: the graph of its tasks, the placement, budgets, deadlines and final state of each.
//!
//! Guarantees:
//! - Each accepted task gets exactly one final state, reported once through [`Port::finished`].
//! - A task that may have started is placed again only within its budgets. A task that had not started is always placed
//!   again.
//! - Memory is bounded by the tasks that are outstanding or not released.
//!
//! The state is a function of the calls: no thread, socket, file, clock or random source. The crate does not read
//! rings, start processes or know what a payload means; [`Port`] does.
//!
//! Callers hold one lock around a [`Core`]. `now` is monotonic nanoseconds and never goes back.
#![forbid(unsafe_code)]

mod answer;
mod batch;
mod cancel;
mod config;
mod contexts;
mod demands;
mod edges;
mod estimate;
mod expire;
mod finish;
mod floor;
mod heal;
mod inline;
mod list;
mod location;
mod loss;
mod machine;
mod nested;
mod options;
mod outcome;
mod payload;
mod peers;
mod place;
mod port;
mod priority;
mod promise;
mod queue;
mod recall;
mod shutdown;
mod slab;
mod slots;
mod starts;
mod stats;
mod steal;
mod submit;
mod supply;
mod task;
mod timers;

pub use answer::AnswerOutcome;
pub use cancel::{CancelMode, CancelOutcome};
pub use config::{Config, LEAVE_GRACE_NS};
pub use contexts::ContextOptions;
pub use demands::pick_near;
pub use floor::Floor;
pub use location::{TakenResources, TaskLocation};
pub use machine::Core;
pub use options::{Budgets, Origin, TaskOptions};
pub use outcome::{Loss, LossCause, LossReport, StartFailure, Status, TaskOutcome};
pub use payload::{Block, INLINE_MAX, Payload, PayloadRef};
pub use peers::{PeerAnswer, PeerEnd, PeerOffer, PeerStats, RemoteDispatch, RemoteParents};
pub use port::{
    CallProgress, Dispatch, Holders, KillReason, ParentOutcomes, Port, RingProgress, Sent,
    StoppedRun, TakeBackResult, WorkerGrant,
};
pub use slots::SlotState;
pub use stats::{AttemptTimings, ContextStats, Load, SlotStats, Stats, TaskView};
pub use submit::{Resource, Submission, SubmitError};
pub use supply::Supply;

pub use gristmill_wire::{Attempt, ContextId, Epoch, FunctionId, PeerId, SlotId, TaskId};

pub(crate) use outcome::TaskContent;

/// True if tasks keep timings. Without timings, only the run time of a task is known.
pub(crate) const HAS_TAGS: bool = cfg!(feature = "timings");
/// Index that stands for no record: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;
