//! A record that is being written.

use super::Producer;
use crate::ring::{Sequence, Words};
use gristmill_sync::atomic::Ordering;
use gristmill_wire::{RECORD_HEADER_SIZE, RecordHeader, RecordKind};

/// A record between its beginning and its commit. It is invisible to the reader before the commit.
#[derive(Debug)]
pub struct RecordWriter<'p, W> {
    pub(in crate::ring) producer: &'p mut Producer<W>,
    pub(in crate::ring) kind: RecordKind,
    pub(in crate::ring) flags: u8,
    pub(in crate::ring) size: u32,
}

impl<W: Words> RecordWriter<'_, W> {
    /// Returns the number that the record will have.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.producer.sequence
    }

    /// Writes one word of the body.
    ///
    /// # Panics
    /// If `index` is beyond the body.
    #[inline]
    pub fn word(&mut self, index: u32, value: u64) {
        assert!(index < body_words(self.size), "word {index} is beyond the record");
        self.body(index).store(value, Ordering::Relaxed);
    }

    /// Writes words of the body, starting at word `index`.
    ///
    /// # Panics
    /// If the words reach beyond the body.
    #[inline]
    pub fn words(&mut self, index: u32, values: &[u64]) {
        let room = (body_words(self.size) as usize).checked_sub(index as usize);
        assert!(room.is_some_and(|room| values.len() <= room), "words beyond the record");
        for (place, &value) in (index..).zip(values) {
            self.body(place).store(value, Ordering::Relaxed);
        }
    }

    /// Writes bytes of the body, starting at `offset`, a multiple of 8. Fills the last word up with zeroes.
    ///
    /// # Panics
    /// If the bytes reach beyond the body, or if `offset` is not a multiple of 8.
    #[inline]
    pub fn bytes(&mut self, offset: u32, bytes: &[u8]) {
        assert!(offset.is_multiple_of(8), "offset {offset} is not a multiple of 8");
        let room = (body_words(self.size) as usize * 8).checked_sub(offset as usize);
        assert!(room.is_some_and(|room| bytes.len() <= room), "bytes beyond the record");
        let (whole, rest) = bytes.as_chunks::<8>();
        let mut index = offset / 8;
        for chunk in whole {
            self.body(index).store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            index += 1;
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.body(index).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
    }

    /// Publishes the record. Returns its number.
    #[inline]
    pub fn commit(self) -> Sequence {
        let (position, word) = (self.producer.head, self.header().word());
        let producer = self.producer;
        producer.words.data(position / 8 + 1).store(0, Ordering::Relaxed);
        let sequence = producer.finish(self.size);
        producer.words.data(position / 8).store(word, Ordering::Release); // PAIRS: commit (`peek`)
        sequence
    }

    #[expect(clippy::cast_possible_truncation, reason = "a header has the low bits only")]
    #[inline]
    fn header(&self) -> RecordHeader {
        let sequence = self.producer.sequence as u16;
        RecordHeader { size: self.size, kind: self.kind, flags: self.flags, sequence }
    }

    #[inline]
    fn body(&self, index: u32) -> &gristmill_sync::atomic::AtomicU64 {
        self.producer.words.data(self.producer.head / 8 + 2 + u64::from(index))
    }
}

/// Returns the number of body words of a record of `size` bytes.
#[inline]
fn body_words(size: u32) -> u32 {
    (size - RECORD_HEADER_SIZE) / 8
}
