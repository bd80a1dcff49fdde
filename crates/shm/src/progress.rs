//! How far a worker has come: a line that only the worker writes.
//!
//! Each fact is the count of records it holds for, that is the sequence + 1 of the last one; 0 is none.

#[cfg(not(gristmill_loom))]
use crate::batch::StopWord;
use crate::batch::{BatchProgress, CallWord};
use crate::ring::{Record, Sequence, Words};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_sync::barrier::{BarrierMode, light};

/// The line itself; zeroed memory is a line of a worker that has done nothing.
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
    /// The worker's view. Only one thread of one process writes it.
    #[inline]
    #[must_use]
    pub fn writer(&self) -> ProgressWriter<'_> {
        ProgressWriter(self)
    }

    /// Everybody else's view.
    #[inline]
    #[must_use]
    pub fn reader(&self) -> ProgressReader<'_> {
        ProgressReader(self)
    }

    /// Forgets a worker that is known to be dead.
    #[cfg(not(gristmill_loom))]
    pub(crate) fn reset(&self) {
        let words = [&self.claimed, &self.started, &self.started_ticks, &self.ended, &self.written];
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        self.calls.reset();
    }
}

/// What a worker may do with a task record that it has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a revoked record must not run"]
pub enum Claim {
    /// It is the worker's: run it.
    Run,
    /// The client wants it back: answer that it was skipped.
    Revoked,
}

/// The worker's view of its progress.
#[derive(Debug, Clone, Copy)]
pub struct ProgressWriter<'a>(&'a ProgressLine);

impl ProgressWriter<'_> {
    /// Claims a task record, then looks whether it was revoked before that.
    #[inline]
    pub fn claim<W: Words>(self, record: &Record<'_, W>, mode: BarrierMode) -> Claim {
        self.0.claimed.store(record.sequence() + 1, Ordering::Relaxed);
        light(mode); // PAIRS: take-back (the heavy barrier of the taker)
        if record.revoked() { Claim::Revoked } else { Claim::Run }
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

    /// Notes that the user's code of a claimed record begins now.
    #[inline]
    pub fn start(self, sequence: Sequence, ticks: u64) {
        // PAIRS: start time (the acquire load of `running`), so that it sees the end before this start
        self.0.started_ticks.store(ticks, Ordering::Release);
        self.0.started.store(sequence + 1, Ordering::Release); // PAIRS: started (`started`)
    }

    /// Notes up to which position the result ring is written, by a record that grows.
    #[inline]
    pub fn written(self, position: u64) {
        self.0.written.store(position, Ordering::Release); // PAIRS: written (`written`)
    }

    /// Notes that a record's answer is written and its user's code has returned.
    #[inline]
    pub fn end(self, sequence: Sequence) {
        self.0.ended.store(sequence + 1, Ordering::Release); // PAIRS: ended (`ended`)
    }
}

/// The record whose user code was running when the progress was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its place in the task ring.
    pub sequence: Sequence,
    /// When it began, ticks of the worker's clock.
    pub started_ticks: u64,
}

/// What is known of a record that a dead worker left without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No user code of it has run.
    Unstarted,
    /// Its user code may have run.
    Started,
}

/// The client's view of a worker's progress. A living worker moves on while it is read.
#[derive(Debug, Clone, Copy)]
pub struct ProgressReader<'a>(&'a ProgressLine);

impl ProgressReader<'_> {
    /// Records claimed.
    #[inline]
    #[must_use]
    pub fn claimed(self) -> Sequence {
        self.0.claimed.load(Ordering::Relaxed) // after a heavy barrier; see take-back
    }

    /// Records whose user code began. Proves nothing about later ones while the worker lives.
    #[inline]
    #[must_use]
    pub fn started(self) -> Sequence {
        self.0.started.load(Ordering::Acquire) // PAIRS: started (`start`)
    }

    /// Records whose user code has returned and whose answer is written.
    #[inline]
    #[must_use]
    pub fn ended(self) -> Sequence {
        self.0.ended.load(Ordering::Acquire) // PAIRS: ended (`end`)
    }

    /// Up to which position the result ring is written, by the last record that grew; asked for before
    /// [`Consumer::peek_growing`](crate::Consumer::peek_growing).
    #[inline]
    #[must_use]
    pub fn written(self) -> u64 {
        self.0.written.load(Ordering::Acquire) // PAIRS: written (`ProgressWriter::written`)
    }

    /// How far it has come in the batch that it runs or ran last.
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

    /// The record that runs, if one does.
    #[must_use]
    pub fn running(self) -> Option<Running> {
        let started = self.started();
        // PAIRS: start time (the release store of `start`)
        let started_ticks = self.0.started_ticks.load(Ordering::Acquire);
        // A later record's start time comes with this record's end.
        let is_running = started > self.ended();
        is_running.then(|| Running { sequence: started - 1, started_ticks })
    }

    /// Whether a kill now would hit `sequence` and no other record. Holds only once all behind it are
    /// revoked and a heavy barrier has run.
    #[must_use]
    pub fn runs_only(self, sequence: Sequence) -> bool {
        let through = sequence.wrapping_add(1);
        self.claimed() == through && self.started() == through && self.ended() <= sequence
    }

    /// What became of a record without an answer, once the worker is known to be dead and every answer
    /// was read.
    #[must_use]
    pub fn fate_of_unanswered(self, sequence: Sequence) -> Fate {
        if sequence < self.started() { Fate::Started } else { Fate::Unstarted }
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
        let running = Running { sequence: 4, started_ticks: 77 };
        assert_eq!(line.reader().running(), Some(running));
        line.writer().end(4);
        assert_eq!(line.reader().running(), None);
    }

    #[test]
    fn a_dead_worker_s_unanswered_records_divide_at_the_last_start() {
        let line = ProgressLine::default();
        line.writer().start(4, 77);
        assert_eq!(line.reader().fate_of_unanswered(4), Fate::Started);
        assert_eq!(line.reader().fate_of_unanswered(5), Fate::Unstarted);
    }
}
