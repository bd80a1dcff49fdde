//! The state machine of one client: the graph of its tasks, where each is placed, its budgets,
//! deadlines and final state.
//!
//! Guarantees: every task that was accepted gets exactly one final state, told once through
//! [`Port::finished`]; what may have started is placed again only within its budgets, what had not
//! started always is; memory is that of the tasks that are outstanding or not released. All of it
//! is a function of the calls: no thread, socket, file, clock or random source. It does not read
//! rings, start processes or know what a payload means: that is behind [`Port`].
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
mod heal;
mod list;
mod loss;
mod machine;
mod nested;
mod options;
mod outcome;
mod payload;
mod peers;
mod place;
mod port;
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
mod task;
mod timers;
mod whereabouts;

pub use answer::AnswerOutcome;
pub use cancel::{CancelMode, CancelOutcome};
pub use config::{Config, LEAVE_GRACE_NS};
pub use contexts::ContextOptions;
pub use demands::{Supply, pick_near};
pub use machine::Core;
pub use options::{Budgets, Origin, TaskOptions};
pub use outcome::{Loss, LossCause, LossReport, Outcome, StartFailure, Status};
pub use payload::{Block, INLINE_MAX, Payload, PayloadRef};
pub use peers::{Errand, ErrandParents, Holders, PeerAnswer, PeerEnd, PeerOffer, PeerStats};
pub use port::{
    CallProgress, Dispatch, KillReason, Outfit, Parents, Port, Progress, Sent, TakeBack,
};
pub use slots::SlotState;
pub use stats::{ContextStats, Load, SlotStats, Stats, Tags, TaskView};
pub use submit::{Submission, SubmitError};
pub use whereabouts::Whereabouts;

pub use gristmill_wire::{Attempt, ContextId, Epoch, FunctionId, PeerId, SlotId, TaskId};

pub(crate) use outcome::Content;

/// Whether tasks keep tags; without them nobody can tell what they cost.
pub(crate) const HAS_TAGS: bool = cfg!(feature = "tags");
/// No index: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;
