//! The places where workers sit.

use gristmill_wire::{ContextId, Demand, Epoch};

use crate::list::List;
use crate::{Config, NONE, TaskId};

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// No process.
    Absent,
    /// No process: a worker in another slot has its place too.
    Lent,
    /// A process was asked for.
    Starting,
    /// Its worker takes tasks.
    Ready,
    /// Its worker was asked to leave.
    Retiring,
    /// Its worker was killed; the notice is under way.
    Dying,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub state: SlotState,
    pub epoch: Epoch,
    /// What its worker keeps ready; 0 is nothing.
    pub context: ContextId,
    /// Its worker leaves once it has nothing to do.
    pub is_leaving: bool,
    /// No room in the ring, until it answers something.
    pub full: bool,
    /// Something was taken from behind its running task: nothing goes there again, until it answers
    /// something.
    pub stuck: bool,
    /// Tasks of its stack that wait for tasks they submitted.
    pub waiting: u32,
    /// Records in the ring and not answered, in ring order.
    pub in_flight: List,
    /// Batches among them whose rest nobody has asked for.
    pub batches: u32,
    /// The batch in flight that was stopped: its worker may not have seen it yet.
    pub stopped: u32,
    /// Sum of their costs.
    pub backlog_ns: u64,
    /// The sequence of the last record: restores the high half of those in the task records.
    pub last_sequence: u64,
    /// Records this process was sent, less those that came back.
    pub sent: u32,
    /// Ready tasks submitted by tasks that run here.
    pub nested: List,
    /// The task that has this place, though it may run in another one; `NONE`: any may come.
    pub holder: u32,
    /// The GPUs that its process has used, or was given with its context, a bit each.
    pub devices: u16,
    /// What its worker has besides the place, because its context asks for it.
    pub demand: Demand,
    /// The slot whose worker has this place, which is lent; `u16::MAX`: it is not.
    pub lent_to: u16,
    /// When its process was ready, nanoseconds and clock ticks.
    pub ready_at: u64,
    pub ready_ticks: u64,
    /// Since when nothing is in flight.
    pub idle_since: u64,
    /// When it is killed, if it was asked to leave and does not.
    pub leave_by: u64,
    /// The task because of which it was killed.
    pub killed_for: Option<TaskId>,
}

impl Slot {
    pub const fn new() -> Self {
        Self {
            state: SlotState::Absent,
            epoch: Epoch(0),
            context: ContextId(0),
            is_leaving: false,
            full: false,
            stuck: false,
            waiting: 0,
            in_flight: List::EMPTY,
            batches: 0,
            stopped: NONE,
            backlog_ns: 0,
            last_sequence: 0,
            sent: 0,
            nested: List::EMPTY,
            holder: NONE,
            devices: 0,
            demand: Demand::NONE,
            lent_to: u16::MAX,
            ready_at: 0,
            ready_ticks: 0,
            idle_since: 0,
            leave_by: u64::MAX,
            killed_for: None,
        }
    }

    /// Whether a process is there, or was asked for.
    #[inline]
    pub const fn has_process(&self) -> bool {
        !matches!(self.state, SlotState::Absent | SlotState::Lent)
    }

    /// Whether it may be sent one more, by its state and its window.
    #[inline]
    pub fn has_room(&self, config: &Config) -> bool {
        let count = self.in_flight.len;
        self.state == SlotState::Ready
            && !self.full
            && (count < config.depth_min + self.waiting
                || (self.backlog_ns < config.window_ns && count < config.depth_max))
    }

    /// Whether tasks go here: nobody in its stack waits, no task has the place, nothing was just taken from it, and its
    /// process is not used up, nor to leave. (A child of a waiting task goes home even then: else its
    /// parent would never end.)
    #[inline]
    pub fn is_open(&self, config: &Config) -> bool {
        let limit = config.tasks_per_worker_max;
        self.waiting == 0
            && self.holder == NONE
            && !self.is_leaving
            && (!self.stuck || self.in_flight.len == 0)
            && (limit == 0 || self.sent < limit)
            && self.has_room(config)
    }

    /// Whether it has run down far enough to be filled again: in batches, since a record alone
    /// costs a cache miss.
    #[inline]
    pub fn is_low(&self, config: &Config) -> bool {
        let count = self.in_flight.len;
        count < config.depth_min
            || (self.backlog_ns < config.window_ns / 2 && count < config.depth_max / 2)
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state == SlotState::Ready && self.in_flight.len == 0
    }

    /// Whether something waits behind what it runs, or behind what its stack waits for: the rest of a batch too.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.state == SlotState::Ready && self.in_flight.len + self.batches > self.waiting + 1
    }

    /// Whether something could be taken from it.
    #[inline]
    pub const fn is_deep(&self) -> bool {
        self.in_flight.len + self.batches > 1
    }

    /// Whether all that is in flight waits for tasks that it submitted.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.state == SlotState::Ready && self.waiting > 0 && self.in_flight.len == self.waiting
    }

    /// The whole sequence of a record in flight, from its low half.
    #[inline]
    pub const fn sequence(&self, low: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
        let back = (self.last_sequence as u32).wrapping_sub(low);
        self.last_sequence - back as u64
    }
}
