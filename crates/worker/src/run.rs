//! The loop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_shm::{
    ArenaError, Bounds, Claim, Corrupt, Gaps, Record, Tail, Window, Words, WorkerArena,
    WorkerControl, WorkerLane,
};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{monotonic_ns, ticks};
use gristmill_wire::{
    BlockRange, EXTENSION_WORDS, FrameError, FunctionId, Kind, PARENT_WORDS, ParentEntry,
    PayloadKind, TASK_WORDS, TaskExtension, TaskFlags, TaskFrame, TaskId, Temperature, Verdict,
    padded_size,
};
use thiserror::Error;

use crate::answer::{self, Answer, Times};
use crate::callee::{Call, Callee, ParentList, Reply, split_parent};
use crate::stamps::Stamps;
use crate::tickets::Tickets;

/// How a worker is to behave.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// How long it polls an empty ring before it sleeps.
    pub window: Window,
    /// Bytes of stack beyond which a task that waits runs nothing below it.
    pub stack_max: usize,
    /// Clock ticks that a result of a batch may lie in the ring before its client is woken, while calls end.
    pub result_rest: u64,
}

/// Why a worker's loop ended before it was told to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkerEnd {
    /// The task ring is damaged.
    #[error("the task ring is damaged: {0}")]
    Ring(#[from] Corrupt),
    /// A record in it is malformed.
    #[error("a task record is malformed: {0}")]
    Frame(#[from] FrameError),
    /// A record names what is not in the arena.
    #[error("a record is malformed: {0}")]
    Arena(Box<str>),
    /// The client's end of the result ring is damaged.
    #[error("the result ring cannot be written to")]
    Results,
}

impl From<ArenaError> for WorkerEnd {
    fn from(error: ArenaError) -> Self {
        Self::Arena(error.to_string().into())
    }
}

/// What runs now, for the handler of interrupts.
#[derive(Debug, Clone)]
pub struct Running {
    control: WorkerControl,
    /// The sequence of the innermost running task + 1; 0 is none.
    current: Rc<Cell<u64>>,
    /// The sequence of the task that was interrupted last + 1.
    interrupted: Rc<Cell<u64>>,
}

impl Running {
    /// Whether the task that runs now is to be interrupted and was not yet.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let current = self.current.get();
        current != 0
            && current != self.interrupted.get()
            && self.control.interrupt_requested() == Some(current - 1)
    }

    /// As [`Self::is_interrupted`]; true once per task: whoever asks interrupts it.
    #[must_use]
    pub fn take_interrupt(&self) -> bool {
        let is_interrupted = self.is_interrupted();
        if is_interrupted {
            self.interrupted.set(self.current.get());
        }
        is_interrupted
    }
}

/// One worker at work. A task that it calls may come back to it: nothing is borrowed while the callee runs.
pub struct Worker<C> {
    pub(crate) lane: RefCell<WorkerLane>,
    pub(crate) control: WorkerControl,
    pub(crate) arena: Arc<WorkerArena>,
    pub(crate) callee: C,
    pub(crate) options: WorkerOptions,
    pub(crate) mode: BarrierMode,
    pub(crate) running: Running,
    /// The innermost running task.
    pub(crate) task: Cell<Option<TaskId>>,
    /// How many tasks are on the stack.
    pub(crate) depth: Cell<u32>,
    /// Where the stack was when the loop began.
    pub(crate) stack_base: Cell<usize>,
    /// How ready this worker is for the next record.
    temperature: Cell<Temperature>,
    gaps: Cell<Gaps>,
    /// Since when there is nothing to do.
    idle_since: Cell<Option<Instant>>,
    /// Tasks run since the ring was found empty last.
    streak: Cell<u32>,
    stamps: Stamps,
    pub(crate) is_stopped: Cell<bool>,
    /// Why a wait inside a task failed.
    pub(crate) broken: Cell<Option<WorkerEnd>>,
    pub(crate) tickets: RefCell<Tickets>,
    pub(crate) spare_buffers: RefCell<Vec<Buffers>>,
}

/// Where one level of the loop keeps a record and the answer to it.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub body: Vec<u8>,
    pub out: Vec<u8>,
}

/// A task record, copied out of the ring.
pub(crate) struct Task {
    pub frame: TaskFrame,
    extension: TaskExtension,
    pub sequence: u64,
    /// When it was claimed, clock ticks.
    pub claimed: u64,
    /// How ready this worker was for it.
    pub temperature: Temperature,
    /// Where the payload is in the body, behind the parents.
    pub(crate) payload_at: usize,
}

pub(crate) enum Step {
    Task(Task),
    /// It was taken back before it was claimed.
    Revoked(Task),
    Define(FunctionId),
    /// News of a task that a task here submitted, or a part of them; the word in front of it.
    Reply(u64),
    Stop,
    /// Nothing was there.
    Idle,
    /// A record that means nothing here.
    Other,
}

impl<C: Callee> Worker<C> {
    /// A worker at its end of a lane.
    pub fn new(
        lane: WorkerLane,
        arena: Arc<WorkerArena>,
        callee: C,
        options: WorkerOptions,
    ) -> Self {
        let control = lane.control.clone();
        let running = Running {
            control: control.clone(),
            current: Rc::default(),
            interrupted: Rc::default(),
        };
        Self {
            mode: control.mode(),
            lane: RefCell::new(lane),
            control,
            arena,
            callee,
            options,
            running,
            task: Cell::new(None),
            depth: Cell::new(0),
            stack_base: Cell::new(0),
            temperature: Cell::default(),
            gaps: Cell::new(Gaps::new(options.window, LOOKS)),
            idle_since: Cell::default(),
            streak: Cell::new(0),
            stamps: Stamps::new(),
            is_stopped: Cell::new(false),
            broken: Cell::new(None),
            tickets: RefCell::default(),
            spare_buffers: RefCell::default(),
        }
    }

    /// The view of an interrupt handler.
    pub fn running(&self) -> Running {
        self.running.clone()
    }

    /// Tells the client that the worker is ready, or why it will not be.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn announce(&self, failure: Option<&str>) -> Result<(), WorkerEnd> {
        answer::announce(&mut self.lane.borrow_mut(), failure)
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the process should exit with an error.
    pub fn run(&self) -> Result<(), WorkerEnd> {
        let mut buffers = Buffers::default();
        self.stack_base.set(std::ptr::from_ref(&buffers).addr());
        loop {
            match self.next_step(&mut buffers.body)? {
                Step::Task(task) => {
                    self.perform(&task, &mut buffers)?;
                    self.release_dropped(1)?;
                    if self.is_stopped.get() {
                        return Ok(());
                    }
                }
                Step::Revoked(task) => self.refuse(&task, Verdict::Skipped)?,
                Step::Define(function) => self.define(function, &buffers.body),
                Step::Reply(word) => self.take_reply(word, &buffers.body)?,
                Step::Idle => {
                    self.tell_returns()?;
                    self.idle(SLEEP_MAX);
                }
                Step::Other => {}
                Step::Stop => return Ok(()),
            }
        }
    }

    /// Copies the next record into `body` and lets go of it; a task is claimed, and answered at once if it must not run.
    pub(crate) fn next_step(&self, body: &mut Vec<u8>) -> Result<Step, WorkerEnd> {
        let mut lane = self.lane.borrow_mut();
        let Some(record) = lane.tasks.peek()? else {
            // A ring full of records that were taken back has no room for a stop.
            return Ok(if self.control.is_stopped() { Step::Stop } else { Step::Idle });
        };
        let step = match record.header().kind {
            Kind::Task => {
                let claimed = self.stamps.claimed();
                let claim = self.control.progress().claim(&record, self.mode);
                self.end_gap();
                let ready = (claimed, self.temperature.take());
                let task = read_task(&record, ready, &self.arena, body)?;
                if claim == Claim::Revoked { Step::Revoked(task) } else { Step::Task(task) }
            }
            Kind::Define => Step::Define(read_definition(&record, &self.arena, body)?),
            Kind::Reply => Step::Reply(read_reply(&record, body)?),
            Kind::Release => {
                record.counted_words()?.into_iter().for_each(|offset| self.arena.free(offset));
                Step::Other
            }
            Kind::Stop => Step::Stop,
            _ => Step::Other,
        };
        if lane.tasks.consume() == Tail::Published && lane.tasks.writer_waits(self.mode) {
            self.control.peer_bell().wake();
        }
        Ok(step)
    }

    /// Has a function loaded. Below a task that waits, an interrupt is that task's and would break the function: it is
    /// noticed afterwards.
    pub(crate) fn define(&self, function: FunctionId, definition: &[u8]) {
        let outer = self.running.current.replace(0);
        self.callee.define(function, definition);
        self.running.current.set(outer);
    }

    /// Answers a task without running it.
    pub(crate) fn refuse(&self, task: &Task, verdict: Verdict) -> Result<(), WorkerEnd> {
        let times = Times { claimed: task.claimed, started: task.claimed, ended: task.claimed };
        let Task { ref frame, sequence, temperature, .. } = *task;
        let answer =
            Answer { frame, sequence, times, verdict, payload: &[], is_arena: false, temperature };
        answer::write(&mut self.lane.borrow_mut(), &answer)
    }

    pub(crate) fn perform(&self, task: &Task, buffers: &mut Buffers) -> Result<(), WorkerEnd> {
        let deadline = task.extension.deadline_ns;
        if deadline != 0 && monotonic_ns() >= deadline {
            return self.refuse(task, Verdict::Expired);
        }
        if self.is_over() {
            return self.refuse(task, Verdict::Skipped);
        }
        self.streak.set(self.streak.get() + 1);
        let started = self.stamps.started();
        self.control.progress().start(task.sequence, started);
        if task.frame.flags.has(TaskFlags::BATCH) {
            return self.perform_batch(task, started, buffers);
        }
        let Buffers { body, out } = buffers;
        let call = Call {
            function: task.frame.function,
            payload: &body[task.payload_at..],
            arena: task.frame.payload == PayloadKind::Arena,
            parents: ParentList { bytes: &body[..task.payload_at], count: task.frame.parent_count },
            equipment: task.extension.equipment,
        };
        out.clear();
        let reply = self.call(task, &call, out)?;
        let answer = Answer {
            frame: &task.frame,
            sequence: task.sequence,
            times: Times { claimed: task.claimed, started, ended: self.stamps.ended(started) },
            verdict: reply.verdict,
            payload: out,
            is_arena: reply.arena,
            temperature: task.temperature,
        };
        let mut lane = self.lane.borrow_mut();
        if self.arena.has_news() {
            answer::write_words(&mut lane, Kind::Keep, &self.arena.take_keeps())?;
        }
        answer::write(&mut lane, &answer)?;
        drop(lane);
        self.control.progress().end(task.sequence);
        self.tell_returns()
    }

    /// Whether nothing may begin here any more: the client of a lease was not heard for so long that it has given up what is
    /// here. The engine ends it, but may have been frozen with its node, and thaw after its workers.
    #[inline]
    fn is_over(&self) -> bool {
        let until = self.control.valid_until();
        until != u64::MAX && ticks() >= until
    }

    /// Has one call run as the innermost one.
    #[inline]
    pub(crate) fn call(
        &self,
        task: &Task,
        call: &Call<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Reply, WorkerEnd> {
        let outer = self.running.current.replace(task.sequence + 1);
        let outer_task = self.task.replace(Some(task.frame.task));
        self.depth.set(self.depth.get() + 1);
        let reply = self.callee.call(call, out);
        self.depth.set(self.depth.get() - 1);
        self.task.set(outer_task);
        self.running.current.set(outer);
        match self.broken.take() {
            Some(end) => Err(end),
            None => Ok(reply),
        }
    }

    /// Tells the client of kept blocks that nothing here uses any more. After the answer, which may name them.
    #[inline]
    pub(crate) fn tell_returns(&self) -> Result<(), WorkerEnd> {
        if self.arena.has_news() {
            let returns = self.arena.take_returns();
            answer::write_words(&mut self.lane.borrow_mut(), Kind::Return, &returns)?;
        }
        Ok(())
    }

    /// Polls for a while, then sleeps until the bell rings or `left` has passed.
    pub(crate) fn idle(&self, left: Duration) {
        let is_stream = self.streak.take() >= STREAM && self.options.window != Window::Never;
        for _ in 0..if is_stream { STREAM_PAUSES } else { 0 } {
            gristmill_sync::hint::spin_loop();
        }
        let polls = if self.options.window == Window::Never { 0 } else { ATTACHED_POLLS };
        for _ in 0..polls {
            if self.lane.borrow().tasks.has_record() {
                return;
            }
            gristmill_sync::hint::spin_loop();
        }
        let begun = Instant::now();
        self.idle_since.set(self.idle_since.get().or(Some(begun)));
        self.callee.while_idle(&mut || self.wait_for_record(left));
        if begun.elapsed() >= SLEEP_MAX {
            self.arena.look();
        }
    }

    /// Something came: learns for how long nothing did.
    #[inline]
    fn end_gap(&self) {
        if let Some(since) = self.idle_since.take() {
            let mut gaps = self.gaps.get();
            gaps.observe(since.elapsed());
            self.gaps.set(gaps);
        }
    }

    fn wait_for_record(&self, left: Duration) {
        let mut lane = self.lane.borrow_mut();
        let begun = Instant::now();
        let spin = self.gaps.get().window().min(left);
        while begun.elapsed() < spin {
            for _ in 0..POLLS_PER_LOOK {
                if lane.tasks.has_record() {
                    return;
                }
                gristmill_sync::hint::spin_loop();
            }
        }
        if lane.tasks.publish_tail() == Tail::Published && lane.tasks.writer_waits(self.mode) {
            self.control.peer_bell().wake();
        }
        self.sleep(&mut lane, left);
    }

    /// Sleeps until something is there, an interrupt or a stop is asked for, or the time is over.
    fn sleep(&self, lane: &mut WorkerLane, left: Duration) {
        let WorkerLane { tasks, control, .. } = lane;
        let is_empty =
            || !tasks.has_record() && !self.running.is_interrupted() && !control.is_stopped();
        let _ = control.own_bell().sleep(self.mode, is_empty, Some(left));
        self.temperature.set(Temperature::Warm);
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
/// For how long it looks before a sleep if that is learned: at least what a wake-up costs, so that to look costs at most
/// as much again.
const LOOKS: Bounds =
    Bounds { shortest: Duration::from_micros(50), longest: Duration::from_millis(5) };
/// The longest sleep: whatever was missed is found after it.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Copies a part of a reply into `body`; gives the word in front of it.
fn read_reply<W: Words>(record: &Record<'_, W>, body: &mut Vec<u8>) -> Result<u64, FrameError> {
    let [word] = record.words(0)?;
    body.clear();
    #[expect(clippy::cast_possible_truncation, reason = "the size is in the low half")]
    record.append_to(8, word as u32, body)?;
    Ok(word)
}

pub(crate) fn read_definition<W: Words>(
    record: &Record<'_, W>,
    arena: &WorkerArena,
    body: &mut Vec<u8>,
) -> Result<FunctionId, WorkerEnd> {
    let [word] = record.words(0)?;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]
    let (function, size) = (word as u32, (word >> 32) as u32);
    body.clear();
    if record.header().flags == 0 {
        record.append_to(8, size, body)?;
    } else {
        let [offset, size] = record.words(1)?;
        arena.append_to(BlockRange { offset, size }, body)?;
    }
    Ok(FunctionId(function))
}

/// Copies parents and payload into `body`, and checks that they are where the frame says.
#[inline]
pub(crate) fn read_task<W: Words>(
    record: &Record<'_, W>,
    (claimed, temperature): (u64, Temperature),
    arena: &WorkerArena,
    body: &mut Vec<u8>,
) -> Result<Task, WorkerEnd> {
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
    body.clear();
    let payload_at = if frame.flags.has(TaskFlags::SPILLED) {
        let [offset, size] = record.words(start / 8)?;
        arena.append_to(BlockRange { offset, size }, body)?;
        check_spilled(&frame, body)?
    } else {
        let parents_size = parents_size(record, &frame, start)?;
        record.append_to(start, parents_size.saturating_add(frame.payload_size), body)?;
        parents_size as usize
    };
    let sequence = record.sequence();
    Ok(Task { frame, extension, sequence, claimed, temperature, payload_at })
}

/// Bytes of a record's parents, which begin at `start`.
#[inline]
fn parents_size<W: Words>(
    record: &Record<'_, W>,
    frame: &TaskFrame,
    start: u32,
) -> Result<u32, FrameError> {
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
    Ok(end - start)
}

/// Checks that a spilled body is what its frame says; gives where the payload begins.
fn check_spilled(frame: &TaskFrame, body: &[u8]) -> Result<usize, FrameError> {
    let mut rest = body;
    for _ in 0..frame.parent_count {
        let needed = body.len() + 16;
        let short = FrameError::Truncated { needed, found: body.len() };
        rest = split_parent(rest).ok_or(short)?.2;
    }
    if rest.len() != frame.payload_size as usize {
        let (needed, found) = (frame.payload_size as usize, rest.len());
        return Err(FrameError::Truncated { needed, found });
    }
    Ok(body.len() - rest.len())
}
