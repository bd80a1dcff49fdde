//! A look at a ring from beside its reader.

use super::Words;
use gristmill_sync::atomic::Ordering;

/// Where a reader's next record will appear: for threads that poll, or are about to sleep, without the
/// reader in their hands. Once the reader has gone past that place it says yes for nothing, and after
/// a whole lap it may say no in vain: whoever moves the reader tells those who watch.
#[derive(Debug, Clone)]
pub struct RingWatch<W> {
    words: W,
    index: u64,
}

impl<W: Words> RingWatch<W> {
    pub(super) fn new(words: W, index: u64) -> Self {
        Self { words, index }
    }

    /// Whether something is there, by one load.
    #[inline]
    #[must_use]
    pub fn has_record(&self) -> bool {
        self.words.data(self.index).load(Ordering::Acquire) != 0 // PAIRS: commit
    }
}
