//! A task that waits, while this very loop goes on below it.
//!
//! A wait first tells the client, which then sends only tasks that may run in it. They run here, on the stack of the
//! waiting task, as long as there is stack to spare; anything else is declined and runs elsewhere.

use std::time::Instant;

use gristmill_wire::{Kind, TaskFlags, Verdict};

use crate::callee::Callee;
use crate::idle::SLEEP_MAX;
use crate::run::{Buffers, Step, Worker, WorkerEnd};

/// Tasks on one stack beyond which a wait runs nothing: each may use the interpreter's frames that the others leave.
const DEPTH_MAX: u32 = 64;

/// What a wait may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Run tasks of the waiting one below it: nothing else might.
    Runs,
    /// Run nothing, but have others run what they can: a look that must not take long.
    Looks,
    /// Nothing but read: the client answers in any case.
    Reads,
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// What it waited for is there.
    Done,
    /// The time is over.
    TimedOut,
    /// The waiting task is to be interrupted.
    Interrupted,
    /// The callee's check for signals raised something.
    Raised,
    /// The worker was told to leave.
    Stopped,
}

impl<C: Callee> Worker<C> {
    /// Waits until `done`, doing what `mode` says meanwhile. Without a running task nothing is waited for.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the worker's loop ends with it too.
    pub fn wait(
        &self,
        mode: WaitMode,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let outcome = self.wait_here(mode, end, done);
        if let Err(end) = &outcome {
            self.broken.set(Some(end.clone()));
        }
        outcome
    }

    fn wait_here(
        &self,
        mode: WaitMode,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let mut buffers = self.spare_buffers.borrow_mut().pop().unwrap_or_default();
        self.take_news(&mut buffers)?;
        let Some(task) = self.current_task().filter(|_| !done()) else {
            self.spare_buffers.borrow_mut().push(buffers);
            return Ok(self.unless_interrupted(WaitEnd::Done));
        };
        let tells = mode != WaitMode::Reads;
        if tells {
            self.write(Kind::Wait, &[task.word(), 1], &[])?;
            self.ring_client();
        }
        let may_nest = mode == WaitMode::Runs && self.may_nest();
        let over = self.wait_below(may_nest, &mut buffers, end, done)?;
        let over = self.unless_interrupted(over);
        if tells {
            self.write(Kind::Wait, &[task.word(), 0], &[])?;
            self.ring_client();
        }
        self.spare_buffers.borrow_mut().push(buffers);
        Ok(over)
    }

    /// The signal of an interrupt may be on its way still, and would reach the task in what it does next, cleaning up
    /// even; or it came while a function was loaded, which it must not reach.
    fn unless_interrupted(&self, over: WaitEnd) -> WaitEnd {
        let is_interrupted = over == WaitEnd::Done && self.running.take_interrupt();
        if is_interrupted { WaitEnd::Interrupted } else { over }
    }

    /// Reads what stands in front of the next task.
    fn take_news(&self, buffers: &mut Buffers) -> Result<(), WorkerEnd> {
        while self.next_is_news()? {
            match self.next_step(&mut buffers.body)? {
                Step::Define(function) => self.define(function, &buffers.body),
                Step::Reply(word) => self.take_reply(word, &buffers.body)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn next_is_news(&self) -> Result<bool, WorkerEnd> {
        let mut lane = self.lane.borrow_mut();
        let next = lane.tasks.peek()?;
        Ok(next.is_some_and(|record| matches!(record.header().kind, Kind::Define | Kind::Reply)))
    }

    fn wait_below(
        &self,
        may_nest: bool,
        buffers: &mut Buffers,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        loop {
            match self.next_step(&mut buffers.body)? {
                Step::Task(task) => {
                    if may_nest && task.frame.flags.has(TaskFlags::NESTED) {
                        self.perform(&task, buffers)?;
                        if self.running.take_interrupt() {
                            return Ok(WaitEnd::Interrupted);
                        }
                        if end.is_some_and(|end| Instant::now() >= end) {
                            return Ok(if done() { WaitEnd::Done } else { WaitEnd::TimedOut });
                        }
                    } else {
                        self.refuse(&task, Verdict::Declined)?;
                    }
                }
                Step::Revoked(task) => self.refuse(&task, Verdict::Skipped)?,
                Step::Define(function) => self.define(function, &buffers.body),
                Step::Reply(word) => {
                    self.take_reply(word, &buffers.body)?;
                    if done() {
                        return Ok(WaitEnd::Done);
                    }
                }
                Step::Stop => {
                    self.is_stopped.set(true);
                    return Ok(WaitEnd::Stopped);
                }
                Step::Other => {}
                Step::Idle => {
                    if let Some(over) = self.rest(end, done) {
                        return Ok(over);
                    }
                }
            }
        }
    }

    /// Nothing is to be read: looks at everything else that can end the wait, then sleeps.
    fn rest(&self, end: Option<Instant>, done: &mut dyn FnMut() -> bool) -> Option<WaitEnd> {
        if done() {
            return Some(WaitEnd::Done);
        }
        if self.callee.has_raised() {
            return Some(WaitEnd::Raised);
        }
        if self.running.take_interrupt() {
            return Some(WaitEnd::Interrupted);
        }
        let left = end.map_or(SLEEP_MAX, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Some(WaitEnd::TimedOut);
        }
        self.idle(left);
        None
    }

    fn may_nest(&self) -> bool {
        let here = 0u8;
        let used = self.stack_base.get().abs_diff(std::ptr::from_ref(&here).addr());
        self.depth.get() < DEPTH_MAX && used < self.options.stack_max && self.callee.may_nest()
    }
}
