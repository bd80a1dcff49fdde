//! Shutdown of the engine.

use std::sync::Arc;

use crate::machine::Phase;
use crate::outcome::TaskContent;
use crate::port::Port;
use crate::slots::SlotState;
use crate::task::{State, flag};
use crate::{Core, StartFailure, Status};

impl Core {
    /// Stops accepting tasks from outside. Outstanding tasks run to their end; with `cancels` those that have not
    /// started are cancelled. Running tasks may submit further ones only without `cancels`. Workers leave when no task
    /// is left.
    pub fn shut_down(&mut self, cancels: bool, now: u64, port: &mut impl Port) {
        self.now = now;
        match self.phase {
            Phase::Open => self.phase = Phase::Closing { cancels },
            Phase::Closing { cancels: false } if cancels => {
                self.phase = Phase::Closing { cancels };
            }
            _ => {}
        }
        if matches!(self.phase, Phase::Closing { cancels: true }) {
            self.cancel_pending(port);
            self.settle_floors_left(port);
        }
        self.wind_down(port);
    }

    fn cancel_pending(&mut self, port: &mut impl Port) {
        for slot in 0..self.slots.len() {
            let mut wanted: Vec<u32> = self.running_batch(slot, port).into_iter().collect();
            wanted.append(&mut self.unclaimed(slot, port));
            let taken = self.recall(slot, &wanted, port);
            self.return_all(&taken, port);
        }
        self.recall_everything(port);
        for index in 0..self.tasks.end() {
            let state = self.tasks[index].state;
            if matches!(state, State::Blocked | State::Following | State::Ready | State::Nested) {
                self.unlist(index);
                self.finish(index, Status::Cancelled, TaskContent::Empty, port);
            }
        }
    }

    /// Breaks the engine because the client itself is broken: refuses every outstanding task with the reason.
    pub fn poison(&mut self, reason: &str, now: u64, port: &mut impl Port) {
        self.now = now;
        self.break_down(Phase::Poisoned(reason.into()), port);
        self.wind_down(port);
    }

    /// Breaks the engine because it can have no worker, or none any more, for this reason.
    pub fn give_up_workers(&mut self, failure: StartFailure, now: u64, port: &mut impl Port) {
        self.now = now;
        self.break_down(Phase::Broken(Arc::new(failure)), port);
        self.wind_down(port);
    }

    pub(crate) fn break_down(&mut self, phase: Phase, port: &mut impl Port) {
        self.phase = phase;
        for index in 0..self.tasks.end() {
            if matches!(self.tasks[index].state, State::Free | State::Promised | State::Final) {
                continue;
            }
            let content = match &self.phase {
                Phase::Broken(failure) => TaskContent::Start(Arc::clone(failure)),
                Phase::Poisoned(reason) => TaskContent::Poison(Arc::clone(reason)),
                Phase::Open | Phase::Closing { .. } => unreachable!("the engine breaks down"),
            };
            if self.tasks[index].state == State::Sent {
                // No answer will show whether the task has started.
                self.tasks[index].flags |= flag::STARTED;
            }
            self.unlist(index);
            self.finish(index, Status::Refused, content, port);
        }
        self.settle_floors_left(port);
    }

    /// Returns the number of records sent and not answered.
    #[inline]
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight + self.peers.delegated
    }

    /// Returns true if tasks wait for the results of a few that are in flight, so that each answer may free work for
    /// idle workers.
    #[inline]
    #[must_use]
    pub const fn waits_for_few(&self) -> bool {
        self.blocked > 0 && self.in_flight() <= 2
    }

    /// Returns true if every accepted task has its final state.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.counts.outstanding == 0
    }

    /// Returns true if no slot has a process, or is about to get one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.state == SlotState::Absent)
    }

    /// Asks the workers to leave when the engine is closed and no task is left.
    pub(crate) fn wind_down(&mut self, port: &mut impl Port) {
        if matches!(self.phase, Phase::Open) || !self.is_drained() {
            return;
        }
        for place in 0..self.slots.len() {
            if self.slots[place].is_idle() {
                self.retire(place, port);
            }
        }
    }
}
