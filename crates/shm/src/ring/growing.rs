//! A growing record: parts are added to it one by one, and it is committed once.
//!
//! It saves the reader a header for each part, and a load of the writer's line. No part has to wait for the commit:
//! [`Producer::grow`] returns the position after the part, and its caller publishes that position outside the ring. A
//! reader that does not wait for the commit, or whose writer has died, reads up to that position.

use super::producer::Growing;
use super::{BeginError, Consumer, Corrupt, Producer, RecordWriter, RingRecord, Sequence, Words};
use gristmill_wire::{FrameError, RECORD_HEADER_SIZE, RecordHeader, RecordKind, padded_size};

/// Size of the word in front of the parts that holds their total size in bytes.
const SIZE_WORD: u32 = 8;

impl<W: Words> Producer<W> {
    /// Begins a record with room for `room` bytes of parts, each padded to 8. The next record ends it.
    ///
    /// # Errors
    /// As [`Producer::begin`].
    pub fn begin_growing(&mut self, kind: RecordKind, room: usize) -> Result<(), BeginError> {
        let room = padded_size(room);
        let _ = self.begin(kind, 0, room + SIZE_WORD as usize)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a body is at most a quarter of a ring"
        )]
        let room = room as u32;
        self.growing = Some(Growing { kind, room, used: 0 });
        Ok(())
    }

    /// Adds a part to the growing record. Returns the position up to which the ring is written, or `None` if no record
    /// is growing or the record has no room.
    #[inline]
    pub fn grow(&mut self, part: &[u8]) -> Option<u64> {
        let Growing { kind, room, used } = self.growing?;
        let end = used as usize + padded_size(part.len());
        let end = u32::try_from(end).ok().filter(|&end| end <= room)?;
        let mut record = RecordWriter::of(self, kind, SIZE_WORD + end);
        record.bytes(SIZE_WORD + used, part);
        self.growing = Some(Growing { kind, room, used: end });
        Some(self.head + u64::from(RECORD_HEADER_SIZE + SIZE_WORD + end))
    }

    /// Commits the growing record, if there is one. A record without parts is dropped.
    #[inline]
    pub fn end_growing(&mut self) -> Option<Sequence> {
        let Growing { kind, used, .. } = self.growing.take()?;
        if used == 0 {
            return None;
        }
        let mut record = RecordWriter::of(self, kind, SIZE_WORD + used);
        record.word(0, u64::from(used));
        Some(record.commit())
    }
}

impl<'p, W: Words> RecordWriter<'p, W> {
    /// Returns the writer of a record with a body of `body` bytes. The caller has reserved the room.
    #[inline]
    fn of(producer: &'p mut Producer<W>, kind: RecordKind, body: u32) -> Self {
        let size = producer.padded(body + RECORD_HEADER_SIZE);
        Self { producer, kind, flags: 0, size }
    }
}

impl<W: Words> Consumer<W> {
    /// Returns the uncommitted record of `kind` up to `written`. Load `written` before calling this.
    ///
    /// # Errors
    /// As [`Consumer::peek`].
    pub fn peek_growing(
        &mut self,
        kind: RecordKind,
        written: u64,
    ) -> Result<Option<RingRecord<'_, W>>, Corrupt> {
        // A record that was committed before `written` was stored is seen here. If none is seen, `written` cannot belong
        // to a record after the one at the head.
        if self.peek()?.is_some() {
            self.peeked = 0;
            return Ok(None);
        }
        let size = written.saturating_sub(self.head);
        let limit = self.layout.to_end(self.head).min(self.layout.max_body() + RECORD_HEADER_SIZE);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        if size <= RECORD_HEADER_SIZE + SIZE_WORD || size > limit || !size.is_multiple_of(8) {
            return Ok(None);
        }
        let header = RecordHeader { size, kind, flags: 0, sequence: 0 };
        let (start, sequence) = (self.head / 8, self.sequence);
        Ok(Some(RingRecord { words: &self.words, start, header, sequence, is_growing: true }))
    }
}

impl<W: Words> RingRecord<'_, W> {
    /// Appends the parts of a record that grew, or is still growing, to `out`, starting at their byte `from`.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the record is shorter than the size that it states.
    pub fn append_parts(&self, from: u32, out: &mut Vec<u8>) -> Result<(), FrameError> {
        let there = self.body_size().saturating_sub(SIZE_WORD);
        let size = if self.is_growing { u64::from(there) } else { self.word(0)? };
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let rest = size.checked_sub(from).filter(|_| size <= there && from.is_multiple_of(8));
        let (needed, found) = (size.max(from) as usize, there as usize);
        let rest = rest.ok_or(FrameError::Truncated { needed, found })?;
        self.append_to(SIZE_WORD + from, rest, out)
    }
}
