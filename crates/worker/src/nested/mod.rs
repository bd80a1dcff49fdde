//! What a running task does with tasks of its own: it asks, it waits, and it is told how they ended.

mod wait;

use gristmill_shm::BeginError;
use gristmill_wire::{FrameError, Kind, NestedReply, NestedRequest, TaskId};

pub use self::wait::{WaitEnd, WaitMode};
use crate::callee::{Callee, Dropped};
use crate::run::{Worker, WorkerEnd};
use crate::tickets::Outcome;

/// Tickets whose futures are gone are given back this many at once, or at the end of the task.
const RELEASED_AT_ONCE: usize = 256;

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
                    record.commit();
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

    /// Tells the client of tickets and contexts that nobody holds any more, if there are `at_least` so many.
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
}

#[cfg(test)]
mod tests;
