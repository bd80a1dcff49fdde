//! Results that stay with the peer where they were made.
//!
//! A task that may run twice need not send a large result home at once: others that need it can run there, or have it
//! fetched. It has *returned*, and is not final yet. Its dependants go on as if it were; it ends when its result comes home,
//! or when nobody can ask for it any more. If the peer is lost first, the task is charged a loss and runs again, like any
//! other that was there: nothing has to be remembered for that.
//!
//! Results that are made from others that stayed keep these from ending. After a few generations one comes home, so that no
//! chain of them grows without end.

use gristmill_wire::{PeerId, TaskId};

use crate::machine::Phase;
use crate::options::NO_PEER;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{AnswerOutcome, Content, Core, NONE, Payload, Status, edges};

/// Results made from one another that stay.
const GENERATIONS_MAX: u8 = 16;

impl Core {
    /// Whether a task's result could stay where it is made: it may run again, and only its own client wants the result.
    pub(super) fn could_stay(&self, index: u32) -> bool {
        if self.config.shares_nested_only || self.config.workers > 0 {
            return false;
        }
        let extra = self.tasks[index].extra;
        if extra == NONE {
            return self.config.budgets.loss_retries > 0;
        }
        let extra = &self.extras[extra];
        extra.budgets.loss_retries > 0 && extra.from == NO_PEER
    }

    /// Whether the peer of a task was told that its result could stay there.
    #[must_use]
    pub fn may_stay(&self, task: TaskId) -> bool {
        self.tasks.find(task).is_some_and(|index| self.could_stay(index))
    }

    /// Whether the result of a task that is with a peer should stay there: others need it.
    #[must_use]
    pub fn should_stay(&self, task: TaskId) -> bool {
        let Some(index) = self.tasks.find(task) else { return false };
        matches!(self.phase, Phase::Open)
            && self.tasks[index].first_dependant != NONE
            && self.could_stay(index)
            && self.generation(index) < GENERATIONS_MAX
    }

    /// How many results that stayed are behind a task's, one made from the other.
    fn generation(&self, index: u32) -> u8 {
        let mut most = 0;
        let mut edge = self.tasks[index].first_parent;
        while edge != NONE {
            let parent = &self.tasks[self.edges[edge].parent];
            if parent.state == State::Returned {
                most = most.max(self.extras[parent.extra].generation.saturating_add(1));
            }
            edge = self.edges[edge].next_parent;
        }
        most
    }

    /// What a task gave that is final or has returned; none: it has yet to give it.
    pub(crate) fn result_of(&self, index: u32) -> Option<&Payload> {
        let task = &self.tasks[index];
        match task.state {
            State::Final => Some(task.payload()),
            State::Returned => self.extras[task.extra].result.as_ref(),
            _ => None,
        }
    }

    /// The names of a result that stayed.
    #[must_use]
    pub fn result_that_stayed(&self, task: TaskId) -> Option<&Payload> {
        let task = &self.tasks[self.tasks.find(task)?];
        // One that is final may have failed since.
        if task.state == State::Returned { self.extras[task.extra].result.as_ref() } else { None }
    }

    /// Tasks whose results stayed at a peer.
    #[must_use]
    pub fn stayed_at(&self, peer: PeerId) -> Vec<TaskId> {
        let Some(place) = self.joined_peer(peer) else { return Vec::new() };
        let stayed = crate::list::List::from(&self.tasks, self.peers.get(place).stayed.head);
        stayed.map(|index| self.tasks.id(index)).collect()
    }

    /// Notes that the result of a task in no list stays at a peer; its dependants are as ready as if it were final.
    pub(super) fn stay(&mut self, (place, index): (usize, u32), result: Payload) -> AnswerOutcome {
        let generation = self.generation(index);
        let extra = self.extra(index);
        self.extras[extra].result = Some(result);
        self.extras[extra].generation = generation;
        self.tasks[index].state = State::Returned;
        self.tasks[index].slot = super::table::peer_id(place).0;
        self.peers.get_mut(place).stayed.push_back(&mut self.tasks, index);
        self.arm(index);
        for child in self.dependants(index) {
            self.tasks[child].sequence -= 1;
            self.wake_dependant(child);
        }
        self.forget_if_unwanted(index);
        AnswerOutcome::Stayed
    }

    /// Takes a task out of the list of those whose results stayed; what it gave is dropped.
    pub(crate) fn leave_stayed(&mut self, index: u32) {
        let place = usize::from(self.tasks[index].slot);
        self.peers.get_mut(place).stayed.remove(&mut self.tasks, index);
        let task = &mut self.tasks[index];
        task.state = State::Loose;
        task.slot = u16::MAX;
        if let Some(result) = self.extras[task.extra].result.take() {
            self.drop_payload(&result);
        }
    }

    /// Takes back what the dependants of a task were told, which is in no list and whose result is gone: they wait for it
    /// again.
    pub(super) fn retract(&mut self, index: u32, port: &mut impl Port) {
        for child in self.dependants(index) {
            let was_ready = self.tasks[child].state == State::Ready;
            if was_ready {
                self.unlist(child);
                self.tasks[child].sequence = 0;
            }
            self.tasks[child].sequence += 1;
            let task = &self.tasks[child];
            if task.state == State::Away && task.sequence == 1 {
                self.block_away(child);
            }
            if was_ready {
                self.block(child, port);
            }
        }
    }

    /// Lets the dependants of a task that is in no list go on without being told again: it ends.
    pub(super) fn conclude(&mut self, index: u32) {
        while self.tasks[index].first_dependant != NONE {
            let edge = self.tasks[index].first_dependant;
            edges::unlist(&mut self.tasks, &mut self.edges, edge);
        }
    }

    fn dependants(&self, index: u32) -> Vec<u32> {
        let first = self.tasks[index].first_dependant;
        let mut dependants = Vec::new();
        let mut edge = first;
        while edge != NONE {
            dependants.push(self.edges[edge].child);
            edge = self.edges[edge].next_dependant();
            if edge == first {
                break;
            }
        }
        dependants
    }

    /// Whether nobody can ask for a task's result any more.
    #[must_use]
    pub fn is_unwanted(&self, task: TaskId) -> bool {
        self.tasks.find(task).is_none_or(|index| self.has_no_use(index))
    }

    fn has_no_use(&self, index: u32) -> bool {
        let task = &self.tasks[index];
        task.has(flag::RELEASED) && task.first_dependant == NONE
    }

    /// Notes a task that has returned if nobody can ask for its result any more: it ends with the next one that does.
    pub(crate) fn forget_if_unwanted(&mut self, index: u32) {
        if self.tasks[index].state == State::Returned && self.has_no_use(index) {
            self.peers.unwanted.push(self.tasks.id(index));
        }
    }

    /// A task that has returned and whose result nobody can ask for any more, taken out of its list.
    pub(crate) fn next_unwanted(&mut self) -> Option<u32> {
        while let Some(task) = self.peers.unwanted.pop() {
            let found = self.tasks.find(task);
            if let Some(index) = found.filter(|&one| self.tasks[one].state == State::Returned) {
                self.leave_stayed(index);
                return Some(index);
            }
        }
        None
    }

    /// Ends those that nobody can ask for.
    pub(crate) fn end_unwanted(&mut self, port: &mut impl Port) {
        while let Some(index) = self.next_unwanted() {
            self.finish(index, Status::Succeeded, Content::Payload(Payload::EMPTY), port);
        }
    }

    /// Tells that the result of a task which stayed at a peer is there no more: it is charged a loss.
    pub fn result_lost(
        &mut self,
        peer: PeerId,
        task: TaskId,
        report: crate::LossReport,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let found = self.tasks.find(task).filter(|&index| {
            let task = &self.tasks[index];
            task.state == State::Returned && task.slot == peer.0
        });
        let Some(index) = found else { return };
        self.leave_stayed(index);
        self.retract(index, port);
        let _ = self.lost_at_peer(index, report.into(), port);
        self.pump(port);
        self.wind_down(port);
    }
}
