//! The reading end of a ring.

use super::{Corrupt, Record, RingLayout, RingWatch, Sequence, Words};
use gristmill_sync::atomic::Ordering;
use gristmill_sync::barrier::{BarrierMode, light};
use gristmill_wire::{Kind, RecordHeader};

/// The one reader of a ring. At most one exists of each ring at any time, in any process.
#[derive(Debug)]
pub struct Consumer<W> {
    pub(super) words: W,
    pub(super) layout: RingLayout,
    /// Where the next record is, bytes since the reset.
    pub(super) head: u64,
    /// The tail that the writer can see.
    published: u64,
    /// The number of the next record.
    pub(super) sequence: Sequence,
    /// The size of the record that was looked at; 0 when none was.
    pub(super) peeked: u32,
}

/// Whether the writer can see what the reader has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "after `Published` the writer may wait for that room: see `writer_waits`"]
pub enum Tail {
    /// Nothing changed for the writer.
    Kept,
    /// The writer can use the room now.
    Published,
}

impl<W: Words> Consumer<W> {
    /// The reading end of a ring that was just reset and whose former ends are gone.
    #[must_use]
    pub fn new(words: W) -> Self {
        let layout = words.layout();
        Self { words, layout, head: 0, published: 0, sequence: 0, peeked: 0 }
    }

    /// The next record, if there is one; passes over pads.
    ///
    /// # Errors
    /// [`Corrupt`]: nothing more can be read from this ring.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record<'_, W>>, Corrupt> {
        loop {
            let word = self.words.data(self.head / 8).load(Ordering::Acquire); // PAIRS: commit
            if word == 0 {
                return Ok(None);
            }
            let header = self.validate(word)?;
            if header.kind != Kind::Pad {
                self.peeked = header.size;
                let (start, sequence) = (self.head / 8, self.sequence);
                let words = &self.words;
                return Ok(Some(Record { words, start, header, sequence, is_growing: false }));
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
        if header.kind != Kind::Pad && header.sequence != self.sequence as u16 {
            let (found, expected) = (header.sequence, self.sequence);
            return Err(Corrupt::Sequence { position, found, expected });
        }
        Ok(header)
    }

    /// Whether something is there, by one load: for loops that poll. A pad counts too.
    #[inline]
    #[must_use]
    pub fn has_record(&self) -> bool {
        self.words.data(self.head / 8).load(Ordering::Acquire) != 0 // PAIRS: commit
    }

    /// A look at the place of the next record, for other threads.
    #[must_use]
    pub fn watch(&self) -> RingWatch<W> {
        RingWatch::new(self.words.clone(), self.head / 8)
    }

    /// Goes past the record that was looked at last; does nothing when none was. Makes its room
    /// visible to the writer once an eighth of the ring has come together.
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

    /// Makes all the room that was read visible to the writer. Due before the reader sleeps.
    pub fn publish_tail(&mut self) -> Tail {
        if self.head == self.published {
            return Tail::Kept;
        }
        self.published = self.head;
        self.words.tail().store(self.head, Ordering::Release); // PAIRS: tail (`refresh_tail`)
        Tail::Published
    }

    /// Whether the writer waits for room: asked after a publication of the tail; then ring its bell.
    #[inline]
    #[must_use]
    pub fn writer_waits(&self, mode: BarrierMode) -> bool {
        light(mode); // PAIRS: room (the heavy barrier of the writer's sleep)
        self.words.room().load(Ordering::Relaxed) != 0
    }

    /// The number of the next record; also how many were read.
    #[inline]
    #[must_use]
    pub fn next_sequence(&self) -> Sequence {
        self.sequence
    }

    /// Bytes read and not yet visible to the writer.
    #[inline]
    #[must_use]
    pub fn unpublished_bytes(&self) -> u64 {
        self.head - self.published
    }
}
