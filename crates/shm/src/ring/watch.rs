//! A watch on a ring for threads other than its reader.

use super::Words;
use gristmill_sync::atomic::Ordering;

/// The index of a reader's next record, for threads that poll or are about to sleep and do not hold the reader. After
/// the reader has passed that index the watch may report a record although there is none, and after a whole lap it may
/// miss one. The thread that moves the reader must therefore notify the watchers.
#[derive(Debug, Clone)]
pub struct RingWatch<W> {
    words: W,
    index: u64,
}

impl<W: Words> RingWatch<W> {
    pub(super) fn new(words: W, index: u64) -> Self {
        Self { words, index }
    }

    /// Returns true if a record or a pad is there, by one load.
    #[inline]
    #[must_use]
    pub fn has_record(&self) -> bool {
        self.words.data(self.index).load(Ordering::Acquire) != 0 // PAIRS: commit
    }
}
