//! Results that stay at the peer where they were made.
//!
//! If a task may run twice, its peer need not send a large result at once: tasks that need the result can run at that
//! peer, or another peer can fetch it. The task has then *returned*, but is not final. Its dependants go on as if it were
//! final. It ends when its result arrives here, or when the result can no longer be requested. If the peer is lost first,
//! the task is charged a loss and runs again like any other task of that peer; this needs no further bookkeeping.
//!
//! A result that is made from results that stayed keeps their tasks from ending. After a few generations one result is
//! sent here, so that no chain of such results grows without end.

use gristmill_wire::{PeerId, TaskId};

use crate::machine::Phase;
use crate::options::NO_PEER;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{AnswerOutcome, Core, NONE, Payload, Status, TaskContent, edges};

/// Largest number of results that stay and are made from one another.
const GENERATIONS_MAX: u8 = 16;

impl Core {
    /// Returns true if a task's result could stay where it is made: the task may run again, and only its own client needs
    /// the result.
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

    /// Returns true if the peer of a task was told that the result may stay there.
    #[must_use]
    pub fn may_stay(&self, task: TaskId) -> bool {
        self.tasks.find(task).is_some_and(|index| self.could_stay(index))
    }

    /// Returns true if the result of a task at a peer should stay there, because other tasks need it.
    #[must_use]
    pub fn should_stay(&self, task: TaskId) -> bool {
        let Some(index) = self.tasks.find(task) else { return false };
        matches!(self.phase, Phase::Open)
            && self.tasks[index].first_dependant != NONE
            && self.could_stay(index)
            && self.generation(index) < GENERATIONS_MAX
    }

    /// Returns the length of the longest chain of results that stayed and from which a task's result is made.
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

    /// Returns the result of a task that is final or has returned; `None` for any other task.
    pub(crate) fn result_of(&self, index: u32) -> Option<&Payload> {
        let task = &self.tasks[index];
        match task.state {
            State::Final => Some(task.payload()),
            State::Returned => self.extras[task.extra].result.as_ref(),
            _ => None,
        }
    }

    /// Returns the payload that names a result that stayed.
    #[must_use]
    pub fn result_that_stayed(&self, task: TaskId) -> Option<&Payload> {
        let task = &self.tasks[self.tasks.find(task)?];
        // A final task may have failed since.
        if task.state == State::Returned { self.extras[task.extra].result.as_ref() } else { None }
    }

    /// Returns the tasks whose results stayed at a peer.
    #[must_use]
    pub fn stayed_at(&self, peer: PeerId) -> Vec<TaskId> {
        let Some(place) = self.joined_peer(peer) else { return Vec::new() };
        let stayed = crate::list::List::from(&self.tasks, self.peers.get(place).stayed.head);
        stayed.map(|index| self.tasks.id(index)).collect()
    }

    /// Records that the result of a task in no list stays at a peer. The task's dependants become as ready as if it were
    /// final.
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

    /// Removes a task from the list of tasks whose results stayed, and drops its result.
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

    /// Makes the dependants of a task wait for it again. The task is in no list, and its result is gone.
    pub(super) fn retract(&mut self, index: u32, port: &mut impl Port) {
        for child in self.dependants(index) {
            let was_ready = self.tasks[child].state == State::Ready;
            if was_ready {
                self.unlist(child);
                self.tasks[child].sequence = 0;
            }
            self.tasks[child].sequence += 1;
            let task = &self.tasks[child];
            if task.state == State::Delegated && task.sequence == 1 {
                self.block_delegated(child);
            }
            if was_ready {
                self.block(child, port);
            }
        }
    }

    /// Detaches the dependants of a task that is in no list and ends. They went on when the task returned.
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

    /// Returns true if a task's result can no longer be requested.
    #[must_use]
    pub fn is_unwanted(&self, task: TaskId) -> bool {
        self.tasks.find(task).is_none_or(|index| self.has_no_use(index))
    }

    fn has_no_use(&self, index: u32) -> bool {
        let task = &self.tasks[index];
        task.has(flag::RELEASED) && task.first_dependant == NONE
    }

    /// Adds a task that has returned to the unwanted ones if its result can no longer be requested. `end_unwanted` ends
    /// it.
    pub(crate) fn forget_if_unwanted(&mut self, index: u32) {
        if self.tasks[index].state == State::Returned && self.has_no_use(index) {
            self.peers.unwanted.push(self.tasks.id(index));
        }
    }

    /// Takes the next task that has returned and whose result can no longer be requested out of its peer's list, and
    /// returns it.
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

    /// Ends the tasks that have returned and whose results can no longer be requested.
    pub(crate) fn end_unwanted(&mut self, port: &mut impl Port) {
        while let Some(index) = self.next_unwanted() {
            self.finish(index, Status::Succeeded, TaskContent::Payload(Payload::EMPTY), port);
        }
    }

    /// Records that a peer no longer has the result of a task that stayed there: the task is charged a loss.
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
