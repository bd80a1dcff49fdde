//! What a running task does with tasks of its own: it asks, and it waits while this very loop goes on below it.
//!
//! A wait first tells the client, which then sends only tasks that may run in it. They run here, on the stack of the
//! waiting task, as long as there is stack to spare; anything else is declined and runs elsewhere.

use std::time::{Duration, Instant};

use gristmill_shm::{BeginError, WorkerLane};
use gristmill_wire::{FrameError, Kind, NestedReply, NestedRequest, TaskFlags, TaskId, Verdict};

use crate::callee::Callee;
use crate::run::{Buffers, SLEEP_MAX, Step, Worker, WorkerEnd};
use crate::tickets::Outcome;

/// Tasks on one stack beyond which a wait runs nothing: each may use the interpreter's frames that the others leave.
const DEPTH_MAX: u32 = 64;
/// Tickets whose futures are gone are given back this many at once, or at the end of the task.
const RELEASED_AT_ONCE: usize = 256;

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
    /// The task that runs now, the innermost one.
    pub fn current_task(&self) -> Option<TaskId> {
        self.task.get()
    }

    /// What calls functions here.
    pub const fn callee(&self) -> &C {
        &self.callee
    }

    /// A number for a task that the running one is about to submit.
    pub fn open_ticket(&self) -> Option<u32> {
        Some(self.tickets.borrow_mut().open(self.current_task()?))
    }

    /// How the task of a ticket ended, if it has and the client has told.
    pub fn outcome(&self, ticket: u32) -> Option<Outcome> {
        self.tickets.borrow().outcome(ticket)
    }

    /// Whether a ticket's task has ended, as far as is known here.
    pub fn is_final(&self, ticket: u32) -> bool {
        self.tickets.borrow().is_final(ticket)
    }

    /// The task that submitted a ticket's task.
    pub fn owner(&self, ticket: u32) -> Option<TaskId> {
        self.tickets.borrow().owner(ticket)
    }

    /// Has [`Callee::completed`] called when a ticket's task has ended; false when it has.
    pub fn watch(&self, ticket: u32) -> bool {
        self.tickets.borrow_mut().watch(ticket)
    }

    /// The client's answer to a cancellation, once; see [`Self::has_cancel_answer`].
    pub fn take_cancel_answer(&self, ticket: u32) -> Option<bool> {
        self.tickets.borrow_mut().take_cancel_answer(ticket)
    }

    /// Whether the client has answered a cancellation.
    pub fn has_cancel_answer(&self, ticket: u32) -> bool {
        self.tickets.borrow().has_cancel_answer(ticket)
    }

    /// Sends a request; waits while the result ring is full.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn request(&self, request: &NestedRequest<'_>) -> Result<(), WorkerEnd> {
        let mut message = Vec::with_capacity(128);
        request.encode(&mut message);
        let part_max = self.lane.borrow().results.max_body() as usize / 2;
        let mut parts = message.chunks(part_max).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let word = part.len() as u64 | (u64::from(!is_last) << 32);
            self.write(Kind::Request, &[word], part)?;
        }
        self.ring_client();
        Ok(())
    }

    fn ring_client(&self) {
        self.control.peer_bell().ring(self.mode);
    }

    fn write(&self, kind: Kind, words: &[u64], bytes: &[u8]) -> Result<(), WorkerEnd> {
        let body = words.len() * 8 + bytes.len();
        loop {
            match self.lane.borrow_mut().results.begin(kind, 0, body) {
                Ok(mut record) => {
                    record.words(0, words);
                    #[expect(clippy::cast_possible_truncation, reason = "a word or two")]
                    record.bytes(words.len() as u32 * 8, bytes);
                    let written = record.commit() + 1;
                    self.control.progress().written(written);
                    return Ok(());
                }
                Err(BeginError::Full { .. }) => {}
                Err(_) => return Err(WorkerEnd::Results),
            }
            self.callee.while_idle(&mut || {
                crate::answer::wait_for_room(&mut self.lane.borrow_mut(), body);
            });
        }
    }

    /// Tells the client of tickets that nobody holds any more, if there are `at_least` so many.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub(crate) fn release_dropped(&self, at_least: usize) -> Result<(), WorkerEnd> {
        let tickets = self.callee.take_dropped(at_least);
        if tickets.is_empty() {
            return Ok(());
        }
        let mut open = self.tickets.borrow_mut();
        tickets.iter().for_each(|&ticket| open.close(ticket));
        drop(open);
        self.request(&NestedRequest::Release { tickets })
    }

    /// As [`Self::release_dropped`], when enough have come together to be worth a record.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn release_many(&self) -> Result<(), WorkerEnd> {
        self.release_dropped(RELEASED_AT_ONCE)
    }

    /// Takes in a part of a reply.
    pub(crate) fn take_reply(&self, word: u64, part: &[u8]) -> Result<(), FrameError> {
        let mut tickets = self.tickets.borrow_mut();
        let mut message = std::mem::take(&mut tickets.partial);
        let has_more = word >> 32 != 0;
        if has_more || !message.is_empty() {
            message.extend_from_slice(part);
            if has_more {
                tickets.partial = message;
                return Ok(());
            }
        }
        let whole = if message.is_empty() { part } else { &message };
        let watched = tickets.reply(&NestedReply::decode(whole)?);
        drop(tickets);
        if let Some(ticket) = watched {
            self.callee.completed(ticket);
        }
        Ok(())
    }

    /// Waits until `done`, running tasks below the waiting one. Without a running task nothing is waited for.
    ///
    /// # Errors
    /// See [`WorkerEnd`]; the worker's loop ends with it too.
    pub fn wait(
        &self,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let outcome = self.wait_here(end, done);
        if let Err(end) = &outcome {
            self.broken.set(Some(end.clone()));
        }
        outcome
    }

    fn wait_here(
        &self,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let mut buffers = self.spare_buffers.borrow_mut().pop().unwrap_or_default();
        self.take_news(&mut buffers)?;
        let Some(task) = self.current_task().filter(|_| !done()) else {
            self.spare_buffers.borrow_mut().push(buffers);
            return Ok(WaitEnd::Done);
        };
        self.write(Kind::Wait, &[task.word(), 1], &[])?;
        self.ring_client();
        let over = self.wait_below(&mut buffers, end, done)?;
        self.write(Kind::Wait, &[task.word(), 0], &[])?;
        self.ring_client();
        self.spare_buffers.borrow_mut().push(buffers);
        Ok(over)
    }

    /// Reads what stands in front of the next task.
    fn take_news(&self, buffers: &mut Buffers) -> Result<(), WorkerEnd> {
        while self.next_is_news()? {
            match self.next_step(&mut buffers.body)? {
                Step::Define(function) => self.callee.define(function, &buffers.body),
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
        buffers: &mut Buffers,
        end: Option<Instant>,
        done: &mut dyn FnMut() -> bool,
    ) -> Result<WaitEnd, WorkerEnd> {
        let may_nest = self.may_nest();
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
                Step::Define(function) => self.callee.define(function, &buffers.body),
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

    /// Sleeps until something is there, an interrupt is asked for, or the time is over.
    pub(crate) fn sleep(&self, lane: &mut WorkerLane, left: Duration) {
        let WorkerLane { tasks, control, .. } = lane;
        let is_empty = || !tasks.has_record() && !self.running.is_interrupted();
        let _ = control.own_bell().sleep(self.mode, is_empty, Some(left));
    }
}
