//! The reading end of a ring.

use super::{Corrupt, RingLayout, RingRecord, RingWatch, Sequence, Words};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, light};
use gristmill_wire::{RecordHeader, RecordKind};

/// The one reader of a ring. At any time at most one exists for each ring, over all processes.
#[derive(Debug)]
pub struct Consumer<W> {
    pub(super) words: W,
    pub(super) layout: RingLayout,
    /// Position of the next record, bytes since the reset.
    pub(super) head: u64,
    /// The read position that was published last (the ring's tail).
    published: u64,
    /// The number of the next record.
    pub(super) sequence: Sequence,
    /// The size of the record that [`Consumer::peek`] returned last, bytes; 0 if there is none to consume.
    pub(super) peeked: u32,
}

/// The effect of an operation on the ring's tail, the read position that the writer sees. The writer can reuse the room
/// of the records before the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "after `Published` the writer may wait for that room: see `writer_waits`"]
pub enum Tail {
    /// The operation did not publish the tail: the writer sees no change.
    Kept,
    /// The operation published the tail: the writer can reuse the room now.
    Published,
}

impl<W: Words> Consumer<W> {
    /// Creates the reading end of a ring that was just reset and whose former ends are gone.
    #[must_use]
    pub fn new(words: W) -> Self {
        let layout = words.layout();
        Self { words, layout, head: 0, published: 0, sequence: 0, peeked: 0 }
    }

    /// Returns the next record, if there is one; skips pads.
    ///
    /// # Errors
    /// [`Corrupt`]: nothing more can be read from this ring.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<RingRecord<'_, W>>, Corrupt> {
        loop {
            let word = self.words.data(self.head / 8).load(Ordering::Acquire); // PAIRS: commit
            if word == 0 {
                return Ok(None);
            }
            let header = self.validate(word)?;
            if header.kind != RecordKind::Pad {
                self.peeked = header.size;
                let (start, sequence) = (self.head / 8, self.sequence);
                let words = &self.words;
                return Ok(Some(RingRecord { words, start, header, sequence, is_growing: false }));
            }
            self.head += u64::from(header.size);
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a header has the low bits only")]
    fn validate(&self, word: u64) -> Result<RecordHeader, Corrupt> {
        let position = self.head;
        let header = RecordHeader::from_word(word, self.layout.to_end(position))
            .map_err(|source| Corrupt::Header { position, source })?;
        let end = position + u64::from(header.size);
        if end - self.published > u64::from(self.layout.capacity()) {
            return Err(Corrupt::Overrun { position, end });
        }
        if header.kind != RecordKind::Pad && header.sequence != self.sequence as u16 {
            let (found, expected) = (header.sequence, self.sequence);
            return Err(Corrupt::Sequence { position, found, expected });
        }
        Ok(header)
    }

    /// Returns true if the next record or a pad is there. Costs one load, for loops that poll.
    #[inline]
    #[must_use]
    pub fn has_record(&self) -> bool {
        self.words.data(self.head / 8).load(Ordering::Acquire) != 0 // PAIRS: commit
    }

    /// Returns a handle with which other threads can watch for the next record.
    #[must_use]
    pub fn watch(&self) -> RingWatch<W> {
        RingWatch::new(self.words.clone(), self.head / 8)
    }

    /// Consumes the record that was peeked last; does nothing if there is none. Publishes the tail to the writer after
    /// each eighth of the ring.
    #[inline]
    pub fn consume(&mut self) -> Tail {
        if self.peeked == 0 {
            return Tail::Kept;
        }
        self.head += u64::from(self.peeked);
        self.sequence += 1;
        self.peeked = 0;
        if self.head - self.published < self.layout.tail_stride() {
            return Tail::Kept;
        }
        self.publish_tail()
    }

    /// Publishes to the writer the room of all records that were read. The reader must call it before it sleeps.
    pub fn publish_tail(&mut self) -> Tail {
        if self.head == self.published {
            return Tail::Kept;
        }
        self.published = self.head;
        self.words.tail().store(self.head, Ordering::Release); // PAIRS: tail (`refresh_tail`)
        Tail::Published
    }

    /// Returns true if the writer waits for room. Call it after publishing the tail, and ring the writer's bell if it
    /// is true.
    #[inline]
    #[must_use]
    pub fn writer_waits(&self, mode: BarrierMode) -> bool {
        light(mode); // PAIRS: room (the heavy barrier of the writer's sleep)
        self.words.room().load(Ordering::Relaxed) != 0
    }

    /// Returns the number of the next record, which is also the count of records read.
    #[inline]
    #[must_use]
    pub fn next_sequence(&self) -> Sequence {
        self.sequence
    }

    /// Returns the number of bytes that were read and whose room is not yet published to the writer.
    #[inline]
    #[must_use]
    pub fn unpublished_bytes(&self) -> u64 {
        self.head - self.published
    }
}
