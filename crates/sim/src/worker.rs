//! A simulated worker: a task ring, a result ring, and one step at a time, so that every
//! interleaving can happen.

use std::collections::VecDeque;

use gristmill_core::{Attempt, ContextId, Epoch, Outfit, Payload, Progress, TaskId};
use gristmill_wire::{AnswerFrame, Span, TaskFlags, Verdict};

/// A task record in the ring.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its sequence.
    pub sequence: u64,
    /// Its task.
    pub task: TaskId,
    /// The program's number of the task; of a batch, of its running call.
    pub number: usize,
    /// A batch: the numbers of all its calls.
    pub calls: Vec<usize>,
    /// Which placement it is.
    pub attempt: Attempt,
    /// Its flags.
    pub flags: TaskFlags,
    /// Whose results it names, and of which run each is.
    pub saw: Vec<(usize, u32)>,
    /// The GPUs that it is told of, a bit each.
    pub devices: u16,
    /// When it must not start any more; 0 is never.
    pub deadline_ns: u64,
    /// The writer wants it back.
    pub revoked: bool,
}

/// How a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Returns.
    Return,
    /// Raises.
    Raise,
    /// Ends the process.
    Exit,
    /// Does not end by itself; whether it gives way to an interrupt.
    Hang {
        /// It does not.
        ignores: bool,
    },
}

/// A task on the worker's stack.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its record.
    pub record: Record,
    /// How it goes on.
    pub course: Course,
    /// When it may end.
    pub end_at: u64,
    /// When it began.
    pub started_at: u64,
    /// Which run of its task it is.
    pub run: u32,
    /// Children it has yet to submit.
    pub to_submit: u64,
    /// Numbers of children it waits for; filled in as their requests are taken.
    pub children: Vec<usize>,
    /// Requests on their way.
    pub requested: u64,
    /// Whether it waits.
    pub waits: bool,
    /// Of a batch: calls whose results are written.
    pub done: usize,
}

impl Frame {
    /// Of a record that is about to begin.
    #[must_use]
    pub const fn new(record: Record, now: u64) -> Self {
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
pub enum Message {
    /// The answer to a task.
    Answer(AnswerFrame, Payload),
    /// What came of the next call of a batch: the batch and the call's number.
    Result(TaskId, usize, Verdict),
    /// The running task, of this number, submits another.
    Request(TaskId, usize),
    /// The running task waits, or has ceased to.
    Wait(TaskId, bool),
}

/// A process, or where one was.
#[derive(Debug, Default)]
pub struct Worker {
    /// Counts the processes of the slot.
    pub epoch: Epoch,
    /// Its context, or that of none.
    pub context: ContextId,
    /// It was asked for and is not up.
    pub is_starting: bool,
    /// When its start can end.
    pub start_ends_at: u64,
    /// It is up.
    pub is_up: bool,
    /// Since when.
    pub up_since: u64,
    /// What it has besides its place, with its context.
    pub outfit: Outfit,
    /// It is dead and the notice is under way: the signal.
    pub dead: Option<i32>,
    /// The keeper died.
    pub by_keeper: bool,
    /// It was asked to leave.
    pub is_retired: bool,
    /// It does not leave by itself then.
    pub stays: bool,
    /// Its task ring.
    pub ring: VecDeque<Record>,
    /// The next sequence of the ring.
    pub next_sequence: u64,
    /// What it says of itself.
    pub progress: Progress,
    /// Its claimed record, if it has not begun, and whether the revoked word was read and not set.
    pub claimed: Option<(Record, bool)>,
    /// Between two calls of a batch: its frame, and whether the next call was claimed.
    pub batch: Option<(Frame, bool)>,
    /// The batch of which no further call is to begin, its sequence + 1.
    pub stopped: u64,
    /// Calls claimed of the batch that was begun last.
    pub calls_claimed: u32,
    /// The GPUs that the process has used, a bit each.
    pub devices: u16,
    /// What it runs, innermost last.
    pub stack: Vec<Frame>,
    /// Its result ring.
    pub results: VecDeque<Message>,
    /// How many of these are committed.
    pub published: usize,
    /// The record it is asked to interrupt.
    pub interrupt: Option<u64>,
}

impl Worker {
    /// Whether it has a process, as far as the engine was told.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.is_up || self.is_starting
    }

    /// Whether it was asked to leave and does not by itself.
    #[must_use]
    pub const fn outstays(&self) -> bool {
        self.is_up && self.is_retired && self.stays
    }

    /// A fresh process for the next epoch.
    pub fn restart(&mut self) {
        let epoch = Epoch(self.epoch.0 + 1);
        *self = Self { epoch, is_starting: true, ..Self::default() };
    }

    /// The answer of this worker to a record that began at some time, if it did.
    pub fn answer(&mut self, record: &Record, end: (Verdict, Payload), started_at: u64, now: u64) {
        let (verdict, payload) = end;
        let frame = AnswerFrame {
            task: record.task,
            #[expect(clippy::cast_possible_truncation, reason = "the low half travels")]
            sequence: record.sequence as u32,
            attempt: record.attempt,
            verdict,
            payload: payload.kind(),
            temperature: gristmill_wire::Temperature::Hot,
            started_ticks: started_at,
            claimed_before: Span::from_ticks(0),
            ran: Span::from_ticks(now - started_at),
            published_after: Span::from_ticks(0),
            payload_size: 0,
        };
        self.results.push_back(Message::Answer(frame, payload));
    }

    /// Whether the innermost task, if any, lets another one in.
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
