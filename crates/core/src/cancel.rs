//! Cancellation on request.

use gristmill_wire::TaskId;

use crate::machine::slot_id;
use crate::outcome::Content;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

/// What may be done to a task that is to be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelMode {
    /// It is cancelled if it has not started. The answer is final: a task that may run is left
    /// alone.
    Unstarted,
    /// It is interrupted if it runs, and killed `grace_ns` later if it still does.
    Running {
        /// From the interrupt to the kill; the task's own grace if `None`.
        grace_ns: Option<u64>,
    },
}

/// What came of it.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is cancelled: it has not run and will not.
    Cancelled,
    /// It runs or may run; it was asked to stop and will be made to. It ends as cancelled unless it
    /// ends by itself first.
    Requested,
    /// It is with a peer, which was asked not to start it: [`Core::is_withdrawn`] says when it has answered.
    Asked,
    /// It runs or may run and was left alone.
    AlreadyRunning,
    /// It had its final state already, or is not known.
    AlreadyFinal,
}

impl Core {
    /// Cancels a task as far as `mode` goes.
    pub fn cancel(
        &mut self,
        id: TaskId,
        mode: CancelMode,
        now: u64,
        port: &mut impl Port,
    ) -> CancelOutcome {
        self.now = now;
        let Some(index) = self.tasks.find(id) else { return CancelOutcome::AlreadyFinal };
        match self.tasks[index].state {
            State::Final => return CancelOutcome::AlreadyFinal,
            State::Returned => return CancelOutcome::AlreadyRunning,
            _ => {}
        }
        if self.cancel_unstarted(index, port) {
            self.pump(port);
            self.wind_down(port);
            return CancelOutcome::Cancelled;
        }
        self.cancel_rest(index, port);
        match mode {
            CancelMode::Unstarted if self.ask_back(index, port) => CancelOutcome::Asked,
            CancelMode::Unstarted => CancelOutcome::AlreadyRunning,
            CancelMode::Running { grace_ns } => {
                self.stop(index, grace_ns, port);
                CancelOutcome::Requested
            }
        }
    }

    /// Cancels a task that has certainly not started; says whether it did.
    pub(crate) fn cancel_unstarted(&mut self, index: u32, port: &mut impl Port) -> bool {
        let state = self.tasks[index].state;
        if state == State::Away || (state == State::Sent && !self.take_back_one(index, port)) {
            return false;
        }
        self.unlist(index);
        self.finish(index, Status::Cancelled, Content::Empty, port);
        true
    }

    /// Takes one sent task out of its ring if it has certainly not started.
    pub(crate) fn take_back_one(&mut self, index: u32, port: &mut impl Port) -> bool {
        let task = &self.tasks[index];
        let slot = usize::from(task.slot);
        let sequence = self.slots[slot].sequence(task.sequence);
        let is_claimed = sequence < port.progress(slot_id(slot)).claimed;
        if is_claimed || task.has(flag::RECALLED) {
            return false;
        }
        let taken = self.recall(slot, &[index], port);
        let is_taken = taken.first() == Some(&index);
        if !is_taken {
            self.return_all(&taken, port);
        }
        is_taken
    }

    /// Cancels the calls of a batch that have certainly not begun.
    fn cancel_rest(&mut self, index: u32, port: &mut impl Port) {
        let task = &self.tasks[index];
        if task.state != State::Sent || !self.batch(index).is_some_and(|batch| batch.is_whole) {
            return;
        }
        for single in self.recall(usize::from(task.slot), &[index], port) {
            self.finish(single, Status::Cancelled, Content::Empty, port);
        }
    }

    /// Interrupts a task that may run; the timer does the rest.
    fn stop(&mut self, index: u32, grace_ns: Option<u64>, port: &mut impl Port) {
        let task = &self.tasks[index];
        let is_asked_back = task.state == State::Away && task.has(flag::RECALLED);
        if task.has(flag::CANCELLED) && !is_asked_back {
            return;
        }
        let extra = self.extra(index);
        if let Some(grace_ns) = grace_ns {
            self.extras[extra].grace_ns = grace_ns;
        }
        self.tasks[index].flags |= flag::CANCELLED;
        if self.tasks[index].state == State::Away {
            self.tasks[index].flags &= !flag::RECALLED;
            self.stop_at_peer(index, port);
        } else {
            self.interrupt(index, port);
        }
    }

    /// Asks the peer that a task is with to stop it.
    pub(crate) fn stop_at_peer(&mut self, index: u32, port: &mut impl Port) {
        let (task, extra) = (self.tasks.id(index), self.tasks[index].extra);
        let grace_ns =
            if extra == NONE { self.config.grace_ns } else { self.extras[extra].grace_ns };
        port.stop_at_peer(self.peer_of(index), task, self.tasks[index].attempt, grace_ns);
    }

    /// Interrupts the running attempt and starts its grace.
    pub(crate) fn interrupt(&mut self, index: u32, port: &mut impl Port) {
        let task = &self.tasks[index];
        let (slot, extra) = (usize::from(task.slot), task.extra);
        port.interrupt(slot_id(slot), self.slots[slot].sequence(task.sequence));
        let grace_ns = self.extras[extra].grace_ns;
        self.extras[extra].check_at = self.now.saturating_add(grace_ns);
        self.arm(index);
    }
}
