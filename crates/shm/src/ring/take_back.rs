//! Taking records back from a reader that has not claimed them.

use super::record::REVOKED;
use super::{Producer, Sequence, Words};
use crate::progress::ProgressReader;
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, HeavyBarrier, heavy};

/// What became of an attempt to take a record back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a record that was not taken back may still run"]
pub enum TakeBack {
    /// The reader will not run it: for certain.
    Taken,
    /// The reader may have claimed it before. Its answer decides: skipped, or any other.
    Undecided,
}

impl<W: Words> Producer<W> {
    /// Takes records back from the worker behind this ring, with one heavy barrier for all of them.
    ///
    /// Answers in the order asked. Records that were read already, or of which more than 4096 newer
    /// ones were written, are undecided.
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

    /// Revokes those that are still in the ring; says which.
    fn mark(&mut self, sequences: &[Sequence]) -> Vec<bool> {
        // A bad tail shows itself at the next `begin`; the old one is merely too careful.
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

    /// Where a record is, unless the reader has released it, has not been given it yet, or it is too old.
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
