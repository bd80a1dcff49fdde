//! Slots of workers.

use gristmill_wire::{ContextId, Epoch, ResourceRequest};

use crate::floor::NO_FLOOR;
use crate::list::List;
use crate::queue::ReadyQueue;
use crate::{Config, NONE, TaskId};

/// Time in which rates of answers are counted, about five hours: a task of an hour has a rate above 0 too.
pub(crate) const RATE_NS: u64 = 1 << 44;

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// No process.
    Absent,
    /// No process: the worker of another slot has its CPU slot too.
    Lent,
    /// A process was asked for.
    Starting,
    /// The worker takes tasks.
    Ready,
    /// The worker was asked to leave.
    Retiring,
    /// The worker was killed; the notice is under way.
    Dying,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub state: SlotState,
    pub epoch: Epoch,
    /// Context that its worker keeps ready; 0 is none.
    pub context: ContextId,
    /// True if its worker leaves once it has nothing to do.
    pub is_leaving: bool,
    /// True if the ring has no room, until the worker answers a record.
    pub full: bool,
    /// True if tasks were taken from behind its running task: no task goes there again until the worker answers a
    /// record.
    pub stuck: bool,
    /// Tasks of its stack that wait for tasks that they submitted.
    pub waiting: u32,
    /// Records in the ring and not answered, in ring order.
    pub in_flight: List,
    /// Batches among them whose rest was not asked for.
    pub batches: u32,
    /// Batch in flight that was stopped: its worker may not have seen this yet.
    pub stopped: u32,
    /// Sum of the costs of the records in flight, ns.
    pub backlog_ns: u64,
    /// Sequence of the last record: restores the high half of those in the task records.
    pub last_sequence: u64,
    /// Records that this process was sent, less those that came back.
    pub sent: u32,
    /// Least priority that its worker begins.
    pub floor: i32,
    /// Sequence of the first record that was sent since the floor was raised.
    pub floor_since: u64,
    /// Records in flight that were sent since the floor was raised.
    pub above: u32,
    /// Sum of the costs of these records, ns.
    pub above_ns: u64,
    /// Ready tasks submitted by tasks that run here.
    pub nested: ReadyQueue,
    /// Task that holds this slot, though it may run in another one; `NONE` if any task may come.
    pub holder: u32,
    /// GPUs that its process has used, or was given with its context, one bit each.
    pub devices: u16,
    /// Resources that its worker has besides the CPU slot, because its context asks for them.
    pub demand: ResourceRequest,
    /// Slot whose worker has this CPU slot, which is lent; `u16::MAX` if it is not lent.
    pub lent_to: u16,
    /// Time at which its process was ready, ns.
    pub ready_at: u64,
    pub ready_ticks: u64,
    /// Time since which nothing is in flight, ns.
    pub idle_since: u64,
    /// Time at which its worker is killed, if it was asked to leave and does not.
    pub leave_by: u64,
    /// Task because of which its worker was killed.
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
            floor: NO_FLOOR,
            floor_since: 0,
            above: 0,
            above_ns: 0,
            nested: ReadyQueue::new(),
            holder: NONE,
            devices: 0,
            demand: ResourceRequest::NONE,
            lent_to: u16::MAX,
            ready_at: 0,
            ready_ticks: 0,
            idle_since: 0,
            leave_by: u64::MAX,
            killed_for: None,
        }
    }

    /// Returns the number of answers in [`RATE_NS`] that its records are expected to have: none of those that wait for other
    /// tasks, whose time its backlog does not hold either.
    pub fn answer_rate(&self) -> u64 {
        let records = u64::from(self.in_flight.len - self.waiting).min(u64::from(u16::MAX));
        records * RATE_NS / self.backlog_ns.max(1)
    }

    /// Returns true if a process is there, or was asked for.
    #[inline]
    pub const fn has_process(&self) -> bool {
        !matches!(self.state, SlotState::Absent | SlotState::Lent)
    }

    /// Returns true if a process is there and has started.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.has_process() && self.state != SlotState::Starting
    }

    /// Returns true if one more record may be sent, by the slot's state and the usual window.
    #[inline]
    pub fn has_room(&self, config: &Config) -> bool {
        self.has_room_within(config, config.window_ns)
    }

    #[inline]
    fn has_room_within(&self, config: &Config, window_ns: u64) -> bool {
        let count = self.in_flight.len;
        self.state == SlotState::Ready
            && !self.full
            && (count < config.depth_min + self.waiting
                || (self.backlog_ns < window_ns && count < config.depth_max))
    }

    /// Returns true if tasks may be sent here: no task of its stack waits, no task holds the slot, nothing was just
    /// taken from it, its process is not used up and does not leave, and there is no floor. A child of a waiting task
    /// is sent to its parent even if this returns false: else the parent would never end.
    #[inline]
    pub fn is_open(&self, config: &Config) -> bool {
        self.is_open_within(config, config.window_ns)
    }

    /// Works as [`Self::is_open`], with a window of its own.
    #[inline]
    pub fn is_open_within(&self, config: &Config, window_ns: u64) -> bool {
        self.floor == NO_FLOOR && self.takes_tasks(config, window_ns)
    }

    /// Returns true if tasks above the slot's floor may be sent here; else like [`Self::is_open`].
    #[inline]
    pub fn is_open_above_floor(&self, config: &Config) -> bool {
        self.takes_tasks(config, config.window_ns)
    }

    #[inline]
    fn takes_tasks(&self, config: &Config, window_ns: u64) -> bool {
        let limit = config.tasks_per_worker_max;
        self.waiting == 0
            && self.holder == NONE
            && !self.is_leaving
            && (!self.stuck || self.in_flight.len == 0)
            && (limit == 0 || self.sent < limit)
            && self.has_room_within(config, window_ns)
    }

    /// Returns true if the slot has run down far enough to be filled again to a window. It is filled in batches, since
    /// a single record costs a cache miss.
    #[inline]
    pub fn is_low(&self, config: &Config, window_ns: u64) -> bool {
        let count = self.in_flight.len;
        count < config.depth_min
            || (self.backlog_ns < window_ns / 2 && count < config.depth_max / 2)
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.state == SlotState::Ready && self.in_flight.len == 0
    }

    /// Returns true if a record, or the rest of a batch, waits behind the running task or behind the waiting tasks of
    /// the stack.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.state == SlotState::Ready && self.in_flight.len + self.batches > self.waiting + 1
    }

    /// Returns true if something could be taken from it.
    #[inline]
    pub const fn is_deep(&self) -> bool {
        self.in_flight.len + self.batches > 1
    }

    /// Returns true if all tasks in flight wait for tasks that they submitted.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.state == SlotState::Ready && self.waiting > 0 && self.in_flight.len == self.waiting
    }

    /// Returns the whole sequence of a record in flight, from its low half.
    #[inline]
    pub const fn sequence(&self, low: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
        let back = (self.last_sequence as u32).wrapping_sub(low);
        self.last_sequence - back as u64
    }
}
