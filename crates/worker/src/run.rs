//! The worker's loop.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gristmill_shm::{
    ClaimResult, RingRecord, Tail, Window, Words, WorkerArena, WorkerControl, WorkerEnds,
};
use gristmill_sync::clock::{monotonic_ns, ticks};
use gristmill_sync::process;
use gristmill_wire::{FunctionId, PayloadKind, RecordKind, TaskFlags, TaskId, Verdict};

use crate::answer::{self, OutboundAnswer, Times};
use crate::callee::{Callee, ParentList, Reply, TaskCall};
use crate::end::WorkerEnd;
use crate::pace::{Pace, SLEEP_MAX};
use crate::read::{TaskRecord, read_definition, read_forgotten, read_reply, read_task};
use crate::running::CurrentTask;
use crate::stamps::Stamps;
use crate::tickets::Tickets;

/// Pause before a task is refused because the lease is over.
const OVER_PAUSE: Duration = Duration::from_millis(1);

/// Settings of a worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// Polling time of an empty ring before the worker sleeps.
    pub window: Window,
    /// Bytes of stack beyond which a waiting task runs nothing below it.
    pub stack_max: usize,
    /// Clock ticks that a result of a batch may lie in the ring before its client is woken, checked between calls.
    pub result_rest: u64,
}

/// A running worker. A task that it calls may re-enter it, so nothing is borrowed while the callee runs.
pub struct Worker<C> {
    pub(crate) ends: RefCell<WorkerEnds>,
    pub(crate) control: WorkerControl,
    pub(crate) arena: Arc<WorkerArena>,
    pub(crate) callee: C,
    pub(crate) options: WorkerOptions,
    pub(crate) stack: TaskStack,
    pub(crate) pace: Pace,
    stamps: Stamps,
    pub(crate) is_stopped: Cell<bool>,
    /// The fork generation of the worker's own process.
    generation: u32,
    /// The reason for a failed wait inside a task.
    pub(crate) broken: Cell<Option<WorkerEnd>>,
    pub(crate) tickets: RefCell<Tickets>,
}

/// Tasks that have begun and not ended: each waits for those above it.
pub(crate) struct TaskStack {
    /// The innermost running call, as an interrupt handler sees it.
    pub running: CurrentTask,
    /// The innermost running task.
    pub task: Cell<Option<TaskId>>,
    /// Number of tasks.
    pub depth: Cell<u32>,
    /// Address of the thread's stack at the start of the loop.
    pub base: Cell<usize>,
    /// Buffers of the levels that have ended, for the next ones.
    pub spare_buffers: RefCell<Vec<Buffers>>,
}

/// The values of the stack of tasks that the innermost task replaced.
pub(crate) struct OuterTask {
    /// Sequence + 1 of the task outside of it; 0 if there is none.
    current: u64,
    /// The deadline of that task, monotonic nanoseconds; `u64::MAX` if it has none.
    deadline_ns: u64,
    task: Option<TaskId>,
}

impl TaskStack {
    fn new(running: CurrentTask) -> Self {
        Self {
            running,
            task: Cell::default(),
            depth: Cell::default(),
            base: Cell::default(),
            spare_buffers: RefCell::default(),
        }
    }
}

/// Capacity of a body buffer that is kept once the definition in it has been passed on, bytes.
const KEPT_MAX: usize = 1 << 20;

/// Buffers of one level of the loop: a record's body, and the answer to it.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub body: Vec<u8>,
    pub out: Vec<u8>,
}

pub(crate) enum Step {
    Task(TaskRecord),
    /// A task that was taken back before it was claimed.
    Revoked(TaskRecord),
    Define(FunctionId),
    /// A function that no task names any more.
    Forget(FunctionId),
    /// A reply, or a part of one, about a nested task. The value is the word in front of its bytes.
    Reply(u64),
    Stop,
    /// The ring is empty.
    Idle,
    /// A record with no meaning for a worker.
    Other,
}

impl<C: Callee> Worker<C> {
    /// Creates a worker at the worker's ends of a slot's rings.
    pub fn new(
        ends: WorkerEnds,
        arena: Arc<WorkerArena>,
        callee: C,
        options: WorkerOptions,
    ) -> Self {
        let control = ends.control.clone();
        let running = CurrentTask::new(control.clone());
        Self {
            ends: RefCell::new(ends),
            control,
            arena,
            callee,
            options,
            stack: TaskStack::new(running),
            pace: Pace::new(options.window),
            stamps: Stamps::new(),
            is_stopped: Cell::new(false),
            generation: process::generation(),
            broken: Cell::new(None),
            tickets: RefCell::default(),
        }
    }

    /// Returns the view of the running task that an interrupt handler needs.
    pub fn running(&self) -> CurrentTask {
        self.stack.running.clone()
    }

    /// Tells the client that the worker is ready, or why it failed to start.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn announce(&self, failure: Option<&str>) -> Result<(), WorkerEnd> {
        answer::announce(&mut self.ends.borrow_mut(), failure)
    }

    /// Tells the client that this worker, which was told to leave, no longer uses its rings, though its process goes on
    /// for a while. Returns whether it told the client: it does not if something in the process still views arguments
    /// in the arena, or if the ring has no room.
    pub fn tell_left(&self) -> bool {
        !self.arena.is_viewed() && answer::tell_left(&mut self.ends.borrow_mut())
    }

    /// Works until told to stop, or until the callee can run no more tasks.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the process should exit with an error.
    pub fn run(&self) -> Result<(), WorkerEnd> {
        let mut buffers = Buffers::default();
        self.stack.base.set(std::ptr::from_ref(&buffers).addr());
        loop {
            match self.next_step(&mut buffers.body)? {
                Step::Task(task) => {
                    self.perform(&task, &mut buffers)?;
                    self.release_dropped(1)?;
                    if self.is_stopped.get() || self.callee.is_unfit() {
                        return Ok(());
                    }
                }
                Step::Revoked(task) => self.refuse(&task, Verdict::Skipped)?,
                Step::Define(function) => self.define(function, &mut buffers.body),
                Step::Forget(function) => self.callee.forget(function),
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

    /// Returns whether this process was forked from the worker by one of its tasks.
    #[inline]
    pub fn is_forked(&self) -> bool {
        process::generation() != self.generation
    }

    /// Copies the next record into `body` and consumes it in the ring. Claims the record if it is a task.
    ///
    /// # Errors
    /// [`WorkerEnd::Forked`] among others; in that case nothing was claimed.
    pub(crate) fn next_step(&self, body: &mut Vec<u8>) -> Result<Step, WorkerEnd> {
        if self.is_forked() {
            return Err(WorkerEnd::Forked);
        }
        let mut ends = self.ends.borrow_mut();
        let Some(record) = ends.tasks.peek()? else {
            // A ring that is full of records taken back has no room for a stop record.
            return Ok(if self.control.is_stopped() { Step::Stop } else { Step::Idle });
        };
        let step = match record.header().kind {
            RecordKind::Task => {
                let claimed = self.stamps.claimed();
                let claim = self.control.progress().claim(&record, self.control.mode());
                let ready = (claimed, self.pace.end_gap());
                let task = read_task(&record, ready, &self.arena, body)?;
                if claim == ClaimResult::Revoked { Step::Revoked(task) } else { Step::Task(task) }
            }
            kind => self.read_other(kind, &record, body)?,
        };
        if ends.tasks.consume() == Tail::Published && ends.tasks.writer_waits(self.control.mode()) {
            self.control.peer_bell().wake();
        }
        Ok(step)
    }

    /// Reads a record that is not a task.
    fn read_other(
        &self,
        kind: RecordKind,
        record: &RingRecord<'_, impl Words>,
        body: &mut Vec<u8>,
    ) -> Result<Step, WorkerEnd> {
        Ok(match kind {
            RecordKind::Define => Step::Define(read_definition(record, &self.arena, body)?),
            RecordKind::Forget => Step::Forget(read_forgotten(record)?),
            RecordKind::Reply => Step::Reply(read_reply(record, body)?),
            RecordKind::Release => {
                record.counted_words()?.into_iter().for_each(|offset| self.arena.free(offset));
                Step::Other
            }
            RecordKind::Stop => Step::Stop,
            _ => Step::Other,
        })
    }

    /// Passes a definition to the callee. While a task waits, an interrupt that arrives here is meant for that task. If it
    /// raised in the destructor of the function that the definition replaces, the exception could be lost. So no task
    /// counts as running here, and the worker notices the interrupt afterwards.
    pub(crate) fn define(&self, function: FunctionId, definition: &mut Vec<u8>) {
        let outer = self.stack.running.replace(0);
        self.callee.define(function, definition);
        self.stack.running.replace(outer);
        if definition.capacity() > KEPT_MAX {
            *definition = Vec::new();
        }
    }

    /// Answers a task without running it.
    pub(crate) fn refuse(&self, task: &TaskRecord, verdict: Verdict) -> Result<(), WorkerEnd> {
        let times = Times { claimed: task.claimed, started: task.claimed, ended: task.claimed };
        let TaskRecord { ref frame, sequence, worker_state, .. } = *task;
        let answer = OutboundAnswer {
            frame,
            sequence,
            times,
            verdict,
            payload: &[],
            is_arena: false,
            worker_state,
        };
        answer::write(&mut self.ends.borrow_mut(), &answer)
    }

    pub(crate) fn perform(
        &self,
        task: &TaskRecord,
        buffers: &mut Buffers,
    ) -> Result<(), WorkerEnd> {
        let deadline = task.extension.deadline_ns;
        if deadline != 0 && monotonic_ns() >= deadline {
            return self.refuse(task, Verdict::Expired);
        }
        if self.is_over() {
            // The engine may consider the lease valid, and send the task again and again until it agrees.
            thread::sleep(OVER_PAUSE);
            return self.refuse(task, Verdict::Skipped);
        }
        // The floor does not hold back a nested task: it runs on the worker of the task that waits for it, and takes no
        // worker from others.
        if self.stack.depth.get() == 0 && !self.control.admits(task.extension.priority) {
            return self.refuse(task, Verdict::Skipped);
        }
        self.pace.count_task();
        let started = self.stamps.started();
        self.control.progress().start(task.sequence, started);
        if task.frame.flags.has(TaskFlags::BATCH) {
            return self.perform_batch(task, started, buffers);
        }
        let Buffers { body, out } = buffers;
        let call = TaskCall {
            sequence: task.sequence,
            function: task.frame.function,
            payload: &body[task.payload_at..],
            arena: task.frame.payload == PayloadKind::Arena,
            parents: ParentList { bytes: &body[..task.payload_at], count: task.frame.parent_count },
            grant: task.extension.grant,
            places: &task.places,
        };
        out.clear();
        let reply = self.call(task, &call, out)?;
        let loading = self.callee.take_loading();
        let times = Times {
            claimed: task.claimed,
            started: started + loading,
            ended: self.stamps.ended(started + loading),
        };
        self.callee.settle_output(times.ended.saturating_sub(started));
        let answer = OutboundAnswer {
            frame: &task.frame,
            sequence: task.sequence,
            times,
            verdict: reply.verdict,
            payload: out,
            is_arena: reply.arena,
            worker_state: task.worker_state,
        };
        let mut ends = self.ends.borrow_mut();
        if self.arena.has_unsent() {
            answer::write_words(&mut ends, RecordKind::Keep, &self.arena.take_keeps())?;
        }
        answer::write(&mut ends, &answer)?;
        drop(ends);
        self.control.progress().end(task.sequence);
        self.tell_returns()
    }

    /// Returns whether the lease is over, so that nothing may begin here. The client of the lease was silent for so
    /// long that it has given up the tasks here. The engine ends the lease, but the engine may have been frozen with
    /// its node, and may resume after its workers.
    #[inline]
    fn is_over(&self) -> bool {
        let until = self.control.valid_until();
        until != u64::MAX && ticks() >= until
    }

    /// Runs one call as the innermost one.
    #[inline]
    fn call(
        &self,
        task: &TaskRecord,
        call: &TaskCall<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Reply, WorkerEnd> {
        let outer = self.enter(task);
        let reply = self.call_entered(call, out);
        self.leave(outer);
        reply
    }

    /// Makes a task the innermost one. Returns what it replaced, for [`Self::leave`].
    #[inline]
    pub(crate) fn enter(&self, task: &TaskRecord) -> OuterTask {
        self.stack.depth.set(self.stack.depth.get() + 1);
        OuterTask {
            current: self.stack.running.replace(task.sequence + 1),
            deadline_ns: self.stack.running.replace_deadline(task.deadline_ns()),
            task: self.stack.task.replace(Some(task.frame.task)),
        }
    }

    /// Makes the outer task the innermost one again.
    #[inline]
    pub(crate) fn leave(&self, outer: OuterTask) {
        self.stack.depth.set(self.stack.depth.get() - 1);
        self.stack.task.set(outer.task);
        self.stack.running.replace_deadline(outer.deadline_ns);
        self.stack.running.replace(outer.current);
    }

    /// Runs a call of the task that was entered last.
    #[inline]
    pub(crate) fn call_entered(
        &self,
        call: &TaskCall<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Reply, WorkerEnd> {
        let reply = self.callee.call(call, out);
        match self.broken.take() {
            Some(end) => Err(end),
            None => Ok(reply),
        }
    }

    /// Tells the client which of its blocks this process still views, before the client may free them.
    pub(crate) fn tell_keeps(&self) -> Result<(), WorkerEnd> {
        if self.arena.has_unsent() {
            answer::write_words(
                &mut self.ends.borrow_mut(),
                RecordKind::Keep,
                &self.arena.take_keeps(),
            )?;
        }
        Ok(())
    }

    /// Tells the client which kept blocks this process no longer uses. Comes after the answer, which may name them.
    #[inline]
    pub(crate) fn tell_returns(&self) -> Result<(), WorkerEnd> {
        if self.arena.has_unsent() {
            let returns = self.arena.take_returns();
            answer::write_words(&mut self.ends.borrow_mut(), RecordKind::Return, &returns)?;
        }
        Ok(())
    }
}
