//! The death of workers.

use std::sync::Arc;

use gristmill_wire::{Epoch, FailureKind, SlotId, TaskFailure, TaskId};

use crate::batch::DeathEffect;
use crate::list::List;
use crate::machine::Phase;
use crate::outcome::{Loss, LossCause, LossReport, TaskContent};
use crate::port::{Port, RingProgress};
use crate::queue::ReadyQueue;
use crate::slots::{Slot, SlotState};
use crate::task::{State, flag};
use crate::{Core, Payload, StartFailure, Status};

impl Core {
    /// Handles the death of a slot's worker, after its last answers were taken in. Charges its started tasks a loss,
    /// and places the other tasks again, free of charge and in order.
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
            let failure = StartFailure { text: loss.detail, permanent: false, is_expiry: false };
            self.slot_failed(slot, failure, now, port);
            return;
        }
        if state != SlotState::Starting && self.slots[place].epoch != epoch {
            return;
        }
        let killed_for = self.slots[place].killed_for;
        let context = self.slots[place].context;
        let tasks = self.empty_slot(place, &loss.progress);
        if state != SlotState::Retiring {
            self.counts.losses += 1;
            let is_innocent = killed_for.is_some() || loss.cause == LossCause::Keeper;
            self.judge_worker(context, is_innocent || loss.progress.started > 0);
        }
        let report = Arc::new(LossReport {
            slot,
            epoch,
            pid: loss.pid,
            cause: loss.cause,
            node: Box::default(),
            oom: loss.oom,
            killed_for,
            detail: loss.detail,
            loading: loss.loading,
        });
        let mut rests = Vec::new();
        for &(index, calls) in &tasks {
            if self.is_loose(index) && self.tasks[index].has(flag::STARTED) {
                rests.append(&mut self.lose_all_of(index, calls, &report, port));
            }
        }
        let indices = tasks.into_iter().map(|(index, _)| index);
        // The rest of a batch was in front of all tasks that had not started.
        let mut unstarted = rests;
        unstarted.extend(indices.filter(|&index| self.is_loose(index)));
        self.counts.replaced += unstarted.len() as u64;
        self.return_all(&unstarted, port);
        self.pump(port);
        self.grow(port);
        self.wind_down(port);
    }

    fn is_loose(&self, index: u32) -> bool {
        self.tasks[index].state == State::Loose
    }

    /// Takes all tasks out of a slot whose process is gone, and flags the started ones. Returns each task with the
    /// number of its calls that had started, which is meaningful only for batches.
    fn empty_slot(&mut self, place: usize, progress: &RingProgress) -> Vec<(u32, u32)> {
        let indices: Vec<u32> = List::from(&self.tasks, self.slots[place].in_flight.head).collect();
        let mut tasks = Vec::new();
        for index in indices {
            let sequence = self.slots[place].sequence(self.tasks[index].sequence);
            self.leave_slot(index);
            if sequence < progress.started {
                self.tasks[index].flags |= flag::STARTED;
            }
            tasks.push((index, Self::started_calls(progress.calls, sequence)));
        }
        self.set_state(place, SlotState::Absent);
        let slot = &mut self.slots[place];
        let nested = std::mem::replace(&mut slot.nested, ReadyQueue::new());
        *slot = Slot { nested, epoch: slot.epoch, holder: slot.holder, ..Slot::new() };
        tasks
    }

    /// Ends or repeats a started task, as [`Self::lose`] does, or the started calls of a batch. Returns the other calls
    /// of the batch as single tasks that are in no list.
    fn lose_all_of(
        &mut self,
        index: u32,
        calls: u32,
        report: &Arc<LossReport>,
        port: &mut impl Port,
    ) -> Vec<u32> {
        if self.batch(index).is_none() {
            self.lose(index, report, port);
            return Vec::new();
        }
        let Some((fate, rest)) = self.judge_batch(index, calls, port) else {
            self.tasks[index].flags &= !flag::STARTED;
            return Vec::new();
        };
        match fate {
            DeathEffect::Lost => self.lose(index, report, port),
            DeathEffect::Done => {
                let results = TaskContent::Payload(Payload::EMPTY);
                self.finish_started(index, Status::Succeeded, results, port);
            }
        }
        rest
    }

    /// Ends or repeats a task that its worker had started when it died.
    fn lose(&mut self, index: u32, report: &Arc<LossReport>, port: &mut impl Port) {
        self.cancel_children(index, port);
        let flags = self.tasks[index].flags;
        let is_innocent = report.killed_for.is_some_and(|task| task != self.tasks.id(index))
            || matches!(report.cause, LossCause::Keeper | LossCause::Node);
        if !is_innocent && flags & flag::CANCELLED == 0 {
            self.lose_right(index);
        }
        let is_repeated = if flags & flag::CANCELLED != 0 {
            self.finish(index, Status::Cancelled, TaskContent::Empty, port);
            false
        } else if flags & flag::TIMED_OUT != 0 {
            let is_repeated = self.charge_timeout(index);
            if !is_repeated {
                let content = stopped_while(&report.loading);
                self.finish_started(index, Status::TimedOut, content, port);
            }
            is_repeated
        } else {
            let is_repeated = self.charge_loss(index, report.cause, report.killed_for);
            if !is_repeated {
                self.finish_started(index, Status::Lost, TaskContent::Loss(report.clone()), port);
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
        content: TaskContent,
        port: &mut impl Port,
    ) {
        let run = crate::finish::RunReport { has_started: true, ..Default::default() };
        self.finish_run(index, (status, content), &run, port);
    }

    /// Charges an attempt to the loss budget. Returns false if no retry is left or the task has killed too many
    /// workers.
    pub(crate) fn charge_loss(
        &mut self,
        index: u32,
        cause: LossCause,
        killed_for: Option<TaskId>,
    ) -> bool {
        let extra = self.extra(index);
        let extra = &mut self.extras[extra];
        if killed_for.is_none() && !matches!(cause, LossCause::Keeper | LossCause::Node) {
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

/// Returns the content of a task that was killed because of its timeout: the name of what was being loaded, if known.
fn stopped_while(loading: &str) -> TaskContent {
    if loading.is_empty() {
        return TaskContent::Empty;
    }
    let failure = TaskFailure::of_text(FailureKind::Loading, loading);
    TaskContent::Payload(Payload::from(failure.encode()))
}
