//! A growing record: parts are added to it one by one, and it is committed once.
//!
//! It saves its reader a header, and a look at the writer's line, for each part. Nothing in it waits for the commit: the
//! writer says after each part how far it has come, and a reader that will not wait, or whose writer has died, reads up to
//! there.

use super::{BeginError, Consumer, Corrupt, Producer, Record, RecordWriter, Sequence, Words};
use gristmill_wire::{FrameError, Kind, RECORD_HEADER_SIZE, RecordHeader, padded_size};

/// In front of the parts: how many bytes of them there are.
const SIZE_WORD: u32 = 8;

/// The record that grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growing {
    kind: Kind,
    /// Bytes that parts may take.
    room: u32,
    /// Bytes that they take.
    used: u32,
}

impl<W: Words> Producer<W> {
    /// Begins a record with room for `room` bytes of parts, each padded to 8. The next record ends it.
    ///
    /// # Errors
    /// As [`Producer::begin`].
    pub fn begin_growing(&mut self, kind: Kind, room: usize) -> Result<(), BeginError> {
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

    /// Adds a part to the record that grows; gives the position up to which the ring is written. `None`: no record grows, or
    /// this one has no room.
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

    /// Commits the record that grows, if one does; one without parts leaves no trace.
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
    /// A record with a body of `body` bytes, for which there is room.
    #[inline]
    fn of(producer: &'p mut Producer<W>, kind: Kind, body: u32) -> Self {
        let size = producer.padded(body + RECORD_HEADER_SIZE);
        Self { producer, kind, flags: 0, size }
    }
}

impl<W: Words> Consumer<W> {
    /// What is there of a record of a `kind` that still grows, as far as `written` says, which must have been read before.
    ///
    /// # Errors
    /// As [`Consumer::peek`].
    pub fn peek_growing(
        &mut self,
        kind: Kind,
        written: u64,
    ) -> Result<Option<Record<'_, W>>, Corrupt> {
        // A record that was committed before `written` was stored is seen here: the position is of what comes behind it.
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
        Ok(Some(Record { words: &self.words, start, header, sequence, is_growing: true }))
    }
}

impl<W: Words> Record<'_, W> {
    /// Appends the parts of a record that grew, or still grows, from their byte `from` on to `out`.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] when there are fewer bytes than it says.
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
