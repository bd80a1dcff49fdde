//! Requests of a running task about tasks of its own: it submits them, waits for them, and receives their outcomes.

mod wait;

use gristmill_shm::BeginError;
use gristmill_wire::{FrameError, NestedReply, NestedRequest, RecordKind, TaskId};

pub use self::wait::{WaitEnd, WaitMode};
use crate::callee::{Callee, Dropped};
use crate::end::WorkerEnd;
use crate::run::Worker;
use crate::tickets::NestedTaskOutcome;

/// The least number of tickets without a future that are released in the middle of a task. Fewer are released at its
/// end.
const RELEASED_AT_ONCE: usize = 256;

impl<C: Callee> Worker<C> {
    /// Returns the innermost running task.
    pub fn current_task(&self) -> Option<TaskId> {
        self.stack.task.get()
    }

    /// Returns the callee, which runs the functions.
    pub const fn callee(&self) -> &C {
        &self.callee
    }

    /// Opens a ticket for a task that the running task is about to submit, and returns its number.
    pub fn open_ticket(&self) -> Option<u32> {
        Some(self.tickets.borrow_mut().open(self.current_task()?))
    }

    /// Returns the outcome of a ticket's task, if it has ended and the client has reported it.
    pub fn outcome(&self, ticket: u32) -> Option<NestedTaskOutcome> {
        self.tickets.borrow().outcome(ticket)
    }

    /// Drops the outcome of a ticket whose future is gone, unless the tickets are in use further up the stack. The
    /// client is told later.
    pub fn drop_outcome(&self, ticket: u32) {
        if let Ok(mut tickets) = self.tickets.try_borrow_mut() {
            tickets.drop_outcome(ticket);
        }
    }

    /// Returns whether the client has reported that a ticket's task has ended.
    pub fn is_final(&self, ticket: u32) -> bool {
        self.tickets.borrow().is_final(ticket)
    }

    /// Returns the task that submitted a ticket's task.
    pub fn owner(&self, ticket: u32) -> Option<TaskId> {
        self.tickets.borrow().owner(ticket)
    }

    /// Requests a call of [`Callee::completed`] when a ticket's task ends. Returns false if it has ended already.
    pub fn watch(&self, ticket: u32) -> bool {
        self.tickets.borrow_mut().watch(ticket)
    }

    /// Takes the client's answer to a cancellation, once; see [`Self::has_cancel_answer`].
    pub fn take_cancel_answer(&self, ticket: u32) -> Option<bool> {
        self.tickets.borrow_mut().take_cancel_answer(ticket)
    }

    /// Returns whether the client has answered a cancellation.
    pub fn has_cancel_answer(&self, ticket: u32) -> bool {
        self.tickets.borrow().has_cancel_answer(ticket)
    }

    /// Sends a request. Waits while the result ring is full.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`], [`WorkerEnd::Forked`].
    pub fn request(&self, request: &NestedRequest<'_>) -> Result<(), WorkerEnd> {
        let mut message = Vec::with_capacity(128);
        request.encode(&mut message);
        let part_max = self.ends.borrow().results.max_body() as usize / 2;
        let mut parts = message.chunks(part_max).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let word = part.len() as u64 | (u64::from(!is_last) << 32);
            self.write(RecordKind::Request, &[word], part)?;
        }
        self.ring_client();
        Ok(())
    }

    fn ring_client(&self) {
        self.control.peer_bell().ring(self.control.mode());
    }

    fn write(&self, kind: RecordKind, words: &[u64], bytes: &[u8]) -> Result<(), WorkerEnd> {
        let body = words.len() * 8 + bytes.len();
        loop {
            if self.is_forked() {
                return Err(WorkerEnd::Forked);
            }
            match self.ends.borrow_mut().results.begin(kind, 0, body) {
                Ok(mut record) => {
                    record.words(0, words);
                    #[expect(clippy::cast_possible_truncation, reason = "a word or two")]
                    record.bytes(words.len() as u32 * 8, bytes);
                    record.commit();
                    return Ok(());
                }
                Err(BeginError::Full { .. }) => {}
                Err(_) => return Err(WorkerEnd::Results),
            }
            self.callee.while_idle(&mut || {
                crate::answer::wait_for_room(&mut self.ends.borrow_mut(), body);
            });
        }
    }

    /// Releases tickets and contexts that nothing refers to any more, and tells the client, if there are at least
    /// `at_least` of them.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub(crate) fn release_dropped(&self, at_least: usize) -> Result<(), WorkerEnd> {
        let Dropped { tickets, contexts } = self.callee.take_dropped(at_least);
        for context in contexts {
            self.request(&NestedRequest::ForgetContext { context })?;
        }
        if tickets.is_empty() {
            return Ok(());
        }
        // The memory of their results is released with them, unless this process still views it.
        self.tell_keeps()?;
        let mut open = self.tickets.borrow_mut();
        tickets.iter().for_each(|&ticket| open.close(ticket));
        drop(open);
        self.request(&NestedRequest::Release { tickets })
    }

    /// Does the same as [`Self::release_dropped`], but only if enough are dropped to be worth a record.
    ///
    /// # Errors
    /// [`WorkerEnd::Results`].
    pub fn release_many(&self) -> Result<(), WorkerEnd> {
        self.release_dropped(RELEASED_AT_ONCE)
    }

    /// Handles a part of a reply. Reports the ticket to the callee if it is watched and its task has ended.
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
}

#[cfg(test)]
mod tests;
