//! Batches: several calls of one function that travel as one task.
//!
//! A batch saves the client's cost per task. In everything else its calls stay tasks of their own. A worker claims each
//! call by itself, so calls that have not begun can be taken from a running batch. Calls that were taken, or that a
//! dead worker left, go on as single tasks. Only calls without options, parents and budgets travel in batches.

use gristmill_wire::{BATCH_MAX, BatchCalls, FunctionId, SlotId, TaskFlags};

use crate::estimate::Cost;
use crate::list::List;
use crate::machine::slot_id;
use crate::options::{Budgets, Extra, TaskOptions};
use crate::outcome::TaskContent;
use crate::port::{CallProgress, Port};
use crate::submit::{Submission, SubmitError};
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, PayloadRef, Status, TaskId};

/// Batch fields of a side record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    /// Calls that belong to the batch itself.
    pub calls: u32,
    /// True if the rest of the batch was not asked for in this placement.
    pub is_whole: bool,
}

impl Core {
    /// Returns how many calls of a function make a batch worth its cost; 1 means no batch.
    #[inline]
    #[must_use]
    pub fn batch_size(&self, function: FunctionId) -> u32 {
        let config = &self.config;
        let known = self.functions.get(function.0 as usize).filter(|known| known.is_seen());
        match known {
            Some(known)
                if config.budgets == Budgets::default()
                    && config.tasks_per_worker_max == 0
                    && config.workers > 0 =>
            {
                let count = u64::from(config.batch_ns) / known.cost().ns().max(1);
                let room = config.outstanding_max.saturating_sub(self.counts.outstanding);
                u32::try_from(count.min(room))
                    .unwrap_or(u32::MAX)
                    .clamp(1, config.batch_max.min(BATCH_MAX))
            }
            _ => 1,
        }
    }

    /// Accepts a batch. Its payload holds `calls` calls in the format of [`BatchCalls`]. The final state of the batch
    /// applies to each of its calls that has no result; the port collects the results.
    ///
    /// # Errors
    /// Those of [`Core::submit`].
    ///
    /// # Panics
    /// If the submission has parents or options, or if `calls` is not between 1 and [`BATCH_MAX`].
    pub fn submit_batch(
        &mut self,
        submission: Submission<'_>,
        calls: u32,
        now: u64,
        port: &mut impl Port,
    ) -> Result<TaskId, SubmitError> {
        let is_plain = submission.parents.is_empty() && submission.options.is_none();
        assert!(is_plain && (1..=BATCH_MAX).contains(&calls), "a batch is of plain calls");
        if let Err(error) = self.admit(&submission.origin) {
            self.drop_payload(&submission.payload);
            return Err(error);
        }
        self.now = now;
        let index = self.insert(submission);
        let mut extra = Extra::new(index, &TaskOptions::default(), &self.config);
        extra.batch = Some(Batch { calls, is_whole: true });
        extra.is_owed = false;
        self.tasks[index].extra = self.extras.insert(extra);
        self.batches += 1;
        self.counts.submitted += u64::from(calls) - 1;
        self.counts.outstanding += u64::from(calls) - 1;
        // Each call has a position of its own in the order of submission.
        self.submitted_last += u64::from(calls);
        let id = self.tasks.id(index);
        self.place_new(index, port);
        Ok(id)
    }

    #[inline]
    pub(crate) fn batch(&self, index: u32) -> Option<Batch> {
        let extra = self.tasks[index].extra;
        if extra == NONE { None } else { self.extras[extra].batch }
    }

    /// Returns how many calls of the program a task stands for.
    #[inline]
    pub(crate) fn calls(&self, index: u32) -> u32 {
        self.batch(index).map_or(1, |batch| batch.calls)
    }

    fn set_batch(&mut self, index: u32, batch: Batch) {
        let extra = self.tasks[index].extra;
        self.extras[extra].batch = Some(batch);
    }

    pub(crate) fn batch_flag(batch: Option<Batch>) -> u8 {
        if batch.is_some() { TaskFlags::BATCH } else { 0 }
    }

    /// Returns the expected run time of all calls of a batch.
    #[cold]
    pub(crate) fn batch_cost(one: Cost, batch: Batch) -> Cost {
        let ns = one.ns().saturating_mul(u64::from(batch.calls));
        Cost::from_ns(u32::try_from(ns).unwrap_or(u32::MAX))
    }

    /// Counts a batch that enters or leaves its slot among the batches whose rest can still be taken.
    #[cold]
    pub(crate) fn count_batch(&mut self, slot: usize, index: u32, enters: bool) {
        let Some(batch) = self.batch(index).filter(|batch| batch.is_whole) else { return };
        let place = &mut self.slots[slot];
        let was_deep = place.is_deep();
        if enters {
            place.batches += 1;
        } else {
            place.batches -= 1;
            self.set_batch(index, Batch { is_whole: false, ..batch });
        }
        let is_deep = self.slots[slot].is_deep();
        self.deep_slots += u32::from(is_deep && !was_deep);
        self.deep_slots -= u32::from(was_deep && !is_deep);
    }

    /// Marks a batch as whole for its next placement.
    pub(crate) fn mend_batch(&mut self, index: u32) {
        if let Some(batch) = self.batch(index) {
            self.set_batch(index, Batch { is_whole: true, ..batch });
        }
    }

    /// Returns the batch whose results come next from a slot: its first one, since records are answered in order.
    #[must_use]
    pub fn open_batch(&self, slot: SlotId) -> Option<TaskId> {
        let in_flight =
            List::from(&self.tasks, self.slots.get(usize::from(slot.0))?.in_flight.head);
        in_flight
            .into_iter()
            .find(|&index| self.batch(index).is_some())
            .map(|index| self.tasks.id(index))
    }

    /// Returns the batch that a slot's worker has claimed and whose rest was not asked for.
    pub(crate) fn running_batch(&self, slot: usize, port: &impl Port) -> Option<u32> {
        let place = &self.slots[slot];
        if place.batches == 0 {
            return None;
        }
        let claimed = port.progress(slot_id(slot)).claimed;
        let mut index = place.in_flight.head;
        while index != NONE && place.sequence(self.tasks[index].sequence) < claimed {
            if self.batch(index).is_some_and(|batch| batch.is_whole) {
                return Some(index);
            }
            index = self.tasks[index].next;
        }
        None
    }

    /// Takes the calls that have certainly not begun out of a batch that its worker has claimed. Returns them as single
    /// tasks that are in no list, in order.
    pub(crate) fn stop_batch(&mut self, slot: usize, index: u32, port: &mut impl Port) -> Vec<u32> {
        let Some(batch) = self.batch(index).filter(|batch| batch.is_whole) else {
            return Vec::new();
        };
        if self.slots[slot].stopped != NONE {
            // A single word of shared memory names the stopped batch. If the stopped batch is in front of this one, one
            // of its calls waits, and the worker will decline this one. If the stopped batch is behind this one, it
            // runs, so this one has ended.
            return Vec::new();
        }
        let sequence = self.slots[slot].sequence(self.tasks[index].sequence);
        self.slots[slot].stopped = index;
        self.count_batch(slot, index, false);
        match port.stop_batch(slot_id(slot), sequence) {
            // If nothing of a batch was claimed, the worker's answer returns it whole.
            Some(claimed) if claimed > 0 && claimed < batch.calls => {
                self.split(index, claimed, port)
            }
            _ => Vec::new(),
        }
    }

    /// Turns the calls of a batch from `first` on into single tasks. They are in no list.
    pub(crate) fn split(&mut self, index: u32, first: u32, port: &mut impl Port) -> Vec<u32> {
        let batch = self.batch(index).expect("only a batch is split");
        let payload = self.tasks[index].payload().clone();
        let PayloadRef::Bytes(bytes) = payload.get() else { unreachable!("calls are bytes") };
        let mut calls = BatchCalls::new(bytes);
        let (mut own, mut rest) = (0, Vec::new());
        for number in 0..batch.calls {
            if number == first {
                own = bytes.len() - calls.remaining();
            }
            let call = calls.take().ok().flatten().expect("as many calls as were submitted");
            if number >= first {
                rest.push(self.insert_single(index, number, Payload::copy_from(call)));
            }
        }
        // The batch may be placed again: a call that was claimed has perhaps not started.
        let left = Payload::copy_from(&bytes[..own]);
        self.argument_bytes += left.heap_size();
        self.argument_bytes = self.argument_bytes.saturating_sub(payload.heap_size());
        self.tasks[index].content = TaskContent::Payload(left);
        self.set_batch(index, Batch { calls: first, is_whole: false });
        let ids: Vec<TaskId> = rest.iter().map(|&single| self.tasks.id(single)).collect();
        let handle = port.split(self.tasks.id(index), &ids);
        for &single in &rest {
            self.tasks[single].handle = handle;
        }
        rest
    }

    fn insert_single(&mut self, batch: u32, number: u32, payload: Payload) -> u32 {
        let task = &self.tasks[batch];
        let (function, submitted_ticks) = (task.function, task.submitted_ticks);
        let released = task.flags & flag::RELEASED;
        self.argument_bytes += payload.heap_size();
        let single = self.tasks.insert(function, payload, 0);
        let task = &mut self.tasks[single];
        task.submitted_ticks = submitted_ticks + u64::from(number);
        task.flags |= released;
        debug_assert!(task.state == State::Loose, "the caller dispatches it");
        single
    }

    /// Makes the calls without a result ready before the batch ends by its answer. Returns false if no call gave a
    /// result: then the batch was not started.
    #[cold]
    pub(crate) fn close_batch(&mut self, index: u32, port: &mut impl Port) -> bool {
        let Some(batch) = self.batch(index) else { return true };
        let done = port.results(self.tasks.id(index));
        if done > 0 && done < batch.calls {
            let rest = self.split(index, done, port);
            self.return_all(&rest, port);
        }
        done > 0
    }

    /// Judges a batch whose worker died. Its results stand, the call that ran is lost with the batch, and the other
    /// calls are returned to be placed again. Returns `None` if the batch had not started.
    pub(crate) fn judge_batch(
        &mut self,
        index: u32,
        started: u32,
        port: &mut impl Port,
    ) -> Option<(DeathEffect, Vec<u32>)> {
        let batch = self.batch(index)?;
        let done = port.results(self.tasks.id(index)).min(batch.calls);
        let started = started.clamp(done, batch.calls.min(done + 1));
        if started == 0 {
            return None;
        }
        let rest =
            if started < batch.calls { self.split(index, started, port) } else { Vec::new() };
        if started == done {
            return Some((DeathEffect::Done, rest));
        }
        self.counts.outstanding -= u64::from(done);
        self.counts.finished[Status::Succeeded as usize] += u64::from(done);
        self.set_batch(index, Batch { calls: 1, is_whole: false });
        Some((DeathEffect::Lost, rest))
    }

    /// Returns how many calls of a batch a dead worker had started.
    pub(crate) fn started_calls(progress: Option<CallProgress>, sequence: u64) -> u32 {
        progress.filter(|calls| calls.sequence == sequence).map_or(0, |calls| calls.started)
    }
}

/// Effect of the worker's death on a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeathEffect {
    /// All calls that belong to the batch had ended.
    Done,
    /// The last call ran and is lost.
    Lost,
}
