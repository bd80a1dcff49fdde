//! The state of a map between its items and its results: outstanding tasks, results taken, failed items.

use std::collections::VecDeque;

use gristmill_client::{
    CallResult, CallValue, Client, EncodedOutcome, Ended, Pending, TakenResults,
};
use gristmill_shm::BLOCK_MIN;
use gristmill_wire::{TaskId, Verdict};
use pyo3::prelude::*;

use super::bytes::Bytes;
use crate::codec::decode_only_scalar;
use crate::object::Owned;

/// Approximate number of results taken from the engine at a time.
const SHARE: usize = 512;
/// Maximum items outstanding once results are requested: so many records stay in a core's cache.
pub(super) const STEADY_WINDOW: usize = 1024;
/// Items that are submitted at once.
pub(super) const BATCH: usize = 64;
/// Fraction of the window that is read at a time: a sixty-fourth, which is one item in a small window.
const STEPS: usize = 64;
/// The largest step: a few batches. The overhead of each item is then small, and most of the window stays outstanding.
const STEP_MAX: usize = 4 * BATCH;

/// The distance by which items are read ahead of the results, counted in items.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Maximum items outstanding in the engine.
    outstanding_max: usize,
    /// Maximum items read ahead of the requested result.
    ahead_max: usize,
    /// Minimum items worth a reading.
    step: usize,
}

impl Window {
    fn new(limit: usize) -> Self {
        Self {
            outstanding_max: limit.min(STEADY_WINDOW),
            ahead_max: limit.min(STEADY_WINDOW + SHARE),
            step: (limit / STEPS).clamp(1, STEP_MAX),
        }
    }
}

/// An item that could not be submitted.
struct Failure {
    /// Number of items read before it.
    place: u64,
    error: PyErr,
}

/// The next result of a map, or the reason why there is none yet.
pub(super) enum Next {
    /// A value.
    Value(Owned),
    /// The result of a call; its bytes are in the buffer that the caller passed.
    Inline(Verdict),
    /// The result of a call, with blocks.
    Blocks(Verdict, EncodedOutcome),
    /// The outcome of a task.
    Ended(Ended),
    /// The error of an item that could not be submitted.
    Failed(PyErr),
    /// So many items must be read first.
    Read(usize),
    /// No result has come yet.
    Nothing,
}

/// The outstanding part of a map.
pub(super) enum MapProgress {
    /// At least one result has come.
    Something,
    /// The outstanding tasks, in order.
    Outstanding(Vec<Pending>),
    /// Nothing is outstanding.
    Nothing,
}

/// The state of a map between its items and its results. No method runs Python code.
pub(super) struct Flow {
    pub pending: VecDeque<Pending>,
    counts: FlowCounts,
    /// Results taken from the engine and not yet returned.
    taken: VecDeque<TakenResults>,
    failures: VecDeque<Failure>,
    window: Window,
    bytes: Bytes,
    is_ordered: bool,
    /// True if the source has no more items.
    pub is_exhausted: bool,
    /// True if a result was requested.
    pub is_begun: bool,
    /// True if no more items may be read.
    pub is_closed: bool,
    /// True if all items must be read now, whatever their size: the executor or the map ends.
    pub reads_all: bool,
    /// True if no caller is left to receive a failure.
    is_unheard: bool,
}

/// Counts of items and results.
#[derive(Debug, Default)]
struct FlowCounts {
    /// Number of items outstanding in the engine.
    outstanding: usize,
    /// Number of items that were submitted or have failed.
    read: u64,
    /// Number of results and failures that were returned.
    given: u64,
    /// Number of results to return before there may be room for another step of items.
    given_until_room: usize,
}

impl Flow {
    pub fn new(limit: usize, bytes: Bytes, is_ordered: bool) -> Self {
        Self {
            pending: VecDeque::new(),
            counts: FlowCounts::default(),
            taken: VecDeque::new(),
            failures: VecDeque::new(),
            window: Window::new(limit),
            bytes,
            is_ordered,
            is_exhausted: false,
            is_begun: false,
            is_closed: false,
            reads_all: false,
            is_unheard: false,
        }
    }

    /// Returns the number of items that may be read while the next result is requested.
    #[inline]
    pub fn room(&mut self) -> usize {
        if self.is_stopped(false) {
            return 0;
        }
        if self.is_exhausted {
            return 0;
        }
        let asked = self.counts.given + 1;
        let ahead = usize::try_from(self.counts.read.saturating_sub(asked)).unwrap_or(usize::MAX);
        let free = self.window.outstanding_max.saturating_sub(self.counts.outstanding);
        free.min(self.window.ahead_max.saturating_sub(ahead))
    }

    /// Counts submitted items, which are in `pending` already.
    pub const fn submitted(&mut self, count: usize) {
        self.counts.outstanding += count;
        self.counts.read += count as u64;
    }

    /// Records one submitted task and the bytes of its arguments. Returns whether reading must pause.
    pub fn submitted_one(&mut self, task: TaskId, size: u64) -> bool {
        self.pending.push_back(Pending::One(task));
        self.submitted(1);
        self.bytes.add(self.counts.read, 1, size);
        self.is_stopped(false)
    }

    /// Counts the bytes of a submitted batch of `count` items.
    #[inline]
    pub fn note_batch(&mut self, count: usize, size: usize) {
        self.bytes.add(self.counts.read, count as u64, size as u64);
    }

    /// Returns whether reading must pause: the map is closed, or it holds enough bytes (with `is_pressed`, only the
    /// minimum number of items is read). If results are unordered, a failure is returned behind all results of the
    /// items before it, so no item is read behind a failure until then.
    #[inline]
    pub fn is_stopped(&mut self, is_pressed: bool) -> bool {
        let has_failure = !self.is_ordered && !self.failures.is_empty();
        let is_full =
            has_failure || self.bytes.is_full(self.counts.given, self.counts.read, is_pressed);
        self.is_closed || (!self.reads_all && is_full)
    }

    /// Does the same as [`Self::is_stopped`], with the present number of workers if it may have changed.
    pub fn is_stopped_for(&mut self, workers: Option<u32>, is_pressed: bool) -> bool {
        if let Some(workers) = workers {
            self.bytes.set_workers(workers);
        }
        self.is_stopped(is_pressed)
    }

    /// Records the failure of the next item. Returns the error if no caller is left to receive it.
    pub fn failed(&mut self, error: PyErr) -> Option<PyErr> {
        if self.is_unheard {
            return Some(error);
        }
        self.failures.push_back(Failure { place: self.counts.read, error });
        self.counts.read += 1;
        None
    }

    /// Records that no caller is left. Returns the errors that no caller received.
    pub fn hear_no_more(&mut self) -> Vec<PyErr> {
        self.is_unheard = true;
        self.failures.drain(..).map(|failure| failure.error).collect()
    }

    /// Returns whether everything that was read has been returned.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.taken.is_empty() && self.failures.is_empty()
    }

    /// Returns the next result if it is a scalar, no item has failed, and no items must be read first.
    #[inline]
    pub fn next_scalar(&mut self, py: Python<'_>) -> Option<Owned> {
        let given_until_room = self.counts.given_until_room.checked_sub(1)?;
        if !self.failures.is_empty() {
            return None;
        }
        let Some(TakenResults::Results(results)) = self.taken.front_mut() else { return None };
        let value = results.take_if(|verdict, bytes| match verdict {
            Verdict::Returned => decode_only_scalar(py, bytes),
            _ => None,
        })?;
        self.counts.given_until_room = given_until_room;
        self.counts.given += 1;
        Some(value)
    }

    /// Returns the next result. With `may_read` it may instead return the number of items to read first, for which
    /// there is room once the result is returned. Appends the bytes of a result that must be decoded elsewhere to
    /// `bytes`.
    #[inline]
    pub fn next(&mut self, py: Python<'_>, may_read: bool, bytes: &mut Vec<u8>) -> Next {
        if !self.failures.is_empty()
            && let Some(error) = self.due_failure()
        {
            return Next::Failed(error);
        }
        if self.taken.is_empty() {
            return Next::Nothing;
        }
        if may_read {
            match self.counts.given_until_room.checked_sub(1) {
                Some(left) => self.counts.given_until_room = left,
                None => {
                    if let Some(room) = self.look_for_room() {
                        return Next::Read(room);
                    }
                }
            }
        }
        self.take(py, bytes)
    }

    /// Returns the number of items that may be read, if that is at least a step; otherwise sets the next time to check.
    fn look_for_room(&mut self) -> Option<usize> {
        let room = self.room();
        if room >= self.window.step {
            return Some(room);
        }
        // Each returned result makes room for one item. The bytes of a large one may make room for more.
        let is_stopped = self.is_stopped(false);
        self.counts.given_until_room = if is_stopped { 0 } else { self.window.step - room - 1 };
        None
    }

    /// Returns the next of the results that were taken from the engine.
    #[inline]
    fn take(&mut self, py: Python<'_>, bytes: &mut Vec<u8>) -> Next {
        while let Some(TakenResults::Results(results)) = self.taken.front_mut() {
            if let Some(result) = results.take() {
                self.counts.given += 1;
                if let CallValue::Blocks(encoded) = &result.value {
                    self.bytes.note_result(size_of(encoded));
                }
                return next_of(py, result, bytes);
            }
            self.taken.pop_front();
        }
        match self.taken.pop_front() {
            Some(TakenResults::One(ended)) => {
                self.counts.given += 1;
                if let Ended::Value(encoded) = &ended {
                    self.bytes.note_result(size_of(encoded));
                }
                Next::Ended(ended)
            }
            _ => Next::Nothing,
        }
    }

    /// Returns the error of the next item, if that has failed.
    #[cold]
    fn due_failure(&mut self) -> Option<PyErr> {
        let is_alone = self.pending.is_empty() && self.taken.is_empty();
        let is_due = |failure: &Failure| is_alone || failure.place <= self.counts.given;
        if !self.failures.front().is_some_and(is_due) {
            return None;
        }
        self.counts.given += 1;
        self.failures.pop_front().map(|failure| failure.error)
    }

    /// Takes results from the engine. Takes the results of an unfinished batch only with `splits`.
    pub fn collect(&mut self, client: &Client, splits: bool) -> MapProgress {
        self.counts.given_until_room = 0;
        let (pending, taken) = (&mut self.pending, &mut self.taken);
        self.counts.outstanding -= if self.is_ordered {
            client.take_front(pending, SHARE, splits, taken)
        } else {
            client.take_any(pending, splits, taken)
        };
        if !taken.is_empty() {
            return MapProgress::Something;
        }
        match (pending.front(), self.is_ordered) {
            // The rest may be an item that has failed.
            (None, _) if !self.failures.is_empty() => MapProgress::Something,
            // Nothing is left of a batch if all of its results were taken before it had finished.
            (None, _) => MapProgress::Nothing,
            (Some(&front), true) => MapProgress::Outstanding(vec![front]),
            (Some(_), false) => MapProgress::Outstanding(pending.iter().copied().collect()),
        }
    }

    /// Drops everything except the outstanding tasks. Returns the errors, whose release may run Python code.
    pub fn forget(&mut self) -> Vec<PyErr> {
        self.is_exhausted = true;
        self.is_closed = true;
        self.is_begun = true;
        self.taken.clear();
        self.failures.drain(..).map(|failure| failure.error).collect()
    }
}

/// Returns the bytes of a result: its large parts, and its other values if they are large together.
fn size_of(encoded: &EncodedOutcome) -> u64 {
    let parts: u64 = encoded.parts().iter().map(|part| part.size() as u64).sum();
    let own = encoded.size();
    parts + if own < BLOCK_MIN { 0 } else { own as u64 }
}

/// Converts a call's result, and decodes it if that runs no Python code.
#[inline]
fn next_of(py: Python<'_>, result: CallResult<'_>, bytes: &mut Vec<u8>) -> Next {
    match result.value {
        CallValue::Inline(value) => {
            if result.verdict == Verdict::Returned
                && let Some(value) = decode_only_scalar(py, value)
            {
                return Next::Value(value);
            }
            bytes.extend_from_slice(value);
            Next::Inline(result.verdict)
        }
        CallValue::Blocks(encoded) => Next::Blocks(result.verdict, encoded),
    }
}
