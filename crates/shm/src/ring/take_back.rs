//! Take-back of records that the reader has not claimed.

use super::record::REVOKED;
use super::{Producer, Sequence, Words};
use crate::progress::ProgressReader;
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, HeavyBarrier, heavy};

/// The result of an attempt to take a record back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a record that was not taken back may still run"]
pub enum TakeBack {
    /// The reader is certain not to run the record.
    Taken,
    /// The reader may have claimed the record first. Its answer decides: skipped or any other.
    Undecided,
}

impl<W: Words> Producer<W> {
    /// Takes records back from the worker that reads this ring, with one heavy barrier for all of them.
    ///
    /// The results have the order of `sequences`. A record that the worker has already released, or after which more
    /// than 4096 newer ones were written, is undecided.
    #[must_use]
    pub fn take_back(
        &mut self,
        sequences: &[Sequence],
        progress: ProgressReader<'_>,
        mode: BarrierMode,
    ) -> Vec<(Sequence, TakeBack)> {
        let marked: Vec<bool> = self.mark(sequences);
        // PAIRS: take-back (the light barrier of the worker's claim)
        let is_ordered = heavy(mode) == HeavyBarrier::Done;
        let claimed = progress.claimed();
        let outcome = |(&sequence, was_marked): (&Sequence, bool)| {
            let is_taken = was_marked && is_ordered && claimed <= sequence;
            (sequence, if is_taken { TakeBack::Taken } else { TakeBack::Undecided })
        };
        sequences.iter().zip(marked).map(outcome).collect()
    }

    /// Revokes the records that are still in the ring. Returns a flag for each of `sequences`.
    fn mark(&mut self, sequences: &[Sequence]) -> Vec<bool> {
        // The next `begin` reports a bad tail. With the old tail more records count as unread, which is safe.
        let _ = self.free_bytes();
        let revoke = |&sequence: &Sequence| {
            let position = self.position_of(sequence);
            if let Some(position) = position {
                // PAIRS: take-back (barriers)
                self.words.data(position / 8 + 1).store(REVOKED, Ordering::Relaxed);
            }
            position.is_some()
        };
        sequences.iter().map(revoke).collect()
    }

    /// Returns the position of a record, unless the reader has released it, it is not written yet, or it is too old.
    #[expect(clippy::cast_possible_truncation, reason = "masked to the length right away")]
    fn position_of(&self, sequence: Sequence) -> Option<u64> {
        let age = self.sequence.checked_sub(sequence)?;
        if age == 0 || age > self.positions.len() as u64 {
            return None;
        }
        let position = self.positions[sequence as usize & (self.positions.len() - 1)];
        (position >= self.tail).then_some(position)
    }
}
