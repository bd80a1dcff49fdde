//! Batches: several calls of one function that travel as one task.
//!
//! A batch saves what each task costs the client. Its calls stay tasks of their own in everything else: each is claimed
//! by itself, so what has not begun can be taken from a running batch; what is taken, or left by a dead worker, goes on
//! as single tasks. Only calls without options, parents and budgets travel so.

use gristmill_wire::{BATCH_MAX, BatchCalls, FunctionId, SlotId, TaskFlags};

use crate::estimate::Cost;
use crate::list::List;
use crate::machine::slot_id;
use crate::options::{Budgets, Extra, TaskOptions};
use crate::outcome::Content;
use crate::port::{CallProgress, Port};
use crate::submit::{Submission, SubmitError};
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, PayloadRef, Status, TaskId};

/// What the side record of a batch says of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    /// Calls that are its own.
    pub calls: u32,
    /// Nobody has asked for its rest in this placement.
    pub is_whole: bool,
}

impl Core {
    /// How many calls of a function are worth a batch; 1 is none.
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

    /// Accepts a batch; its payload is `calls` calls as [`BatchCalls`] has them. Its final state is that of its calls but
    /// for results, which the port collects.
    ///
    /// # Errors
    /// As [`Core::submit`].
    ///
    /// # Panics
    /// With parents, options, or as a nested task.
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
        let id = self.tasks.id(index);
        self.place_new(index, port);
        Ok(id)
    }

    #[inline]
    pub(crate) fn batch(&self, index: u32) -> Option<Batch> {
        let extra = self.tasks[index].extra;
        if extra == NONE { None } else { self.extras[extra].batch }
    }

    /// How many calls of the program a task stands for.
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

    /// What all calls of a batch are expected to take.
    #[cold]
    pub(crate) fn batch_cost(one: Cost, batch: Batch) -> Cost {
        let ns = one.ns().saturating_mul(u64::from(batch.calls));
        Cost::from_ns(u32::try_from(ns).unwrap_or(u32::MAX))
    }

    /// Counts a batch that entered its slot, or left it, among those with a rest.
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

    /// Makes a batch whole again for its next placement.
    pub(crate) fn mend_batch(&mut self, index: u32) {
        if let Some(batch) = self.batch(index) {
            self.set_batch(index, Batch { is_whole: true, ..batch });
        }
    }

    /// The batch whose results come next from a slot: its first one, since records are answered in order.
    #[must_use]
    pub fn open_batch(&self, slot: SlotId) -> Option<TaskId> {
        let in_flight =
            List::from(&self.tasks, self.slots.get(usize::from(slot.0))?.in_flight.head);
        in_flight
            .into_iter()
            .find(|&index| self.batch(index).is_some())
            .map(|index| self.tasks.id(index))
    }

    /// The batch that a slot's worker has claimed and whose rest nobody has asked for.
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

    /// Takes what has certainly not begun of a batch that its worker has claimed: single tasks, in no list, in order.
    pub(crate) fn stop_batch(&mut self, slot: usize, index: u32, port: &mut impl Port) -> Vec<u32> {
        let Some(batch) = self.batch(index).filter(|batch| batch.is_whole) else {
            return Vec::new();
        };
        if self.slots[slot].stopped != NONE {
            // One word says which batch is stopped. One before this has a call that waits: this one will be declined. One
            // behind this runs, so this one has ended.
            return Vec::new();
        }
        let sequence = self.slots[slot].sequence(self.tasks[index].sequence);
        self.slots[slot].stopped = index;
        self.count_batch(slot, index, false);
        match port.stop_batch(slot_id(slot), sequence) {
            // A batch of which nothing was claimed comes back whole, by its worker's answer.
            Some(claimed) if claimed > 0 && claimed < batch.calls => {
                self.split(index, claimed, port)
            }
            _ => Vec::new(),
        }
    }

    /// Makes single tasks of the calls of a batch from `first` on. They are in no list.
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
                rest.push(self.insert_single(index, Payload::copy_from(call)));
            }
        }
        // It may yet be placed again: a call that was claimed need not have started.
        self.tasks[index].content = Content::Payload(Payload::copy_from(&bytes[..own]));
        self.set_batch(index, Batch { calls: first, is_whole: false });
        let ids: Vec<TaskId> = rest.iter().map(|&single| self.tasks.id(single)).collect();
        let handle = port.split(self.tasks.id(index), &ids);
        for &single in &rest {
            self.tasks[single].handle = handle;
        }
        rest
    }

    fn insert_single(&mut self, batch: u32, payload: Payload) -> u32 {
        let task = &self.tasks[batch];
        let (function, submitted_ticks) = (task.function, task.submitted_ticks);
        let released = task.flags & flag::RELEASED;
        let single = self.tasks.insert(function, payload, 0);
        let task = &mut self.tasks[single];
        task.submitted_ticks = submitted_ticks;
        task.flags |= released;
        debug_assert!(task.state == State::Loose, "the caller places it");
        single
    }

    /// Before a batch ends by its answer: what it gave no result for becomes ready. False when it gave none at all: then
    /// it was not started.
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

    /// Judges a batch whose worker died: its results stand, the call that ran is lost with it, the rest is returned to be
    /// placed again. `None`: it had not started.
    pub(crate) fn judge_batch(
        &mut self,
        index: u32,
        started: u32,
        port: &mut impl Port,
    ) -> Option<(Fate, Vec<u32>)> {
        let batch = self.batch(index)?;
        let done = port.results(self.tasks.id(index)).min(batch.calls);
        let started = started.clamp(done, batch.calls.min(done + 1));
        if started == 0 {
            return None;
        }
        let rest =
            if started < batch.calls { self.split(index, started, port) } else { Vec::new() };
        if started == done {
            return Some((Fate::Done, rest));
        }
        self.counts.outstanding -= u64::from(done);
        self.counts.finished[Status::Succeeded as usize] += u64::from(done);
        self.set_batch(index, Batch { calls: 1, is_whole: false });
        Some((Fate::Lost, rest))
    }

    /// Calls of a batch that a dead worker had started.
    pub(crate) fn started_calls(progress: Option<CallProgress>, sequence: u64) -> u32 {
        progress.filter(|calls| calls.sequence == sequence).map_or(0, |calls| calls.started)
    }
}

/// What the death of its worker means for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All calls that are its own had ended.
    Done,
    /// The last one died.
    Lost,
}
