//! What a worker knows of the tasks that its tasks submitted: a ticket each, until nobody holds its future.

use std::collections::HashMap;
use std::rc::Rc;

use gristmill_wire::{NestedReply, ReplyKind, TaskId};

/// How a task ended that a task here submitted: what kind of end, and its bytes.
pub type Outcome = Rc<(ReplyKind, Box<[u8]>)>;

#[derive(Debug)]
struct Ticket {
    owner: TaskId,
    outcome: Option<Outcome>,
    /// What the client said when it was to be cancelled.
    cancelled: Option<bool>,
    is_watched: bool,
}

/// All tickets of one worker.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    next: u32,
    open: HashMap<u32, Ticket>,
    /// The beginning of a reply whose end is under way.
    pub partial: Vec<u8>,
}

impl Tickets {
    /// A number that no living ticket has.
    pub fn open(&mut self, owner: TaskId) -> u32 {
        while self.open.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        let ticket = Ticket { owner, outcome: None, cancelled: None, is_watched: false };
        self.open.insert(number, ticket);
        number
    }

    pub fn close(&mut self, number: u32) {
        self.open.remove(&number);
    }

    pub fn outcome(&self, number: u32) -> Option<Outcome> {
        self.open.get(&number)?.outcome.clone()
    }

    pub fn is_final(&self, number: u32) -> bool {
        self.open.get(&number).is_none_or(|ticket| ticket.outcome.is_some())
    }

    pub fn owner(&self, number: u32) -> Option<TaskId> {
        self.open.get(&number).map(|ticket| ticket.owner)
    }

    /// Asks for a notice; false when it is final.
    pub fn watch(&mut self, number: u32) -> bool {
        match self.open.get_mut(&number) {
            Some(ticket) if ticket.outcome.is_none() => {
                ticket.is_watched = true;
                true
            }
            _ => false,
        }
    }

    /// The client's answer to a cancellation, once.
    pub fn take_cancel_answer(&mut self, number: u32) -> Option<bool> {
        self.open.get_mut(&number)?.cancelled.take()
    }

    pub fn has_cancel_answer(&self, number: u32) -> bool {
        self.open.get(&number).is_none_or(|ticket| ticket.cancelled.is_some())
    }

    /// Takes in news; the ticket, if somebody wants to be told of it. What nobody holds any more is dropped.
    pub fn reply(&mut self, reply: &NestedReply<'_>) -> Option<u32> {
        let ticket = self.open.get_mut(&reply.ticket)?;
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
    fn news_of_a_closed_ticket_are_dropped_and_those_of_a_watched_one_told_once() {
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
    fn the_answer_to_a_cancellation_is_no_outcome() {
        let mut tickets = Tickets::default();
        let number = tickets.open(TaskId::new(1, 0));
        assert_eq!(tickets.reply(&reply(number, ReplyKind::CancelAnswer)), None);
        assert!(tickets.has_cancel_answer(number) && !tickets.is_final(number));
        assert_eq!(tickets.take_cancel_answer(number), Some(true));
        assert_eq!(tickets.take_cancel_answer(number), None);
    }
}
