//! Answers of workers.

use gristmill_wire::{AnswerFrame, SlotId, Span, Verdict, WorkerState};

use crate::finish::RunReport;
use crate::machine::Phase;
use crate::outcome::TaskContent;
use crate::port::{Port, StoppedRun};
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, Status};

/// Effect of an answer on its task.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// No effect: the answer belongs to a placement that was given up, or to none.
    Stale,
    /// The task is final.
    Finished(Status),
    /// The task will be placed again.
    Requeued,
    /// The task has returned, and its result stayed at the peer that made it.
    Stayed,
}

impl Core {
    /// Applies the answer to one record. Drops and counts an answer that fits no placement.
    #[inline]
    pub fn answered(
        &mut self,
        slot: SlotId,
        frame: &AnswerFrame,
        payload: Payload,
        now: u64,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        self.now = now;
        let place = usize::from(slot.0);
        let Some(index) = self.answered_task(slot, frame) else {
            return self.drop_stale(place, &payload, port);
        };
        self.slots[place].full = false;
        self.slots[place].stuck = false;
        self.leave_slot(index);
        if self.tasks[index].extra != NONE
            && frame.verdict.has_started()
            && !self.close_batch(index, port)
        {
            let _is_requeued = self.return_unstarted(index, port);
            self.after_answer(place, port);
            return AnswerOutcome::Requeued;
        }
        let run = self.observe(index, frame, port.ticks());
        let calls = u64::from(self.calls(index));
        self.counts.worker_states[run.worker_state as usize] += calls * u64::from(run.has_started);
        let is_stopped = self.tasks[index].has(flag::CANCELLED | flag::TIMED_OUT)
            && self.ended_too_late(index, frame);
        let outcome = if frame.verdict == Verdict::Returned && !is_stopped {
            self.finish_run(index, (Status::Succeeded, TaskContent::Payload(payload)), &run, port);
            AnswerOutcome::Finished(Status::Succeeded)
        } else {
            self.end_started(index, slot, frame, port);
            self.answered_badly(index, (frame.verdict, payload), &run, port)
        };
        self.after_answer(place, port);
        outcome
    }

    #[inline]
    fn answered_task(&self, slot: SlotId, frame: &AnswerFrame) -> Option<u32> {
        let index = self.tasks.find(frame.task)?;
        let task = &self.tasks[index];
        let fits = task.state == State::Sent
            && task.slot == slot.0
            && task.sequence == frame.sequence
            && task.attempt == frame.attempt;
        fits.then_some(index)
    }

    #[cold]
    fn drop_stale(
        &mut self,
        place: usize,
        payload: &Payload,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        self.counts.stale_answers += 1;
        self.drop_payload(payload);
        if self.slots.get(place).is_some_and(|slot| slot.full) {
            self.slots[place].full = false;
            self.pump(port);
        }
        AnswerOutcome::Stale
    }

    /// Records what the run shows about its function and its worker, and returns the report of the run.
    #[inline]
    fn observe(&mut self, index: u32, frame: &AnswerFrame, ticks: u64) -> RunReport {
        if !frame.verdict.has_started() {
            return RunReport::default();
        }
        self.record_success(index, frame.ran.ticks());
        let task = &self.tasks[index];
        self.counts.busy_ticks += frame.ran.ticks();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let ran_ns = frame.ran.ticks() as f32 * self.ns_per_tick / self.calls(index) as f32;
        let function = task.function.0 as usize;
        self.functions[function].observe(ran_ns, self.config.run_min_ns);
        if !crate::HAS_TAGS {
            return RunReport { has_started: true, ran: frame.ran, ..RunReport::default() };
        }
        let came_up = self.slots[usize::from(task.slot)].ready_ticks;
        let is_cold = came_up > task.submitted_ticks;
        RunReport {
            worker_state: if is_cold { WorkerState::Cold } else { frame.worker_state },
            started_ticks: frame.started_ticks,
            claimed_before: frame.claimed_before,
            ran: frame.ran,
            published_after: frame.published_after,
            drained_after: Span::from_ticks(ticks.saturating_sub(task.submitted_ticks)),
            has_started: true,
        }
    }

    /// Returns true if the value of a task must be dropped: the task was cancelled while it ran, or ended after its
    /// timeout had stopped it. A task that ended before its timeout keeps its value, even if the stop was sent
    /// meanwhile.
    #[cold]
    fn ended_too_late(&self, index: u32, frame: &AnswerFrame) -> bool {
        let task = &self.tasks[index];
        if self.batch(index).is_some() {
            return false;
        }
        // The longest span stands for all longer ones.
        let ended_ticks = frame.started_ticks.saturating_add(frame.ran.ticks());
        task.has(flag::CANCELLED)
            || frame.ran == Span::from_ticks(u64::MAX)
            || ended_ticks >= self.extras[task.extra].stopped_ticks
    }

    /// Ends the processes that a stopped task started.
    #[cold]
    fn end_started(&self, index: u32, slot: SlotId, frame: &AnswerFrame, port: &mut impl Port) {
        if frame.verdict.has_started() && self.tasks[index].has(flag::CANCELLED | flag::TIMED_OUT) {
            let began_ticks = frame.started_ticks;
            let ended_ticks = began_ticks.saturating_add(frame.ran.ticks());
            let sequence = frame.sequence;
            port.end_started(slot, StoppedRun { sequence, began_ticks, ended_ticks });
        }
    }

    fn answered_badly(
        &mut self,
        index: u32,
        (verdict, payload): (Verdict, Payload),
        run: &RunReport,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        let flags = self.tasks[index].flags;
        if !verdict.has_started() {
            self.drop_payload(&payload);
            let slot = usize::from(self.tasks[index].slot);
            self.slots[slot].sent -= 1;
            return self.answered_unstarted(index, verdict, run, port);
        }
        let is_to_end = flags & flag::CANCELLED != 0;
        let status = match verdict {
            // The caller of the cancel was promised this end, whatever the task has done meanwhile.
            _ if is_to_end && self.batch(index).is_none() => Status::Cancelled,
            Verdict::Interrupted if is_to_end => Status::Cancelled,
            Verdict::Interrupted | Verdict::Returned if flags & flag::TIMED_OUT != 0 => {
                Status::TimedOut
            }
            _ => Status::Failed,
        };
        let is_retried = match status {
            Status::TimedOut => {
                self.lose_right(index);
                self.charge_timeout(index)
            }
            Status::Failed => !is_to_end && self.charge_retry(index),
            _ => false,
        };
        if is_retried {
            self.drop_payload(&payload);
            self.begin_attempt(index);
            self.make_ready(index);
            return AnswerOutcome::Requeued;
        }
        let content = if status == Status::Cancelled || verdict == Verdict::Returned {
            self.drop_payload(&payload);
            TaskContent::Empty
        } else {
            TaskContent::Payload(payload)
        };
        self.finish_run(index, (status, content), run, port);
        AnswerOutcome::Finished(status)
    }

    fn answered_unstarted(
        &mut self,
        index: u32,
        verdict: Verdict,
        run: &RunReport,
        port: &mut impl Port,
    ) -> AnswerOutcome {
        if verdict == Verdict::Expired {
            self.finish_run(index, (Status::TimedOut, TaskContent::Empty), run, port);
            return AnswerOutcome::Finished(Status::TimedOut);
        }
        let slot = usize::from(self.tasks[index].slot);
        let extra = self.tasks[index].extra;
        let was_inline = extra != NONE && self.extras[extra].is_inline;
        if verdict == Verdict::Declined && was_inline && self.nested_slot(index) == Some(slot) {
            self.tasks[index].flags |= flag::DECLINED;
        }
        if self.return_unstarted(index, port) {
            AnswerOutcome::Requeued
        } else {
            AnswerOutcome::Finished(Status::Cancelled)
        }
    }

    #[inline]
    fn after_answer(&mut self, place: usize, port: &mut impl Port) {
        let is_asked_for = self.nested_ready > 0
            || self.waiting_slots > 0
            || self.demands.len() > 0
            || self.priorities.is_used();
        if self.has_fresh || is_asked_for {
            self.pump(port);
        }
        if !self.ready.is_empty() || self.contexts.waiting() > 0 {
            self.refill(place, port);
        }
        if self.slots[place].in_flight.len == 0 {
            self.use_idle(place, port);
        }
        if !matches!(self.phase, Phase::Open) {
            self.wind_down(port);
        }
    }

    /// Charges an attempt to the retry budget. Returns false if no retry is left.
    pub(crate) fn charge_retry(&mut self, index: u32) -> bool {
        if self.tasks[index].extra == NONE && self.config.budgets.retries == 0 {
            return false;
        }
        let extra = self.extra(index);
        let left = &mut self.extras[extra].budgets.retries;
        if *left == 0 || matches!(self.phase, Phase::Closing { cancels: true }) {
            return false;
        }
        *left -= 1;
        self.counts.retries += 1;
        true
    }

    /// Charges an attempt to the timeout budget. Returns false if no retry is left.
    pub(crate) fn charge_timeout(&mut self, index: u32) -> bool {
        let extra = self.extra(index);
        let left = &mut self.extras[extra].budgets.timeout_retries;
        if *left == 0 || matches!(self.phase, Phase::Closing { cancels: true }) {
            return false;
        }
        *left -= 1;
        self.counts.timeout_retries += 1;
        true
    }
}
