//! A worker's record of the tasks that its tasks submitted: one ticket each, until its future is gone and the
//! client knows that.

use std::collections::HashMap;
use std::rc::Rc;

use gristmill_wire::{NestedReply, ReplyKind, TaskId};

/// The outcome of a task that a task here submitted: its kind and its bytes.
pub type NestedTaskOutcome = Rc<(ReplyKind, Box<[u8]>)>;

#[derive(Debug)]
struct Ticket {
    owner: TaskId,
    outcome: Option<NestedTaskOutcome>,
    /// The client's answer to a cancellation.
    cancelled: Option<bool>,
    is_watched: bool,
    /// True if the outcome is no longer needed. The number stays in use until the client is told.
    is_dropped: bool,
}

/// All tickets of one worker.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    next: u32,
    open: HashMap<u32, Ticket>,
    /// The first parts of a reply whose last part has not arrived.
    pub partial: Vec<u8>,
}

impl Tickets {
    /// Opens a ticket and returns its number, which no open ticket has.
    pub fn open(&mut self, owner: TaskId) -> u32 {
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        let ticket =
            Ticket { owner, outcome: None, cancelled: None, is_watched: false, is_dropped: false };
        self.open.insert(number, ticket);
        number
    }

    /// Drops the outcome of a task whose future is gone, and ignores later replies about it.
    pub fn drop_outcome(&mut self, number: u32) {
        if let Some(ticket) = self.open.get_mut(&number) {
            ticket.outcome = None;
            ticket.is_dropped = true;
        }
    }

    pub fn close(&mut self, number: u32) {
        self.open.remove(&number);
    }

    pub fn outcome(&self, number: u32) -> Option<NestedTaskOutcome> {
        self.open.get(&number)?.outcome.clone()
    }

    pub fn is_final(&self, number: u32) -> bool {
        self.open.get(&number).is_none_or(|ticket| ticket.outcome.is_some())
    }

    pub fn owner(&self, number: u32) -> Option<TaskId> {
        self.open.get(&number).map(|ticket| ticket.owner)
    }

    /// Requests a notification. Returns false if the task has ended already.
    pub fn watch(&mut self, number: u32) -> bool {
        match self.open.get_mut(&number) {
            Some(ticket) if ticket.outcome.is_none() => {
                ticket.is_watched = true;
                true
            }
            _ => false,
        }
    }

    /// Takes the client's answer to a cancellation, once.
    pub fn take_cancel_answer(&mut self, number: u32) -> Option<bool> {
        self.open.get_mut(&number)?.cancelled.take()
    }

    pub fn has_cancel_answer(&self, number: u32) -> bool {
        self.open.get(&number).is_none_or(|ticket| ticket.cancelled.is_some())
    }

    /// Records a reply. Returns the ticket if it is watched and its task has ended. Ignores replies about dropped
    /// tickets.
    pub fn reply(&mut self, reply: &NestedReply<'_>) -> Option<u32> {
        let ticket = self.open.get_mut(&reply.ticket).filter(|ticket| !ticket.is_dropped)?;
        if reply.kind == ReplyKind::CancelAnswer {
            ticket.cancelled = Some(reply.bytes.first() == Some(&1));
            return None;
        }
        ticket.outcome = Some(Rc::new((reply.kind, reply.bytes.into())));
        std::mem::take(&mut ticket.is_watched).then_some(reply.ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(ticket: u32, kind: ReplyKind) -> NestedReply<'static> {
        NestedReply { ticket, kind, bytes: b"\x01" }
    }

    #[test]
    fn replies_of_a_closed_ticket_are_dropped_and_those_of_a_watched_one_reported_once() {
        let mut tickets = Tickets::default();
        let (first, second) = (tickets.open(TaskId::new(1, 0)), tickets.open(TaskId::new(1, 0)));
        assert!(tickets.watch(first) && !tickets.is_final(first));
        assert_eq!(tickets.reply(&reply(first, ReplyKind::Value)), Some(first));
        assert!(tickets.is_final(first) && !tickets.watch(first));
        tickets.close(second);
        assert_eq!(tickets.reply(&reply(second, ReplyKind::Value)), None);
        assert!(tickets.outcome(second).is_none());
    }

    #[test]
    fn the_outcome_of_a_task_whose_future_is_gone_is_not_kept() {
        let mut tickets = Tickets::default();
        let (first, second) = (tickets.open(TaskId::new(1, 0)), tickets.open(TaskId::new(1, 0)));
        tickets.reply(&reply(first, ReplyKind::Value));
        let outcome = Rc::downgrade(&tickets.outcome(first).expect("it has come"));
        for number in [first, second] {
            tickets.drop_outcome(number);
        }
        assert!(outcome.upgrade().is_none());
        assert_eq!(tickets.reply(&reply(second, ReplyKind::Value)), None);
        assert!(tickets.outcome(second).is_none());
        // Their numbers stay in use until the client is told.
        assert!(![first, second].contains(&tickets.open(TaskId::new(1, 0))));
        tickets.close(first);
        tickets.close(first);
    }

    #[test]
    fn the_answer_to_a_cancellation_is_no_outcome() {
        let mut tickets = Tickets::default();
        let number = tickets.open(TaskId::new(1, 0));
        assert_eq!(tickets.reply(&reply(number, ReplyKind::CancelAnswer)), None);
        assert!(tickets.has_cancel_answer(number) && !tickets.is_final(number));
        assert_eq!(tickets.take_cancel_answer(number), Some(true));
        assert_eq!(tickets.take_cancel_answer(number), None);
    }
}
