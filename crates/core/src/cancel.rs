//! Cancellation on request.

use gristmill_wire::TaskId;

use crate::machine::slot_id;
use crate::outcome::TaskContent;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

/// Strength of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelMode {
    /// Cancels the task if it has not started. The answer is final: a task that may run is left alone.
    Unstarted,
    /// Interrupts the task if it runs, and kills its worker if the task still runs `grace_ns` later: at once if this is 0.
    Running {
        /// Time from the interrupt to the kill, ns; `None` is the task's own grace.
        grace_ns: Option<u64>,
    },
}

/// Result of a cancel.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The task is cancelled: it has not run and will not run.
    Cancelled,
    /// The task runs or may run. It was asked to stop and will be forced to. It ends as cancelled, even if it ends by
    /// itself first.
    Requested,
    /// The task is delegated to a peer, which was asked not to start it. [`Core::is_withdrawn`] returns true until the
    /// peer has answered.
    Asked,
    /// The task runs or may run and was left alone.
    AlreadyRunning,
    /// The task had its final state already, or is not known.
    AlreadyFinal,
}

impl Core {
    /// Cancels a task within the limits of `mode`.
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
            self.extend_settling(now.saturating_add(self.config.recheck_ns));
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

    /// Cancels a task that has certainly not started. Returns whether it did.
    pub(crate) fn cancel_unstarted(&mut self, index: u32, port: &mut impl Port) -> bool {
        let state = self.tasks[index].state;
        if state == State::Delegated || (state == State::Sent && !self.take_back_one(index, port)) {
            return false;
        }
        self.unlist(index);
        self.finish(index, Status::Cancelled, TaskContent::Empty, port);
        true
    }

    /// Takes one sent task out of its ring if it has certainly not started. Returns whether it did.
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
            self.finish(single, Status::Cancelled, TaskContent::Empty, port);
        }
    }

    /// Interrupts a task that may run. The task's timer starts the kill.
    fn stop(&mut self, index: u32, grace_ns: Option<u64>, port: &mut impl Port) {
        let task = &self.tasks[index];
        let is_asked_back = task.state == State::Delegated && task.has(flag::RECALLED);
        if task.has(flag::CANCELLED) && !is_asked_back {
            return;
        }
        let extra = self.extra(index);
        if let Some(grace_ns) = grace_ns {
            self.extras[extra].grace_ns = grace_ns;
        }
        self.tasks[index].flags |= flag::CANCELLED;
        if self.tasks[index].state == State::Delegated {
            self.tasks[index].flags &= !flag::RECALLED;
            self.stop_at_peer(index, port);
        } else {
            self.stop_attempt(index, port);
        }
    }

    /// Asks the peer that has a task to stop it.
    pub(crate) fn stop_at_peer(&mut self, index: u32, port: &mut impl Port) {
        let (task, extra) = (self.tasks.id(index), self.tasks[index].extra);
        let grace_ns =
            if extra == NONE { self.config.grace_ns } else { self.extras[extra].grace_ns };
        self.peers.withdrawn_at = self.now;
        port.stop_at_peer(self.peer_of(index), task, self.tasks[index].attempt, grace_ns);
    }

    /// Interrupts the running attempt and starts its grace. Without a grace the attempt is not interrupted: it could end in
    /// the time until the kill, or not, and would spare its worker by luck.
    pub(crate) fn stop_attempt(&mut self, index: u32, port: &mut impl Port) {
        let task = &self.tasks[index];
        let (slot, extra) = (usize::from(task.slot), task.extra);
        let grace_ns = self.extras[extra].grace_ns;
        if grace_ns > 0 {
            port.interrupt(slot_id(slot), self.slots[slot].sequence(task.sequence));
        }
        self.extras[extra].check_at = self.now.saturating_add(grace_ns);
        self.arm(index);
    }
}
