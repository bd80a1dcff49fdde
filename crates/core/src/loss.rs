//! The death of workers.

use std::sync::Arc;

use gristmill_wire::{Epoch, SlotId, TaskId};

use crate::list::List;
use crate::machine::Phase;
use crate::outcome::{Content, Loss, LossCause, LossReport};
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::task::{State, flag};
use crate::{Core, StartFailure, Status};

impl Core {
    /// Tells that a slot's worker is dead, after its last answers were taken in. Its started tasks
    /// are charged a loss, the others are placed again, free of charge and in order.
    pub fn slot_lost(
        &mut self,
        slot: SlotId,
        epoch: Epoch,
        loss: Loss,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(place) = self.live_slot(slot) else { return };
        let state = self.slots[place].state;
        if state == SlotState::Starting && loss.cause != LossCause::Keeper {
            let failure = StartFailure { text: loss.detail, permanent: false };
            self.slot_failed(slot, failure, now, port);
            return;
        }
        if state != SlotState::Starting && self.slots[place].epoch != epoch {
            return;
        }
        let killed_for = self.slots[place].killed_for;
        let tasks = self.empty_slot(place, loss.progress.started);
        if state != SlotState::Retiring {
            self.counts.losses += 1;
            let is_innocent = killed_for.is_some() || loss.cause == LossCause::Keeper;
            self.judge_worker(is_innocent || loss.progress.started > 0);
        }
        let report = Arc::new(LossReport {
            slot,
            epoch,
            pid: loss.pid,
            cause: loss.cause,
            oom: loss.oom,
            killed_for,
            detail: loss.detail,
        });
        for &index in &tasks {
            if self.is_loose(index) && self.tasks[index].has(flag::STARTED) {
                self.lose(index, &report, port);
            }
        }
        let unstarted: Vec<u32> = tasks.into_iter().filter(|&index| self.is_loose(index)).collect();
        self.counts.replaced += unstarted.len() as u64;
        self.return_all(&unstarted, port);
        self.pump(port);
        self.grow(port);
        self.wind_down(port);
    }

    fn is_loose(&self, index: u32) -> bool {
        self.tasks[index].state == State::Loose
    }

    /// Takes everything out of a slot whose process is gone; the started tasks are flagged.
    fn empty_slot(&mut self, place: usize, started: u64) -> Vec<u32> {
        let tasks: Vec<u32> = List::from(&self.tasks, self.slots[place].in_flight.head).collect();
        for &index in &tasks {
            let sequence = self.slots[place].sequence(self.tasks[index].sequence);
            self.leave_slot(index);
            if sequence < started {
                self.tasks[index].flags |= flag::STARTED;
            }
        }
        self.set_state(place, SlotState::Absent);
        let slot = &mut self.slots[place];
        *slot = Slot { nested: slot.nested, epoch: slot.epoch, ..Slot::new() };
        tasks
    }

    /// Ends or repeats a task that its worker had started when it died.
    fn lose(&mut self, index: u32, report: &Arc<LossReport>, port: &mut impl Port) {
        self.cancel_children(index, port);
        let flags = self.tasks[index].flags;
        let is_repeated = if flags & flag::CANCELLED != 0 {
            self.finish(index, Status::Cancelled, Content::Empty, port);
            false
        } else if flags & flag::TIMED_OUT != 0 {
            let is_repeated = self.charge_timeout(index);
            if !is_repeated {
                self.finish_started(index, Status::TimedOut, Content::Empty, port);
            }
            is_repeated
        } else {
            let is_repeated = self.charge_loss(index, report.cause, report.killed_for);
            if !is_repeated {
                self.finish_started(index, Status::Lost, Content::Loss(report.clone()), port);
            }
            is_repeated
        };
        if is_repeated {
            self.begin_attempt(index);
            self.make_ready(index);
        }
    }

    fn finish_started(
        &mut self,
        index: u32,
        status: Status,
        content: Content,
        port: &mut impl Port,
    ) {
        let run = crate::finish::Run { has_started: true, ..Default::default() };
        self.finish_run(index, (status, content), &run, port);
    }

    /// Charges an attempt to the budget for losses, unless the task is a killer of workers.
    fn charge_loss(&mut self, index: u32, cause: LossCause, killed_for: Option<TaskId>) -> bool {
        let extra = self.extra(index);
        let extra = &mut self.extras[extra];
        if killed_for.is_none() && cause != LossCause::Keeper {
            extra.kills = extra.kills.saturating_add(1);
        }
        let left = &mut extra.budgets.loss_retries;
        let cancels = matches!(self.phase, Phase::Closing { cancels: true });
        if *left == 0 || cancels || extra.kills >= self.config.kills_max {
            return false;
        }
        *left -= 1;
        self.counts.loss_retries += 1;
        true
    }
}
