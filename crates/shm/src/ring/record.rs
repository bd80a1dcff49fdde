//! A record from its reader's point of view.

use super::{Sequence, Words};
use gristmill_sync::atomic::Ordering;
use gristmill_wire::{FrameError, RECORD_HEADER_SIZE, RecordHeader};

/// The value that a writer stores in the second word of a header to take the record back.
pub(super) const REVOKED: u64 = 1;

/// A record in place. Its header was copied out and validated. Its body is read word by word, and the header's size
/// bounds every read.
#[derive(Debug)]
pub struct RingRecord<'c, W> {
    pub(super) words: &'c W,
    /// Index of the record's first word.
    pub(super) start: u64,
    pub(super) header: RecordHeader,
    pub(super) sequence: Sequence,
    /// True if the record is not committed; its size is the part written so far.
    pub(super) is_growing: bool,
}

impl<W: Words> RingRecord<'_, W> {
    /// Returns the record's header.
    #[inline]
    #[must_use]
    pub fn header(&self) -> RecordHeader {
        self.header
    }

    /// Returns the record's number, as the reader counts.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the size of the body, bytes: the size that the writer requested, rounded up to a multiple of 8, plus 8
    /// if exactly 8 bytes would be left at the end of the ring.
    #[inline]
    #[must_use]
    pub fn body_size(&self) -> u32 {
        self.header.size - RECORD_HEADER_SIZE
    }

    /// Returns true if the writer has taken the record back. The result is useful only after the record was claimed.
    #[inline]
    #[must_use]
    pub fn revoked(&self) -> bool {
        // PAIRS: take-back (barriers)
        self.words.data(self.start + 1).load(Ordering::Relaxed) == REVOKED
    }

    /// Returns one word of the body.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] beyond the body.
    #[inline]
    pub fn word(&self, index: u32) -> Result<u64, FrameError> {
        let [word] = self.words(index)?;
        Ok(word)
    }

    /// Returns `N` words of the body, starting at word `index`.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] beyond the body.
    #[inline]
    pub fn words<const N: usize>(&self, index: u32) -> Result<[u64; N], FrameError> {
        self.check(index as usize * 8, N * 8)?;
        let first = self.start + 2 + u64::from(index);
        let mut values = [0; N];
        for (place, value) in (first..).zip(&mut values) {
            *value = self.words.data(place).load(Ordering::Relaxed);
        }
        Ok(values)
    }

    /// Returns the words after the first one, which holds their count.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the count is larger than the body.
    pub fn counted_words(&self) -> Result<Vec<u64>, FrameError> {
        let count = u32::try_from(self.word(0)?).unwrap_or(u32::MAX);
        if count >= self.body_size() / 8 {
            let (needed, found) = (count as usize * 8 + 8, self.body_size() as usize);
            return Err(FrameError::Truncated { needed, found });
        }
        (1..=count).map(|place| self.word(place)).collect()
    }

    /// Fills `out` with bytes of the body, starting at `offset`.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] beyond the body; `out` is unchanged then.
    pub fn read(&self, offset: u32, out: &mut [u8]) -> Result<(), FrameError> {
        self.check(offset as usize, out.len())?;
        let mut place = self.start + 2 + u64::from(offset / 8);
        let mut rest = out;
        let skipped = offset as usize % 8;
        if skipped > 0 {
            let word = self.words.data(place).load(Ordering::Relaxed).to_le_bytes();
            let (first, behind) = rest.split_at_mut(rest.len().min(8 - skipped));
            first.copy_from_slice(&word[skipped..skipped + first.len()]);
            (place, rest) = (place + 1, behind);
        }
        let (whole, last) = rest.as_chunks_mut::<8>();
        for chunk in whole {
            *chunk = self.words.data(place).load(Ordering::Relaxed).to_le_bytes();
            place += 1;
        }
        if !last.is_empty() {
            let word = self.words.data(place).load(Ordering::Relaxed).to_le_bytes();
            last.copy_from_slice(&word[..last.len()]);
        }
        Ok(())
    }

    /// Appends `size` bytes of the body, starting at `offset`, to `out`.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] beyond the body; `out` is unchanged then.
    pub fn append_to(&self, offset: u32, size: u32, out: &mut Vec<u8>) -> Result<(), FrameError> {
        self.check(offset as usize, size as usize)?;
        let old = out.len();
        out.resize(old + size as usize, 0);
        self.read(offset, &mut out[old..])
    }

    #[inline]
    fn check(&self, offset: usize, size: usize) -> Result<(), FrameError> {
        let found = self.body_size() as usize;
        let needed = offset.saturating_add(size);
        if needed > found { Err(FrameError::Truncated { needed, found }) } else { Ok(()) }
    }
}
