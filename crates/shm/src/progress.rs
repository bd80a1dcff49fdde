//! The progress of a worker, in a line that only the worker writes.
//!
//! Each field counts the records that have reached a state: it is the sequence + 1 of the last one; 0 is none.

#[cfg(not(gristmill_loom))]
use crate::batch::StopWord;
use crate::batch::{BatchProgress, CallWord};
use crate::ring::{RingRecord, Sequence, Words};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_sync::barrier::{BarrierMode, light};

/// The progress line. Zeroed memory is the line of a worker that has done nothing.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct ProgressLine {
    claimed: AtomicU64,
    started: AtomicU64,
    started_ticks: AtomicU64,
    ended: AtomicU64,
    written: AtomicU64,
    calls: CallWord,
}

impl ProgressLine {
    /// Returns the worker's view. Only one thread of one process writes the line.
    #[inline]
    #[must_use]
    pub fn writer(&self) -> ProgressWriter<'_> {
        ProgressWriter(self)
    }

    /// Returns the view of all other threads and processes.
    #[inline]
    #[must_use]
    pub fn reader(&self) -> ProgressReader<'_> {
        ProgressReader(self)
    }

    /// Clears the line of a worker that is known to be dead.
    #[cfg(not(gristmill_loom))]
    pub(crate) fn reset(&self) {
        let words = [&self.claimed, &self.started, &self.started_ticks, &self.ended, &self.written];
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        self.calls.reset();
    }
}

/// The right of a worker to run a task record that it has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a revoked record must not run"]
pub enum ClaimResult {
    /// The worker runs the record.
    Run,
    /// The client has taken the record back: the worker answers that it was skipped.
    Revoked,
}

/// The worker's view of its progress.
#[derive(Debug, Clone, Copy)]
pub struct ProgressWriter<'a>(&'a ProgressLine);

impl ProgressWriter<'_> {
    /// Claims a task record, then checks whether it was revoked before the claim.
    #[inline]
    pub fn claim<W: Words>(self, record: &RingRecord<'_, W>, mode: BarrierMode) -> ClaimResult {
        self.0.claimed.store(record.sequence() + 1, Ordering::Relaxed);
        light(mode); // PAIRS: take-back (the heavy barrier of `Producer::take_back`)
        if record.revoked() { ClaimResult::Revoked } else { ClaimResult::Run }
    }

    /// Claims the next call of a claimed batch; see [`CallWord::begin`].
    #[cfg(not(gristmill_loom))]
    #[inline]
    #[must_use = "a call that was taken back must not run"]
    pub(crate) fn begin_call(
        self,
        sequence: Sequence,
        started: u32,
        stop: &StopWord,
        mode: BarrierMode,
    ) -> bool {
        self.0.calls.begin(sequence, started, stop, mode)
    }

    /// Records that the user's code of a claimed record begins now.
    #[inline]
    pub fn start(self, sequence: Sequence, ticks: u64) {
        // PAIRS: start time (the acquire load of `running`), so that `running` sees the end of the record before this
        // start
        self.0.started_ticks.store(ticks, Ordering::Release);
        self.0.started.store(sequence + 1, Ordering::Release); // PAIRS: started (`started`)
    }

    /// Records the position up to which a growing record has written the result ring.
    #[inline]
    pub fn written(self, position: u64) {
        self.0.written.store(position, Ordering::Release); // PAIRS: written (`written`)
    }

    /// Records that a record's answer is written and its user's code has returned.
    #[inline]
    pub fn end(self, sequence: Sequence) {
        self.0.ended.store(sequence + 1, Ordering::Release); // PAIRS: ended (`ended`)
    }
}

/// The record whose user code was running when the progress was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningRecord {
    /// The record's sequence in the task ring.
    pub sequence: Sequence,
    /// The start time, ticks of the worker's clock.
    pub started_ticks: u64,
}

/// The state of a record that a dead worker left without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostRecordState {
    /// None of its user code has run.
    Unstarted,
    /// Its user code may have run.
    Started,
}

/// The client's view of a worker's progress. A living worker changes it while it is read.
#[derive(Debug, Clone, Copy)]
pub struct ProgressReader<'a>(&'a ProgressLine);

impl ProgressReader<'_> {
    /// Returns the number of claimed records.
    #[inline]
    #[must_use]
    pub fn claimed(self) -> Sequence {
        self.0.claimed.load(Ordering::Relaxed) // after a heavy barrier; see take-back
    }

    /// Returns the number of records whose user code has begun. Proves nothing about later records while the worker
    /// lives.
    #[inline]
    #[must_use]
    pub fn started(self) -> Sequence {
        self.0.started.load(Ordering::Acquire) // PAIRS: started (`start`)
    }

    /// Returns the number of records whose user code has returned and whose answer is written.
    #[inline]
    #[must_use]
    pub fn ended(self) -> Sequence {
        self.0.ended.load(Ordering::Acquire) // PAIRS: ended (`end`)
    }

    /// Returns the position up to which the last growing record has written the result ring. Call it before
    /// [`Consumer::peek_growing`](crate::Consumer::peek_growing).
    #[inline]
    #[must_use]
    pub fn written(self) -> u64 {
        self.0.written.load(Ordering::Acquire) // PAIRS: written (`ProgressWriter::written`)
    }

    /// Returns the progress in the batch that the worker runs or ran last.
    #[inline]
    #[must_use]
    pub fn batch(self) -> Option<BatchProgress> {
        self.0.calls.progress()
    }

    /// Stops a batch; see [`StopWord::stop`].
    #[cfg(not(gristmill_loom))]
    pub(crate) fn stop_batch(
        self,
        sequence: Sequence,
        stop: &StopWord,
        mode: BarrierMode,
    ) -> Option<BatchProgress> {
        stop.stop(sequence, &self.0.calls, mode)
    }

    /// Returns the record that is running, if any.
    #[must_use]
    pub fn running(self) -> Option<RunningRecord> {
        let started = self.started();
        // PAIRS: start time (the release store of `start`)
        let started_ticks = self.0.started_ticks.load(Ordering::Acquire);
        // The load of a later record's start time makes the end of this record visible.
        let is_running = started > self.ended();
        is_running.then(|| RunningRecord { sequence: started - 1, started_ticks })
    }

    /// Returns the state of a record without an answer. The worker must be known to be dead, and all its answers must
    /// have been read.
    #[must_use]
    pub fn fate_of_unanswered(self, sequence: Sequence) -> LostRecordState {
        if sequence < self.started() {
            LostRecordState::Started
        } else {
            LostRecordState::Unstarted
        }
    }
}

#[cfg(all(test, not(gristmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_runs_from_its_start_to_its_end() {
        let line = ProgressLine::default();
        assert_eq!(line.reader().running(), None);
        line.writer().start(4, 77);
        let running = RunningRecord { sequence: 4, started_ticks: 77 };
        assert_eq!(line.reader().running(), Some(running));
        line.writer().end(4);
        assert_eq!(line.reader().running(), None);
    }

    #[test]
    fn a_dead_worker_s_unanswered_records_divide_at_the_last_start() {
        let line = ProgressLine::default();
        line.writer().start(4, 77);
        assert_eq!(line.reader().fate_of_unanswered(4), LostRecordState::Started);
        assert_eq!(line.reader().fate_of_unanswered(5), LostRecordState::Unstarted);
    }
}
