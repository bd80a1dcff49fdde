//! Record of a task, and the table of records.
//!
//! A million outstanding tasks must fit: a record has 96 bytes. Four of its words change meaning when the task becomes
//! final, because the placement fields (list, sequence, parents) are free when the facts about its run arrive.

use std::ops::{Index, IndexMut};

use gristmill_wire::{Attempt, FunctionId, Span, TaskId, WorkerState};

use crate::estimate::Cost;
use crate::outcome::TaskContent;
use crate::{AttemptTimings, NONE, Payload, Status};

/// State of a task: the list that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The record is unused.
    Free,
    /// The task waits for parents.
    Blocked,
    /// In the ready queue.
    Ready,
    /// In the queue of the slot whose running task submitted it.
    Nested,
    /// In the ring of a slot.
    Sent,
    /// Delegated to a peer.
    Delegated,
    /// The task has returned at a peer, and its result is there.
    Returned,
    /// The task waits for parents, and for room at the peer that has them.
    Following,
    /// Not a task, but a promised value.
    Promised,
    /// Between two other states, inside one call.
    Loose,
    Final,
}

/// Flags of a task, one bit each.
pub(crate) mod flag {
    /// The future is gone: the record is freed once the task is final and no task needs its result.
    pub const RELEASED: u8 = 1;
    /// The record was revoked, and the worker has not yet answered whether the task ran.
    pub const RECALLED: u8 = 2;
    /// The task was cancelled while it may run.
    pub const CANCELLED: u8 = 4;
    /// The timeout ran out.
    pub const TIMED_OUT: u8 = 8;
    /// The task waits for a task that it submitted.
    pub const WAITING: u8 = 16;
    /// The parent's worker declined to run it in the wait.
    pub const DECLINED: u8 = 32;
    /// The deadline has been handled.
    pub const EXPIRED: u8 = 64;
    /// Final: the worker slept when the task came (the bit of [`WAITING`]).
    pub const WARM: u8 = WAITING;
    /// Final: the worker had to be started first (the bit of [`DECLINED`]).
    pub const COLD: u8 = DECLINED;
    /// User code had begun: known once the task's worker has died, or the task is final.
    pub const STARTED: u8 = 128;
    /// Flags that a new attempt starts without.
    pub const OF_ATTEMPT: u8 = RECALLED | CANCELLED | TIMED_OUT | WAITING | EXPIRED | STARTED;
}

#[derive(Debug)]
pub(crate) struct Task {
    pub content: TaskContent,
    pub handle: u64,
    pub submitted_ticks: u64,
    pub started_ticks: u64,
    pub generation: u32,
    pub function: FunctionId,
    /// Link of the list that the task is in, or of the free list; final: span before the start.
    pub previous: u32,
    /// Link of that list; final: span of the run.
    pub next: u32,
    /// Blocked, following, away: unfinished parents; sent: low half of the sequence; final: span before the
    /// publication.
    pub sequence: u32,
    /// First edge to a parent; final: span from submission to drain.
    pub first_parent: u32,
    /// First edge to a dependant, in a ring of edges; none once final.
    pub first_dependant: u32,
    /// Number of tasks that need the record: unfinished dependants, and tasks whose failure it caused.
    pub holds: u32,
    pub extra: u32,
    pub written: u32,
    /// Sent or nested: the slot; away or returned: the peer; final: the last slot.
    pub slot: u16,
    pub cost: Cost,
    pub attempt: Attempt,
    pub state: State,
    pub status: Status,
    pub flags: u8,
}

const _: () = assert!(size_of::<Task>() == 96);

impl Task {
    #[inline]
    pub const fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    /// Returns the arguments of a live task, or the value of a successful one.
    #[inline]
    pub fn payload(&self) -> &Payload {
        match &self.content {
            TaskContent::Payload(payload) => payload,
            _ => unreachable!("a live or successful task has a payload"),
        }
    }

    pub fn timings(&self) -> AttemptTimings {
        let after = |bits: u32| if self.state == State::Final { bits } else { 0 };
        if !crate::HAS_TAGS {
            return AttemptTimings::of_run(Span::from_bits(after(self.next)));
        }
        AttemptTimings {
            submitted_ticks: self.submitted_ticks,
            written_after: Span::from_bits(self.written),
            started_ticks: self.started_ticks,
            claimed_before: Span::from_bits(after(self.previous)),
            ran: Span::from_bits(after(self.next)),
            published_after: Span::from_bits(after(self.sequence)),
            drained_after: Span::from_bits(after(self.first_parent)),
            worker_state: self.worker_state(),
        }
    }

    /// Returns the state in which the worker of a final task was: hot, warm or cold.
    fn worker_state(&self) -> WorkerState {
        match (self.state == State::Final, self.has(flag::COLD), self.has(flag::WARM)) {
            (true, true, _) => WorkerState::Cold,
            (true, false, true) => WorkerState::Warm,
            _ => WorkerState::Hot,
        }
    }

    /// Records the worker state of a task that is final now.
    pub const fn set_temperature(&mut self, worker_state: WorkerState) {
        self.flags &= !(flag::WARM | flag::COLD);
        self.flags |= match worker_state {
            WorkerState::Hot => 0,
            WorkerState::Warm => flag::WARM,
            WorkerState::Cold => flag::COLD,
        };
    }
}

/// Task records by index. Each index has a generation, which differs for each task that uses it.
#[derive(Debug)]
pub(crate) struct TaskTable {
    entries: Vec<Task>,
    free: u32,
    used: u32,
}

impl TaskTable {
    pub const fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, used: 0 }
    }

    /// Inserts a record in state `Loose` with the given call and empty links. Returns its index.
    #[inline]
    pub fn insert(&mut self, function: FunctionId, payload: Payload, handle: u64) -> u32 {
        if self.free == NONE {
            self.push_free();
        }
        let index = self.free;
        let task = &mut self.entries[index as usize];
        debug_assert!(task.state == State::Free, "a used record on the free list");
        self.free = task.next;
        self.used += 1;
        *task = Task {
            content: TaskContent::Payload(payload),
            handle,
            function,
            generation: task.generation,
            state: State::Loose,
            ..blank()
        };
        index
    }

    #[cold]
    fn push_free(&mut self) {
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 tasks");
        assert!(index != NONE, "a table holds fewer than 2^32 - 1 tasks");
        self.entries.push(blank());
        self.free = index;
    }

    /// Frees a record and returns its content.
    #[inline]
    pub fn remove(&mut self, index: u32) -> TaskContent {
        let free = self.free;
        let task = &mut self.entries[index as usize];
        assert!(task.state == State::Final, "only a final task is freed");
        task.state = State::Free;
        task.generation = task.generation.wrapping_add(1);
        task.next = free;
        self.free = index;
        self.used -= 1;
        std::mem::replace(&mut task.content, TaskContent::Empty)
    }

    /// Returns the index of a valid id.
    #[inline]
    pub fn find(&self, id: TaskId) -> Option<u32> {
        let task = self.entries.get(id.index() as usize)?;
        (task.generation == id.generation() && task.state != State::Free).then_some(id.index())
    }

    #[inline]
    pub fn id(&self, index: u32) -> TaskId {
        TaskId::new(index, self[index].generation)
    }

    pub const fn len(&self) -> u32 {
        self.used
    }

    /// Returns the highest index plus 1.
    pub fn end(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("fewer than 2^32 tasks")
    }
}

const fn blank() -> Task {
    Task {
        content: TaskContent::Empty,
        handle: 0,
        submitted_ticks: 0,
        started_ticks: 0,
        generation: 0,
        function: FunctionId(0),
        previous: NONE,
        next: NONE,
        sequence: 0,
        first_parent: NONE,
        first_dependant: NONE,
        holds: 0,
        extra: NONE,
        written: 0,
        slot: u16::MAX,
        cost: Cost::ZERO,
        attempt: Attempt(0),
        state: State::Free,
        status: Status::Refused,
        flags: 0,
    }
}

impl Index<u32> for TaskTable {
    type Output = Task;

    #[inline]
    fn index(&self, index: u32) -> &Task {
        &self.entries[index as usize]
    }
}

impl IndexMut<u32> for TaskTable {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Task {
        &mut self.entries[index as usize]
    }
}
