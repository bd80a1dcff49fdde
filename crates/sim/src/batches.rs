//! Batches of the simulated program: several calls that the engine treats as one task.

use gristmill_core::{CancelMode, CancelOutcome, Origin, Payload, Submission, TaskId};
use gristmill_wire::{BatchCalls, FunctionId};

use crate::run::Simulation;
use crate::world::ProgramTask;

impl Simulation {
    /// Submits several calls as one task.
    pub(crate) fn submit_batch(&mut self) {
        let first = self.world.ledger.len();
        let calls: Vec<usize> = (first..first + 1 + self.random.index(6)).collect();
        let function = FunctionId(u32::try_from(self.random.below(3)).expect("small"));
        let mut payload = Vec::new();
        for number in &calls {
            BatchCalls::append(&(*number as u64).to_le_bytes(), &mut payload).expect("small");
            self.world.ledger.push(ProgramTask { function, ..ProgramTask::default() });
        }
        self.world.log(|| format!("submit {calls:?} as a batch"));
        let submission = Submission {
            function,
            payload: Payload::from(payload),
            handle: 0,
            submitted_ticks: self.world.now,
            parents: &[],
            options: None,
            origin: Origin::External,
        };
        let count = u32::try_from(calls.len()).expect("few");
        let accepted = self.core.submit_batch(submission, count, self.world.now, &mut self.world);
        let id = accepted.expect("an admitted task is accepted");
        for (place, &number) in calls.iter().enumerate() {
            self.world.ledger[number].batch = Some((id, place));
        }
        self.world.batches.entry(id).or_insert((calls, 0));
    }

    /// Cancels a batch: the calls that have not begun and, if `mode` says so, the call that runs.
    pub(crate) fn cancel_batch(
        &mut self,
        batch: TaskId,
        mode: CancelMode,
    ) -> Option<CancelOutcome> {
        let numbers = self.world.batches[&batch].0.clone();
        let before: Vec<bool> =
            numbers.iter().map(|&number| self.world.ledger[number].may_cancel).collect();
        for &number in &numbers {
            self.world.ledger[number].may_cancel = true;
        }
        let outcome = self.core.cancel(batch, mode, self.world.now, &mut self.world);
        self.world.log(|| format!("cancel {batch} {mode:?}: {outcome:?}"));
        for (&number, before) in numbers.iter().zip(before) {
            let entry = &mut self.world.ledger[number];
            let is_left = entry.status.is_none() && entry.batch.is_some();
            if is_left && outcome == CancelOutcome::AlreadyRunning {
                entry.may_cancel = before;
            }
        }
        Some(outcome)
    }

    /// Drops the future of all calls of a batch; returns whether any of them was still held.
    pub(crate) fn release_batch(&mut self, batch: TaskId) -> bool {
        let numbers = self.world.batches[&batch].0.clone();
        let mut is_new = false;
        for number in numbers {
            is_new |= !std::mem::replace(&mut self.world.ledger[number].is_released, true);
        }
        if is_new {
            self.core.release(batch);
        }
        is_new
    }
}
