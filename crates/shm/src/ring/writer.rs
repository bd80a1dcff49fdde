//! One record being written, and the records that wait for their publication.

use super::{Producer, Sequence, Words};
use gristmill_sync::atomic::Ordering;
use gristmill_wire::{Kind, RECORD_HEADER_SIZE, RecordHeader};

/// A record between its beginning and its commit. Nothing of it is visible before.
#[derive(Debug)]
pub struct RecordWriter<'p, W> {
    pub(super) producer: &'p mut Producer<W>,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) size: u32,
}

/// A record that is written and not published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    position: u64,
    word: u64,
    sequence: Sequence,
    size: u32,
}

impl Held {
    pub(super) fn sequence(&self) -> Sequence {
        self.sequence
    }
}

impl<W: Words> RecordWriter<'_, W> {
    /// The number that the record will have.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.producer.sequence
    }

    /// Writes one word of the body.
    ///
    /// # Panics
    /// Beyond the body.
    #[inline]
    pub fn word(&mut self, index: u32, value: u64) {
        assert!(index < body_words(self.size), "word {index} is beyond the record");
        self.body(index).store(value, Ordering::Relaxed);
    }

    /// Writes words from `index` on.
    ///
    /// # Panics
    /// Beyond the body.
    #[inline]
    pub fn words(&mut self, index: u32, values: &[u64]) {
        let room = (body_words(self.size) as usize).checked_sub(index as usize);
        assert!(room.is_some_and(|room| values.len() <= room), "words beyond the record");
        for (place, &value) in (index..).zip(values) {
            self.body(place).store(value, Ordering::Relaxed);
        }
    }

    /// Writes bytes from `offset` on, a multiple of 8; fills the last word up with zeroes.
    ///
    /// # Panics
    /// Beyond the body, or at another offset.
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

    /// Publishes the record, and all held ones before it.
    #[inline]
    pub fn commit(self) -> Sequence {
        if !self.producer.held.is_empty() {
            self.producer.publish();
        }
        let (position, word) = (self.producer.head, self.header().word());
        let producer = self.producer;
        producer.words.data(position / 8 + 1).store(0, Ordering::Relaxed);
        let sequence = producer.finish(self.size);
        producer.words.data(position / 8).store(word, Ordering::Release); // PAIRS: commit (`peek`)
        sequence
    }

    /// Finishes the record but withholds its publication until [`Producer::publish`].
    ///
    /// Its header goes where the revoked word is, so that a reader finds it if the writer dies first.
    #[inline]
    pub fn commit_held(self) -> Sequence {
        let (position, word) = (self.producer.head, self.header().word());
        let (producer, size) = (self.producer, self.size);
        producer.words.data(position / 8 + 1).store(word, Ordering::Relaxed);
        let sequence = producer.finish(size);
        producer.held.push(Held { position, word, sequence, size });
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

/// Words of a record's body.
#[inline]
fn body_words(size: u32) -> u32 {
    (size - RECORD_HEADER_SIZE) / 8
}

/// A held record that is about to be published.
#[derive(Debug)]
pub struct HeldRecord<'p, W> {
    words: &'p W,
    held: Held,
}

impl<W: Words> HeldRecord<'_, W> {
    /// Which record.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.held.sequence
    }

    /// Overwrites one word of its body.
    ///
    /// # Panics
    /// Beyond the body.
    #[inline]
    pub fn set_word(&mut self, index: u32, value: u64) {
        assert!(index < body_words(self.held.size), "word {index} is beyond the record");
        let index = self.held.position / 8 + 2 + u64::from(index);
        self.words.data(index).store(value, Ordering::Relaxed);
    }
}

impl<W: Words> Producer<W> {
    /// Publishes all held records, oldest first.
    pub fn publish(&mut self) {
        self.publish_with(|_| {});
    }

    /// Publishes all held records, oldest first; `patch` may change words of each before.
    pub fn publish_with(&mut self, mut patch: impl FnMut(&mut HeldRecord<'_, W>)) {
        for &held in &self.held {
            patch(&mut HeldRecord { words: &self.words, held });
            let commit = self.words.data(held.position / 8);
            commit.store(held.word, Ordering::Release); // PAIRS: commit (`peek`)
        }
        self.held.clear();
    }

    /// How many records are held.
    #[inline]
    #[must_use]
    pub fn held_count(&self) -> usize {
        self.held.len()
    }
}
