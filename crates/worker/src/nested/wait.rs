//! Waits inside a task. While a task waits, the worker's loop runs on top of its stack frames.
//!
//! A wait first tells the client, which then sends only tasks that may run in it. They run here, on the stack of the
//! waiting task, as long as stack is left; the worker declines all others, and they run elsewhere.

use std::time::Instant;

use gristmill_wire::{RecordKind, TaskFlags, Verdict};

use crate::callee::Callee;
use crate::end::WorkerEnd;
use crate::pace::SLEEP_MAX;
use crate::run::{Buffers, Step, Worker};

/// Maximum number of tasks on one stack; a deeper wait runs no tasks. All of them share the interpreter's limit of
/// stack frames.
const DEPTH_MAX: u32 = 128;

/// The actions that a wait may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Run nested tasks on the stack of the waiting task: possibly no other worker is free to run them.
    Runs,
    /// Run nothing here, but let other workers run what they can: a brief poll that must not take long.
    Looks,
    /// Only read replies. The wait is not announced, because the client answers without that.
    Reads,
}

/// The reason for the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The condition of the wait is met.
    Done,
    /// The time is over.
    TimedOut,
    /// An interrupt of the waiting task is requested.
    Interrupted,
    /// The callee's check for signals raised something.
    Raised,
    /// The worker was told to leave.
    Stopped,
}

impl<C: Callee> Worker<C> {
    /// Waits until `done` returns true, and meanwhile acts as `mode` says. Does not wait if no task is running.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the worker's loop ends with the same error.
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
        let mut buffers = self.stack.spare_buffers.borrow_mut().pop().unwrap_or_default();
        self.take_replies(&mut buffers)?;
        let Some(task) = self.current_task().filter(|_| !done()) else {
            self.stack.spare_buffers.borrow_mut().push(buffers);
            return Ok(self.unless_interrupted(WaitEnd::Done));
        };
        let tells = mode != WaitMode::Reads;
        if tells {
            self.write(RecordKind::Wait, &[task.word(), 1], &[])?;
            self.ring_client();
        }
        let may_nest = mode == WaitMode::Runs && self.may_nest();
        let over = self.wait_below(may_nest, &mut buffers, end, done)?;
        let over = self.unless_interrupted(over);
        if tells {
            self.write(RecordKind::Wait, &[task.word(), 0], &[])?;
            self.ring_client();
        }
        self.stack.spare_buffers.borrow_mut().push(buffers);
        Ok(over)
    }

    /// Returns [`WaitEnd::Interrupted`] instead of [`WaitEnd::Done`] if an interrupt is pending. Its signal may still
    /// be on its way and would hit the task in its next step, even in its cleanup. Or the signal came while a function
    /// was loaded, which it must not interrupt.
    fn unless_interrupted(&self, over: WaitEnd) -> WaitEnd {
        let is_interrupted = over == WaitEnd::Done && self.stack.running.take_interrupt();
        if is_interrupted { WaitEnd::Interrupted } else { over }
    }

    /// Reads the definitions and replies in front of the next task.
    fn take_replies(&self, buffers: &mut Buffers) -> Result<(), WorkerEnd> {
        while self.next_is_reply()? {
            match self.next_step(&mut buffers.body)? {
                Step::Define(function) => self.define(function, &mut buffers.body),
                Step::Forget(function) => self.callee.forget(function),
                Step::Reply(word) => self.take_reply(word, &buffers.body)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn next_is_reply(&self) -> Result<bool, WorkerEnd> {
        let mut ends = self.ends.borrow_mut();
        let next = ends.tasks.peek()?;
        Ok(next.is_some_and(|record| {
            matches!(
                record.header().kind,
                RecordKind::Define | RecordKind::Forget | RecordKind::Reply
            )
        }))
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
                        let own = self.callee.take_loading();
                        self.perform(&task, buffers)?;
                        self.callee.put_loading(own);
                        if self.stack.running.take_interrupt() {
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
                Step::Define(function) => self.define(function, &mut buffers.body),
                Step::Forget(function) => self.callee.forget(function),
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

    /// Checks every other reason to end the wait, after the ring was found empty; sleeps if there is none.
    fn rest(&self, end: Option<Instant>, done: &mut dyn FnMut() -> bool) -> Option<WaitEnd> {
        if done() {
            return Some(WaitEnd::Done);
        }
        if self.callee.has_raised() {
            return Some(WaitEnd::Raised);
        }
        if self.stack.running.take_interrupt() {
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
        let used = self.stack.base.get().abs_diff(std::ptr::from_ref(&here).addr());
        self.stack.depth.get() < DEPTH_MAX
            && used < self.options.stack_max
            && self.callee.may_nest()
    }
}
