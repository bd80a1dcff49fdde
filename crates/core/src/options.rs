//! Options of a task, and the side record that keeps them.

use gristmill_wire::{ContextId, PeerId, ResourceRequest, SlotId, TaskId};

use crate::batch::Batch;
use crate::demands::GpuAllocation;
use crate::{NONE, Payload};

/// Extra attempts for each kind of failure. The budgets are separate: a crash never uses up the attempts that the user
/// allows for exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budgets {
    /// Attempts after the user's function raised.
    pub retries: u16,
    /// Attempts after a worker was lost that had started the task. If this is above 0, the task may run twice.
    pub loss_retries: u16,
    /// Attempts after the timeout stopped the task.
    pub timeout_retries: u16,
}

/// Options of one task. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskOptions {
    /// Longest run, from its start.
    pub timeout_ns: Option<u64>,
    /// Monotonic time after which the task must not start.
    pub deadline_ns: Option<u64>,
    /// Time from an interrupt to the kill; `None` is the engine's.
    pub grace_ns: Option<u64>,
    /// Budgets; `None` is the engine's.
    pub budgets: Option<Budgets>,
    /// Priority: a task with a higher one is placed earlier.
    pub priority: i32,
    /// Context that the task runs in.
    pub context: ContextId,
    /// Resources that the task needs besides a worker.
    pub demand: ResourceRequest,
    /// True if the arguments are so large that peers that have them are preferred.
    /// [`Port::holders`](crate::Port::holders) names these peers.
    pub is_bulky: bool,
}

/// Submitter of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Thread of the client, which can wait when the limit is reached.
    #[default]
    External,
    /// Callback or event loop of the client, which cannot wait: counted above the limit.
    Unblockable,
    /// Task that runs in `slot`.
    Nested {
        /// Slot that it runs in.
        slot: SlotId,
        /// The task.
        parent: TaskId,
    },
    /// Peer that sent the task. The task may be sent on to other peers, but not back.
    Peer(PeerId),
}

/// Side record of a task: options, timers, family. Few tasks have one. It is made when first needed and dropped when
/// the task is final.
#[derive(Debug)]
pub(crate) struct Extra {
    pub task: u32,
    pub priority: i32,
    pub context: ContextId,
    pub demand: ResourceRequest,
    /// True if peers that have the arguments are preferred.
    pub is_bulky: bool,
    /// Resources of the demand that the task holds, from the time when it gathers until it has run.
    pub claim: Option<GpuAllocation>,
    /// Longest run; `u64::MAX` is none.
    pub timeout_ns: u64,
    /// Monotonic time after which the task must not start; `u64::MAX` is none.
    pub deadline_ns: u64,
    pub grace_ns: u64,
    pub budgets: Budgets,
    /// Batch that the task stands for.
    pub batch: Option<Batch>,
    /// True if the task needs more than taking in its answer: the engine must be driven even if no caller asks for the
    /// result.
    pub is_owed: bool,
    pub kills: u8,
    /// Time of the next check of the running attempt: its timeout, then the end of its grace.
    pub check_at: u64,
    /// Time at which the running attempt was first known to have started; 0 is not yet.
    pub started_at: u64,
    /// Time at which the running attempt was told to stop because of its timeout, clock ticks.
    pub stopped_ticks: u64,
    /// Index in the timer heap.
    pub timer: u32,
    /// Task that submitted this one, while that attempt runs.
    pub parent: u32,
    /// Index of the peer that sent the task; [`NO_PEER`] if the task is this engine's own.
    pub from: u16,
    /// True if a task submitted it. That task may be over.
    pub is_nested: bool,
    /// True if it was sent to its parent's worker, to run in the parent's wait.
    pub is_inline: bool,
    /// Result of the task, if the result stayed with a peer.
    pub result: Option<Payload>,
    /// Length of the chain of stayed results that the result was made from.
    pub generation: u8,
    pub previous_sibling: u32,
    pub next_sibling: u32,
    pub first_child: u32,
}

/// Index that stands for no peer.
pub(crate) const NO_PEER: u16 = u16::MAX;

impl Extra {
    pub fn new(task: u32, options: &TaskOptions, config: &crate::Config) -> Self {
        Self {
            task,
            priority: options.priority,
            context: options.context,
            demand: options.demand,
            is_bulky: options.is_bulky,
            claim: None,
            timeout_ns: options.timeout_ns.unwrap_or(u64::MAX),
            deadline_ns: options.deadline_ns.unwrap_or(u64::MAX),
            grace_ns: options.grace_ns.unwrap_or(config.grace_ns),
            budgets: options.budgets.unwrap_or(config.budgets),
            batch: None,
            is_owed: true,
            kills: 0,
            check_at: u64::MAX,
            started_at: 0,
            stopped_ticks: 0,
            timer: NONE,
            parent: NONE,
            from: NO_PEER,
            is_nested: false,
            is_inline: false,
            result: None,
            generation: 0,
            previous_sibling: NONE,
            next_sibling: NONE,
            first_child: NONE,
        }
    }

    /// Creates the side record of a submitted task. `is_owed` is false if any answer ends the task: it has no time
    /// limit, no other attempt, and no resources to release.
    pub fn of_submission(task: u32, options: &TaskOptions, config: &crate::Config) -> Self {
        let mut extra = Self::new(task, options, config);
        let is_timed = extra.timeout_ns != u64::MAX || extra.deadline_ns != u64::MAX;
        extra.is_owed = is_timed || extra.budgets != Budgets::default() || !extra.demand.is_none();
        extra
    }

    /// Returns true if the record only says where the task may run: it has no time limit, family, batch or claim.
    #[inline]
    pub const fn is_only_for_placing(&self) -> bool {
        !self.is_owed && self.batch.is_none()
    }
}
