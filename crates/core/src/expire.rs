//! Deadlines, timeouts and graces.

use crate::list::List;
use crate::machine::slot_id;
use crate::outcome::TaskContent;
use crate::port::{KillReason, Port, RingProgress};
use crate::slots::SlotState;
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

impl Core {
    /// Sets the timer of a task with a side record to the task's next time limit.
    pub(crate) fn arm(&mut self, index: u32) {
        let task = &self.tasks[index];
        let extra = &self.extras[task.extra];
        let is_stopping = task.has(flag::CANCELLED | flag::TIMED_OUT);
        let when = match task.state {
            State::Sent if is_stopping || task.has(flag::EXPIRED) => extra.check_at,
            State::Sent => extra.check_at.min(extra.deadline_ns),
            // The peer watches the timeout and the deadline.
            State::Delegated | State::Returned => u64::MAX,
            _ => extra.deadline_ns,
        };
        self.timers.set(&mut self.extras, task.extra, when);
    }

    /// Begins to watch a task that was just sent. It cannot run out of time earlier than one timeout from now.
    pub(crate) fn start_watch(&mut self, index: u32) {
        let extra = &mut self.extras[self.tasks[index].extra];
        if extra.timeout_ns != u64::MAX {
            extra.check_at = self.now.saturating_add(extra.timeout_ns);
        }
        self.arm(index);
    }

    pub(crate) fn fire_timers(&mut self, port: &mut impl Port) {
        while let Some((when, extra)) = self.timers.first() {
            if when > self.now {
                break;
            }
            let index = self.extras[extra].task;
            self.fire(index, port);
        }
    }

    /// Performs the action that the timer of a task was set for. Afterwards the timer is later, or gone.
    fn fire(&mut self, index: u32, port: &mut impl Port) {
        let task = &self.tasks[index];
        let extra = &self.extras[task.extra];
        if task.state != State::Sent {
            self.unlist(index);
            self.finish(index, Status::TimedOut, TaskContent::Empty, port);
        } else if task.has(flag::CANCELLED | flag::TIMED_OUT) {
            self.kill_for(index, port);
        } else if !task.has(flag::EXPIRED) && extra.deadline_ns <= self.now {
            if self.take_back_one(index, port) {
                self.finish(index, Status::TimedOut, TaskContent::Empty, port);
            } else {
                self.tasks[index].flags |= flag::EXPIRED;
                self.arm(index);
            }
        } else {
            self.check_timeout(index, port);
        }
    }

    /// Interrupts a task that has run for its whole timeout; else sets the timer to the end of the timeout.
    fn check_timeout(&mut self, index: u32, port: &mut impl Port) {
        let extra = self.tasks[index].extra;
        let timeout_ns = self.extras[extra].timeout_ns;
        let check_at = match self.started_at(index, port) {
            StartState::At(began) if began.saturating_add(timeout_ns) <= self.now => {
                self.tasks[index].flags |= flag::TIMED_OUT;
                self.extras[extra].stopped_ticks = port.ticks();
                self.stop_attempt(index, port);
                return;
            }
            StartState::At(began) => began.saturating_add(timeout_ns),
            StartState::NotYet => self.now.saturating_add(timeout_ns.max(self.config.recheck_ns)),
            StartState::Over => self.now.saturating_add(self.config.recheck_ns),
        };
        self.extras[extra].check_at = check_at;
        self.arm(index);
    }

    /// Returns the time at which the running attempt of a sent task began.
    pub(crate) fn started_at(&self, index: u32, port: &impl Port) -> StartState {
        let task = &self.tasks[index];
        let known = self.extras[task.extra].started_at;
        if known != 0 {
            return StartState::At(known);
        }
        let slot = usize::from(task.slot);
        let count = self.slots[slot].sequence(task.sequence) + 1;
        let progress = port.progress(slot_id(slot));
        if progress.started < count {
            StartState::NotYet
        } else if progress.started == count && progress.ended < count {
            StartState::At(progress.started_at_ns)
        } else {
            StartState::Over
        }
    }

    /// Kills the worker of a task that outran its grace, after everything behind the task was taken back. If the worker
    /// has gone on meanwhile, the task's answer is under way, and no other task is harmed.
    fn kill_for(&mut self, index: u32, port: &mut impl Port) {
        let task = &self.tasks[index];
        let (slot, id, next) = (usize::from(task.slot), self.tasks.id(index), task.next);
        let is_cancelled = task.has(flag::CANCELLED);
        let count = self.slots[slot].sequence(task.sequence) + 1;
        if self.slots[slot].state == SlotState::Ready {
            let behind: Vec<u32> = List::from(&self.tasks, next)
                .filter(|&behind| !self.tasks[behind].has(flag::RECALLED))
                .collect();
            let taken = self.recall(slot, &behind, port);
            if self.still_runs(index, count, &port.progress(slot_id(slot))) {
                self.set_state(slot, SlotState::Dying);
                self.slots[slot].killed_for = Some(id);
                self.counts.kills += 1;
                let why =
                    if is_cancelled { KillReason::Cancelled(id) } else { KillReason::TimedOut(id) };
                port.kill(slot_id(slot), why);
            }
            self.return_all(&taken, port);
        }
        let is_dying = self.slots[slot].state == SlotState::Dying;
        let again = if is_dying { u64::MAX } else { self.now + self.config.recheck_ns };
        let extra = self.tasks[index].extra;
        self.extras[extra].check_at = again;
        self.arm(index);
    }

    /// Returns true if the record `count - 1` runs, and nothing else except tasks in its wait. Neither this record nor
    /// a record in whose wait it runs may be the last that ended. A task that never waited must be the last one
    /// claimed. A task that has waited has seen others come and go: only its descendants may be left behind it.
    fn still_runs(&self, index: u32, count: u64, progress: &RingProgress) -> bool {
        let slot = &self.slots[usize::from(self.tasks[index].slot)];
        let has_ended = |one: u32| slot.sequence(self.tasks[one].sequence) + 1 == progress.ended;
        let below = |&one: &u32| Some(self.tasks[one].previous).filter(|&below| below != NONE);
        if std::iter::successors(Some(index), below).any(has_ended) {
            return false;
        }
        let has_waited = self.extras[self.tasks[index].extra].started_at != 0;
        if !has_waited {
            return progress.started == count && progress.claimed == count;
        }
        let mut behind = List::from(&self.tasks, self.tasks[index].next);
        behind.all(|other| self.descends(other, index))
    }

    /// Returns true if `ancestor` submitted the task, directly or through other tasks.
    fn descends(&self, index: u32, ancestor: u32) -> bool {
        let parent = |&index: &u32| {
            let extra = self.tasks[index].extra;
            let parent = if extra == NONE { NONE } else { self.extras[extra].parent };
            (parent != NONE).then_some(parent)
        };
        std::iter::successors(parent(&index), parent).any(|parent| parent == ancestor)
    }
}

/// Start of a sent task, from the progress of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartState {
    /// The task has not begun.
    NotYet,
    /// The task runs since this time, monotonic nanoseconds.
    At(u64),
    /// The task has begun, and the worker is beyond it: the answer is under way.
    Over,
}
