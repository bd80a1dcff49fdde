//! The loop.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gristmill_shm::{
    ArenaError, Claim, Corrupt, Tail, Window, WorkerArena, WorkerControl, WorkerLane,
};
use gristmill_sync::barrier::BarrierMode;
use gristmill_sync::clock::{monotonic_ns, ticks};
use gristmill_wire::{FrameError, FunctionId, Kind, PayloadKind, TaskFlags, TaskId, Verdict};
use thiserror::Error;

use crate::answer::{self, Answer, Times};
use crate::callee::{Call, Callee, ParentList, Reply};
use crate::idle::{Pace, SLEEP_MAX};
use crate::read::{Task, read_definition, read_reply, read_task};
use crate::running::Running;
use crate::stamps::Stamps;
use crate::tickets::Tickets;

/// Between tasks that are refused because nothing may begin any more.
const OVER_PAUSE: Duration = Duration::from_millis(1);

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
    pub(crate) pace: Pace,
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
        let running = Running::new(control.clone());
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
            pace: Pace::new(options.window),
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
                let ready = (claimed, self.pace.end_gap());
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
        let outer = self.running.replace(0);
        self.callee.define(function, definition);
        self.running.replace(outer);
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
            // The engine may find that it is not, and have it tried again and again until then.
            thread::sleep(OVER_PAUSE);
            return self.refuse(task, Verdict::Skipped);
        }
        self.pace.count_task();
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
            places: &task.places,
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
        let outer = self.running.replace(task.sequence + 1);
        let outer_task = self.task.replace(Some(task.frame.task));
        self.depth.set(self.depth.get() + 1);
        let reply = self.callee.call(call, out);
        self.depth.set(self.depth.get() - 1);
        self.task.set(outer_task);
        self.running.replace(outer);
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
}
