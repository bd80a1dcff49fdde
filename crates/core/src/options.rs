//! What a task may ask for besides its call, and the side record that keeps it.

use gristmill_wire::{ContextId, Demand, PeerId, SlotId, TaskId};

use crate::batch::Batch;
use crate::demands::Claim;
use crate::{NONE, Payload};

/// How often each kind of failure is answered by another attempt. They are separate: a crash never
/// uses up what the user's own exceptions were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budgets {
    /// Attempts after the user's function raised.
    pub retries: u16,
    /// Attempts after a worker was lost that had started the task: above 0 the task may run twice.
    pub loss_retries: u16,
    /// Attempts after the timeout stopped it.
    pub timeout_retries: u16,
}

/// What one task asks for. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskOptions {
    /// Longest run, from its start.
    pub timeout_ns: Option<u64>,
    /// Monotonic time after which it must not start any more.
    pub deadline_ns: Option<u64>,
    /// From an interrupt to the kill; the engine's if `None`.
    pub grace_ns: Option<u64>,
    /// Budgets; the engine's if `None`.
    pub budgets: Option<Budgets>,
    /// Higher is placed earlier.
    pub priority: i32,
    /// The context it runs in.
    pub context: ContextId,
    /// What it needs besides a worker.
    pub demand: Demand,
    /// Its arguments are so large that peers that have them are better ones: [`Port::holders`](crate::Port::holders)
    /// says who has.
    pub is_bulky: bool,
}

/// Who submits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// A thread of the client, which can wait when the limit is reached.
    #[default]
    External,
    /// A callback or an event loop of the client, which cannot wait: counted above the limit.
    Unblockable,
    /// A task that runs in `slot`.
    Nested {
        /// Where it runs.
        slot: SlotId,
        /// The task.
        parent: TaskId,
    },
    /// A peer, whose task it is: it may be sent on to others, but not back there.
    Peer(PeerId),
}

/// What few tasks have: options, timers, kin. Made when first needed, dropped when the task is
/// final.
#[derive(Debug)]
pub(crate) struct Extra {
    pub task: u32,
    pub priority: i32,
    pub context: ContextId,
    pub demand: Demand,
    /// Peers that have its arguments are better ones.
    pub is_bulky: bool,
    /// What it has of that, from when it gathers until it has run.
    pub claim: Option<Claim>,
    /// `u64::MAX` is none.
    pub timeout_ns: u64,
    /// `u64::MAX` is none.
    pub deadline_ns: u64,
    pub grace_ns: u64,
    pub budgets: Budgets,
    /// It stands for several calls.
    pub batch: Option<Batch>,
    /// More is to be done for the task than to take in its answer: that cannot be left to whoever asks for its result.
    pub is_owed: bool,
    pub kills: u8,
    /// When the running attempt is to be looked at: its timeout, then the end of its grace.
    pub check_at: u64,
    /// When the running attempt was first known to have started; 0 is not yet.
    pub started_at: u64,
    /// Place in the timer heap.
    pub timer: u32,
    /// The task that submitted this one, while that attempt runs.
    pub parent: u32,
    /// The place of the peer whose task it is; [`NO_PEER`]: it is this engine's own.
    pub from: u16,
    /// A task submitted it, which may be over.
    pub is_nested: bool,
    /// What it gave, where that stayed with a peer.
    pub result: Option<Payload>,
    /// How many results that stayed are behind that one.
    pub generation: u8,
    pub previous_sibling: u32,
    pub next_sibling: u32,
    pub first_child: u32,
}

/// The place of no peer.
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
            timer: NONE,
            parent: NONE,
            from: NO_PEER,
            is_nested: false,
            result: None,
            generation: 0,
            previous_sibling: NONE,
            next_sibling: NONE,
            first_child: NONE,
        }
    }

    /// The same of a task that an answer ends, whatever it says: no limit of time, no other attempt, nothing to give back.
    pub fn of_submission(task: u32, options: &TaskOptions, config: &crate::Config) -> Self {
        let mut extra = Self::new(task, options, config);
        let is_timed = extra.timeout_ns != u64::MAX || extra.deadline_ns != u64::MAX;
        extra.is_owed = is_timed || extra.budgets != Budgets::default() || !extra.demand.is_none();
        extra
    }

    /// It says where the task is to run and nothing else: there is no time to watch, no kin, no batch, no claim.
    #[inline]
    pub const fn is_only_for_placing(&self) -> bool {
        !self.is_owed && self.batch.is_none()
    }
}
