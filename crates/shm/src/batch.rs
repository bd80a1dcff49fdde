//! The claims of single calls in a batch, so that calls that have not begun can be taken back from a running batch.
//!
//! The rule is the same as for the take-back of records (see `README.md` in `ring`). The worker claims a call in its
//! word, runs the light barrier and loads the client's word: if the batch is not stopped, the call has started. The
//! client stores the batch's sequence in its word, runs the heavy barrier and reads the number of claimed calls. No
//! further call will run. One word for each side is enough, because a worker runs one batch at a time.

use crate::ring::Sequence;
use gristmill_sync::atomic::{AtomicU64, Ordering};
use gristmill_sync::barrier::{BarrierMode, HeavyBarrier, heavy, light};

/// The progress of a worker in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchProgress {
    /// The low half of the batch's sequence.
    pub sequence: u32,
    /// Calls that the worker claimed.
    pub claimed: u32,
    /// Calls whose user code began.
    pub started: u32,
}

impl BatchProgress {
    /// Packs the fields. 16 bits hold each count, because a batch has at most 2^15 calls (`BATCH_MAX` in `wire`).
    const fn word(self) -> u64 {
        ((self.sequence as u64) << 32) | ((self.claimed as u64) << 16) | self.started as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    const fn from_word(word: u64) -> Self {
        let (claimed, started) = ((word >> 16) as u16, word as u16);
        Self { sequence: (word >> 32) as u32, claimed: claimed as u32, started: started as u32 }
    }
}

/// The worker's word. Zero means no batch: a batch has at least one claimed call.
#[derive(Debug, Default)]
pub struct CallWord(AtomicU64);

/// The client's word: the sequence + 1 of the batch that must start no further call.
#[derive(Debug, Default)]
pub struct StopWord(AtomicU64);

impl CallWord {
    /// Claims the call after `started` others. Returns false if the client has stopped the batch.
    #[inline]
    #[must_use = "a call that was taken back must not run"]
    pub fn begin(
        &self,
        sequence: Sequence,
        started: u32,
        stop: &StopWord,
        mode: BarrierMode,
    ) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "the low half distinguishes batches")]
        let mut progress =
            BatchProgress { sequence: sequence as u32, claimed: started + 1, started };
        self.0.store(progress.word(), Ordering::Relaxed);
        light(mode); // PAIRS: batch stop (the heavy barrier of `StopWord::stop`)
        if stop.0.load(Ordering::Relaxed) == sequence.wrapping_add(1) {
            return false;
        }
        progress.started += 1;
        self.0.store(progress.word(), Ordering::Release); // PAIRS: calls (`progress`)
        true
    }

    /// Returns the worker's progress, or `None` if it has begun no batch.
    #[must_use]
    pub fn progress(&self) -> Option<BatchProgress> {
        let word = self.0.load(Ordering::Acquire); // PAIRS: calls (`begin`)
        (word != 0).then(|| BatchProgress::from_word(word))
    }

    #[cfg(not(gristmill_loom))]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl StopWord {
    /// Stops a batch: no further call of it begins. Returns the progress of the worker, which may be in another batch.
    /// Returns `None` if the worker has begun no batch, or if the barrier failed and nothing is certain.
    pub fn stop(
        &self,
        sequence: Sequence,
        calls: &CallWord,
        mode: BarrierMode,
    ) -> Option<BatchProgress> {
        self.0.store(sequence.wrapping_add(1), Ordering::Relaxed);
        // PAIRS: batch stop (the light barrier of `CallWord::begin`)
        let is_ordered = heavy(mode) == HeavyBarrier::Done;
        calls.progress().filter(|_| is_ordered)
    }

    #[cfg(not(gristmill_loom))]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(gristmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_batch_begins_no_further_call_and_the_next_batch_does() {
        let (calls, stop) = (CallWord::default(), StopWord::default());
        assert_eq!(calls.progress(), None);
        assert!(calls.begin(6, 0, &stop, BarrierMode::Fence));
        let found = stop.stop(6, &calls, BarrierMode::Fence);
        assert_eq!(found, Some(BatchProgress { sequence: 6, claimed: 1, started: 1 }));
        assert!(!calls.begin(6, 1, &stop, BarrierMode::Fence));
        let left = Some(BatchProgress { sequence: 6, claimed: 2, started: 1 });
        assert_eq!(calls.progress(), left, "the second call was claimed and has not started");
        assert!(calls.begin(7, 0, &stop, BarrierMode::Fence));
    }
}
