//! The loop.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gristmill_shm::{Claim, Corrupt, Record, Tail, Words, WorkerControl, WorkerLane};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{monotonic_ns, ticks};
use gristmill_wire::{
    EXTENSION_WORDS, FrameError, FunctionId, Kind, PARENT_WORDS, ParentEntry, PayloadKind,
    TASK_WORDS, TaskExtension, TaskFlags, TaskFrame, Verdict, padded_size,
};
use thiserror::Error;

use crate::answer::{self, Answer, Times};
use crate::callee::{Call, Callee, ParentList};

/// How a worker is to behave.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// How long it polls an empty ring before it sleeps.
    pub spin: Duration,
}

/// Why a worker's loop ended before it was told to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WorkerEnd {
    /// The task ring is damaged.
    #[error("the task ring is damaged: {0}")]
    Ring(#[from] Corrupt),
    /// A record in it is malformed.
    #[error("a task record is malformed: {0}")]
    Frame(#[from] FrameError),
    /// The client's end of the result ring is damaged.
    #[error("the result ring cannot be written to")]
    Results,
}

/// What runs now, for the handler of interrupts.
#[derive(Debug, Clone)]
pub struct Running {
    control: WorkerControl,
    /// The sequence of the innermost running task + 1; 0 is none.
    current: Rc<Cell<u64>>,
}

impl Running {
    /// Whether the task that runs now is to be interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let current = self.current.get();
        current != 0 && self.control.interrupt_requested() == Some(current - 1)
    }
}

/// One worker at work.
pub struct Worker<C> {
    lane: WorkerLane,
    callee: C,
    options: WorkerOptions,
    mode: BarrierMode,
    current: Rc<Cell<u64>>,
    body: Vec<u8>,
    out: Vec<u8>,
    /// Tasks run since the ring was found empty last.
    streak: u32,
}

/// A task record, copied out of the ring.
pub(crate) struct Task {
    pub(crate) frame: TaskFrame,
    extension: TaskExtension,
    sequence: u64,
    /// When it was claimed, clock ticks.
    claimed: u64,
    /// Where the payload is in the body, behind the parents.
    pub(crate) payload_at: usize,
}

enum Step {
    Task(Task),
    /// It was taken back before it was claimed.
    Revoked(Task),
    Define(FunctionId),
    Stop,
    /// Nothing was there.
    Idle,
    /// A record that means nothing here.
    Other,
}

impl<C: Callee> Worker<C> {
    /// A worker at its end of a lane.
    pub fn new(lane: WorkerLane, callee: C, options: WorkerOptions) -> Self {
        let mode = lane.control.mode();
        let current = Rc::new(Cell::new(0));
        Self { lane, callee, options, mode, current, body: Vec::new(), out: Vec::new(), streak: 0 }
    }

    /// The view of an interrupt handler.
    pub fn running(&self) -> Running {
        Running { control: self.lane.control.clone(), current: Rc::clone(&self.current) }
    }

    /// Tells the client that the worker is ready, or why it will not be.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn announce(&mut self, failure: Option<&str>) -> Result<(), WorkerEnd> {
        answer::announce(&mut self.lane, failure)
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the process should exit with an error.
    pub fn run(&mut self) -> Result<(), WorkerEnd> {
        loop {
            match self.next_step()? {
                Step::Task(task) => self.perform(&task)?,
                Step::Revoked(task) => self.refuse(&task, Verdict::Skipped)?,
                Step::Define(function) => self.callee.define(function, &self.body),
                Step::Idle => self.idle(),
                Step::Other => {}
                Step::Stop => return Ok(()),
            }
        }
    }

    /// Copies the next record into `body` and lets go of it; a task is claimed, and answered at once if it must not run.
    fn next_step(&mut self) -> Result<Step, WorkerEnd> {
        let Some(record) = self.lane.tasks.peek()? else { return Ok(Step::Idle) };
        let step = match record.header().kind {
            Kind::Task => {
                let claimed = ticks();
                let claim = self.lane.control.progress().claim(&record, self.mode);
                let task = read_task(&record, claimed, &mut self.body)?;
                if claim == Claim::Revoked { Step::Revoked(task) } else { Step::Task(task) }
            }
            Kind::Define => Step::Define(read_definition(&record, &mut self.body)?),
            Kind::Stop => Step::Stop,
            _ => Step::Other,
        };
        self.consume();
        Ok(step)
    }

    fn consume(&mut self) {
        if self.lane.tasks.consume() == Tail::Published && self.lane.tasks.writer_waits(self.mode) {
            self.lane.control.peer_bell().wake();
        }
    }

    /// Answers a task without running it.
    fn refuse(&mut self, task: &Task, verdict: Verdict) -> Result<(), WorkerEnd> {
        let times = Times { claimed: task.claimed, started: task.claimed };
        let Task { ref frame, sequence, .. } = *task;
        let answer = Answer { frame, sequence, times, verdict, payload: &[], is_arena: false };
        answer::write(&mut self.lane, &answer)
    }

    fn perform(&mut self, task: &Task) -> Result<(), WorkerEnd> {
        let deadline = task.extension.deadline_ns;
        if deadline != 0 && monotonic_ns() >= deadline {
            return self.refuse(task, Verdict::Expired);
        }
        self.streak += 1;
        let started = ticks();
        self.lane.control.progress().start(task.sequence, started);
        let outer = self.current.replace(task.sequence + 1);
        let call = Call {
            function: task.frame.function,
            payload: &self.body[task.payload_at..],
            arena: task.frame.payload == PayloadKind::Arena,
            parents: ParentList {
                bytes: &self.body[..task.payload_at],
                count: task.frame.parent_count,
            },
        };
        self.out.clear();
        let reply = self.callee.call(&call, &mut self.out);
        self.current.set(outer);
        let answer = Answer {
            frame: &task.frame,
            sequence: task.sequence,
            times: Times { claimed: task.claimed, started },
            verdict: reply.verdict,
            payload: &self.out,
            is_arena: reply.arena,
        };
        answer::write(&mut self.lane, &answer)?;
        self.lane.control.progress().end(task.sequence);
        Ok(())
    }

    /// Polls for a while, then sleeps until the bell rings.
    fn idle(&mut self) {
        let is_stream = std::mem::take(&mut self.streak) >= STREAM;
        for _ in 0..if is_stream { STREAM_PAUSES } else { 0 } {
            gristmill_sync::hint::spin_loop();
        }
        for _ in 0..ATTACHED_POLLS {
            if self.lane.tasks.has_record() {
                return;
            }
            gristmill_sync::hint::spin_loop();
        }
        let Self { lane, callee, options, mode, .. } = self;
        callee.while_idle(&mut || wait_for_record(lane, options.spin, *mode));
    }
}

/// So many tasks in a row are a stream, whose writer the worker has caught up with.
const STREAM: u32 = 4;
/// How long it then leaves the writer alone, about half a microsecond: each look at the line that is being written takes
/// it away from the writer for longer than a small task lasts.
const STREAM_PAUSES: u32 = 20;
/// Looks at the ring before the callee is asked to give up what it holds: about a microsecond, within which a client that
/// calls and waits comes back.
const ATTACHED_POLLS: u32 = 100;
const POLLS_PER_LOOK: u32 = 64;
/// The longest sleep: whatever was missed is found after it.
const SLEEP_MAX: Duration = Duration::from_millis(500);

fn wait_for_record(lane: &mut WorkerLane, spin: Duration, mode: BarrierMode) {
    let begun = Instant::now();
    while begun.elapsed() < spin {
        for _ in 0..POLLS_PER_LOOK {
            if lane.tasks.has_record() {
                return;
            }
            gristmill_sync::hint::spin_loop();
        }
    }
    if lane.tasks.publish_tail() == Tail::Published && lane.tasks.writer_waits(mode) {
        lane.control.peer_bell().wake();
    }
    let WorkerLane { tasks, control, .. } = lane;
    let _ = control.own_bell().sleep(mode, || !tasks.has_record(), Some(SLEEP_MAX));
}

pub(crate) fn read_definition<W: Words>(
    record: &Record<'_, W>,
    body: &mut Vec<u8>,
) -> Result<FunctionId, FrameError> {
    let [word] = record.words(0)?;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]
    let (function, size) = (word as u32, (word >> 32) as u32);
    body.clear();
    record.append_to(8, size, body)?;
    Ok(FunctionId(function))
}

/// Copies parents and payload into `body`, and checks that they are where the frame says.
#[inline]
pub(crate) fn read_task<W: Words>(
    record: &Record<'_, W>,
    claimed: u64,
    body: &mut Vec<u8>,
) -> Result<Task, FrameError> {
    #[expect(clippy::cast_possible_truncation, reason = "a handful of words")]
    const FIXED: (u32, u32) = (TASK_WORDS as u32, EXTENSION_WORDS as u32);
    let frame = TaskFrame::from_words(record.words(0)?)?;
    let has_extension = frame.flags.has(TaskFlags::EXTENDED);
    let mut start = FIXED.0 * 8;
    let mut extension = TaskExtension::default();
    if has_extension {
        extension = TaskExtension::from_words(record.words(FIXED.0)?);
        start += FIXED.1 * 8;
    }
    let mut end = start;
    for _ in 0..frame.parent_count {
        let entry = ParentEntry::from_words(record.words::<PARENT_WORDS>(end / 8)?);
        let size = u32::try_from(padded_size(entry.size as usize)).unwrap_or(u32::MAX);
        end = end.saturating_add(16).saturating_add(size);
        if end > record.body_size() {
            let (needed, found) = (end as usize, record.body_size() as usize);
            return Err(FrameError::Truncated { needed, found });
        }
    }
    let parents_size = end - start;
    body.clear();
    record.append_to(start, parents_size.saturating_add(frame.payload_size), body)?;
    let sequence = record.sequence();
    Ok(Task { frame, extension, sequence, claimed, payload_at: parents_size as usize })
}
