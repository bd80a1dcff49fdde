//! A simulated worker: a task ring, a result ring, and one step at a time, so that every interleaving can happen.

use std::collections::VecDeque;

use gristmill_core::{Attempt, ContextId, Epoch, Payload, RingProgress, TaskId, WorkerGrant};
use gristmill_wire::{AnswerFrame, Span, TaskFlags, Verdict};

/// A task record in the ring.
#[derive(Debug, Clone)]
pub struct SimTaskRecord {
    /// Sequence number of the record.
    pub sequence: u64,
    /// Id of the task.
    pub task: TaskId,
    /// The program's number of the task; in a batch, of its running call.
    pub number: usize,
    /// Numbers of all calls, if the record is a batch.
    pub calls: Vec<usize>,
    /// Placement of the task.
    pub attempt: Attempt,
    /// Flags of the task.
    pub flags: TaskFlags,
    /// Parents whose results the record names, and the run of each.
    pub saw: Vec<(usize, u32)>,
    /// Set of the GPUs in the task's grant, one bit each.
    pub devices: u16,
    /// Time after which it must not start; 0 if there is none.
    pub deadline_ns: u64,
    /// Priority in the record.
    pub priority: i32,
    /// True if the writer wants the record back.
    pub revoked: bool,
}

/// Course of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// The run returns.
    Return,
    /// The run raises.
    Raise,
    /// The run ends the process.
    Exit,
    /// The run does not end by itself.
    Hang {
        /// True if it ignores an interrupt.
        ignores: bool,
    },
}

/// A task on the worker's stack.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Record of the task.
    pub record: SimTaskRecord,
    /// Course of the run.
    pub course: Course,
    /// Time from which on it may end.
    pub end_at: u64,
    /// Time at which it began.
    pub started_at: u64,
    /// Index of the run among those of its task.
    pub run: u32,
    /// Number of children that it has yet to submit.
    pub to_submit: u64,
    /// Numbers of the children that it waits for, filled in when their requests are processed.
    pub children: Vec<usize>,
    /// Number of requests on their way.
    pub requested: u64,
    /// True if the task waits.
    pub waits: bool,
    /// Number of calls of a batch whose results are written.
    pub done: usize,
}

impl Frame {
    /// Creates the frame of a record that is about to begin.
    #[must_use]
    pub const fn new(record: SimTaskRecord, now: u64) -> Self {
        Self {
            record,
            course: Course::Return,
            end_at: now,
            started_at: now,
            run: 0,
            to_submit: 0,
            children: Vec::new(),
            requested: 0,
            waits: false,
            done: 0,
        }
    }
}

/// A record in the result ring.
#[derive(Debug, Clone)]
pub enum SimResultRecord {
    /// Answer to a task.
    Answer(AnswerFrame, Payload),
    /// Result of the next call of a batch: the batch, the call's number, and its verdict.
    Result(TaskId, usize, Verdict),
    /// Request of the running task, of this number, to submit another.
    Request(TaskId, usize),
    /// Beginning (true) or end (false) of a wait of the running task.
    Wait(TaskId, bool),
}

/// State of a slot, with or without a process.
#[derive(Debug, Default)]
pub struct SimWorker {
    /// Number of processes that the slot has had.
    pub epoch: Epoch,
    /// Context of the worker; [`PLAIN`](crate::contexts::PLAIN) if it has none.
    pub context: ContextId,
    /// True if the process was started and is not up yet.
    pub is_starting: bool,
    /// Time at which the start ends.
    pub start_ends_at: u64,
    /// True if the worker is up.
    pub is_up: bool,
    /// Time since which it is up.
    pub up_since: u64,
    /// Resources of the worker besides its CPU slot, from its context.
    pub grant: WorkerGrant,
    /// Signal of which the process died, if the notice is still on its way.
    pub dead: Option<i32>,
    /// True if it died with the keeper.
    pub by_keeper: bool,
    /// True if it was asked to leave.
    pub is_retired: bool,
    /// True if it does not leave by itself when asked.
    pub stays: bool,
    /// Task ring of the worker.
    pub ring: VecDeque<SimTaskRecord>,
    /// Next sequence number of the ring.
    pub next_sequence: u64,
    /// Progress that the worker publishes.
    pub progress: RingProgress,
    /// Claimed record that has not begun, with true if its revoked word was read and was not set.
    pub claimed: Option<(SimTaskRecord, bool)>,
    /// Frame of a batch between two calls, with true if the next call is claimed.
    pub batch: Option<(Frame, bool)>,
    /// Sequence number + 1 of the batch of which no further call may begin.
    pub stopped: u64,
    /// Lowest priority that may begin, counted from `i32::MIN`.
    pub floor: u32,
    /// Number of claimed calls of the batch that began last.
    pub calls_claimed: u32,
    /// Set of the GPUs that the process has used, one bit each.
    pub devices: u16,
    /// Running tasks, innermost last.
    pub stack: Vec<Frame>,
    /// Result ring of the worker.
    pub results: VecDeque<SimResultRecord>,
    /// Number of committed records in the result ring.
    pub published: usize,
    /// Sequence number of the record to interrupt.
    pub interrupt: Option<u64>,
}

impl SimWorker {
    /// Returns whether the slot has a process, to the engine's knowledge.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.is_up || self.is_starting
    }

    /// Returns whether the worker was asked to leave and does not do so by itself.
    #[must_use]
    pub const fn outstays(&self) -> bool {
        self.is_up && self.is_retired && self.stays
    }

    /// Starts a new process with the next epoch.
    pub fn restart(&mut self) {
        let epoch = Epoch(self.epoch.0 + 1);
        *self = Self { epoch, is_starting: true, ..Self::default() };
    }

    /// Writes the worker's answer to a record, which began at `started_at` if it did.
    pub fn answer(
        &mut self,
        record: &SimTaskRecord,
        end: (Verdict, Payload),
        started_at: u64,
        now: u64,
    ) {
        let (verdict, payload) = end;
        let frame = AnswerFrame {
            task: record.task,
            #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
            sequence: record.sequence as u32,
            attempt: record.attempt,
            verdict,
            payload: payload.kind(),
            worker_state: gristmill_wire::WorkerState::Hot,
            started_ticks: started_at,
            claimed_before: Span::from_ticks(0),
            ran: Span::from_ticks(now - started_at),
            published_after: Span::from_ticks(0),
            payload_size: 0,
        };
        self.results.push_back(SimResultRecord::Answer(frame, payload));
    }

    /// Returns whether the worker's floor lets a priority begin.
    #[must_use]
    pub const fn admits(&self, priority: i32) -> bool {
        priority.abs_diff(i32::MIN) >= self.floor
    }

    /// Returns whether the worker can claim a record: it has one, and its innermost task, if any, waits.
    #[must_use]
    pub fn may_claim(&self) -> bool {
        self.is_up
            && self.dead.is_none()
            && self.claimed.is_none()
            && self.batch.is_none()
            && self.stack.last().is_none_or(|frame| frame.waits)
            && !self.ring.is_empty()
    }
}
