//! The writing end of a ring.

mod writer;

pub use writer::RecordWriter;

use super::{BeginError, RingLayout, Sequence, Words};
use gristmill_sync::atomic::Ordering;
use gristmill_wire::{RECORD_HEADER_SIZE, RecordHeader, RecordKind, padded_size};

/// Maximum number of recent records that can be taken back. No worker ever has as many unread records. Older records
/// stay with the worker, which answers them anyway.
const REMEMBERED_LIMIT: usize = 4096;
const HEADER: u64 = RECORD_HEADER_SIZE as u64;

/// The one writer of a ring. At any time at most one exists for each ring, over all processes.
#[derive(Debug)]
pub struct Producer<W> {
    pub(super) words: W,
    pub(super) layout: RingLayout,
    /// Position of the next record, bytes since the reset.
    pub(super) head: u64,
    /// The reader's tail at its last load.
    pub(super) tail: u64,
    /// The number of the next record.
    pub(super) sequence: Sequence,
    pub(super) growing: Option<Growing>,
    /// Positions of the latest records, indexed by the low bits of their sequence.
    pub(super) positions: Box<[u64]>,
    #[cfg(gristmill_loom)]
    pub(super) skip_zeroing: bool,
}

/// The record that is growing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growing {
    pub(super) kind: RecordKind,
    /// Bytes that the parts may take.
    pub(super) room: u32,
    /// Bytes that the parts take.
    pub(super) used: u32,
}

impl<W: Words> Producer<W> {
    /// Creates the writing end of a ring that was just reset and whose former ends are gone.
    #[must_use]
    pub fn new(words: W) -> Self {
        let layout = words.layout();
        let remembered = (layout.capacity() / RECORD_HEADER_SIZE) as usize;
        Self {
            words,
            layout,
            head: 0,
            tail: 0,
            sequence: 0,
            growing: None,
            positions: vec![0; remembered.min(REMEMBERED_LIMIT)].into(),
            #[cfg(gristmill_loom)]
            skip_zeroing: false,
        }
    }

    /// Stops zeroing the next header, so that a model can show why the rule is needed.
    #[cfg(gristmill_loom)]
    pub fn skip_zeroing(&mut self) {
        self.skip_zeroing = true;
    }

    /// Begins a record with a body of `body_size` bytes. Dropping the returned writer abandons the record. Ends a
    /// growing record first.
    ///
    /// # Errors
    /// [`BeginError::Full`] until the reader makes room (worth a retry), [`BeginError::TooLarge`],
    /// [`BeginError::BadTail`].
    #[inline]
    pub fn begin(
        &mut self,
        kind: RecordKind,
        flags: u8,
        body_size: usize,
    ) -> Result<RecordWriter<'_, W>, BeginError> {
        if self.growing.is_some() {
            self.end_growing();
        }
        let limit = self.layout.max_body();
        if body_size > limit as usize {
            return Err(BeginError::TooLarge { size: body_size, limit });
        }
        let (pad, size) = self.place(body_size);
        self.reserve(pad, size)?;
        if pad > 0 {
            self.write_pad(pad);
        }
        Ok(RecordWriter { producer: self, kind, flags, size })
    }

    /// Returns the size of the pad in front of a record, and the record's size with its header.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a body is at most a quarter of a ring")]
    fn place(&self, body_size: usize) -> (u32, u32) {
        let size = padded_size(body_size) as u32 + RECORD_HEADER_SIZE;
        let to_end = self.layout.to_end(self.head);
        if size > to_end {
            return (to_end, size);
        }
        (0, self.padded(size))
    }

    /// Returns the size of a record at the head. If it would leave 8 bytes at the end of the ring, too few for a pad's
    /// header, the record takes them.
    #[inline]
    pub(super) fn padded(&self, size: u32) -> u32 {
        let to_end = self.layout.to_end(self.head);
        if to_end - size == 8 { to_end } else { size }
    }

    /// Checks that the pad, the record and the next header fit.
    #[inline]
    fn reserve(&mut self, pad: u32, size: u32) -> Result<(), BeginError> {
        let end = self.head + u64::from(pad) + u64::from(size) + HEADER;
        if end - self.tail <= u64::from(self.layout.capacity()) {
            return Ok(());
        }
        self.refresh_tail()?;
        if end - self.tail <= u64::from(self.layout.capacity()) {
            return Ok(());
        }
        Err(BeginError::Full { size: pad + size, free: self.free() })
    }

    #[cold]
    fn refresh_tail(&mut self) -> Result<(), BeginError> {
        let found = self.words.tail().load(Ordering::Acquire); // PAIRS: tail (`publish_tail`)
        if found < self.tail || found > self.head {
            return Err(BeginError::BadTail { found, oldest: self.tail, newest: self.head });
        }
        self.tail = found;
        Ok(())
    }

    /// Fills the end of the ring with a pad.
    #[cold]
    fn write_pad(&mut self, size: u32) {
        let header = RecordHeader { size, kind: RecordKind::Pad, flags: 0, sequence: 0 };
        let start = self.head;
        self.head += u64::from(size);
        self.zero_next_header();
        self.words.data(start / 8).store(header.word(), Ordering::Release); // PAIRS: commit (`peek`)
    }

    /// Marks the next header as unwritten: the previous lap left its bytes there.
    #[inline]
    pub(super) fn zero_next_header(&self) {
        #[cfg(gristmill_loom)]
        if self.skip_zeroing {
            return;
        }
        self.words.data(self.head / 8).store(0, Ordering::Relaxed);
    }

    fn free(&self) -> u32 {
        let used = self.head - self.tail;
        self.layout.capacity() - u32::try_from(used).unwrap_or(self.layout.capacity())
    }

    /// Reloads the reader's tail and returns the bytes that the reader has released, including headers and pads.
    pub fn free_bytes(&mut self) -> u32 {
        // A bad tail is reported by the next `begin` that needs room.
        let _ = self.refresh_tail();
        self.free()
    }

    /// Returns true if a body of `body_size` bytes fits now; reloads the reader's tail. A writer calls it between
    /// raising its flag and sleeping. Also returns true if waiting cannot help: `begin` returns the error.
    pub fn has_room(&mut self, body_size: usize) -> bool {
        let waits = body_size <= self.layout.max_body() as usize && {
            let (pad, size) = self.place(body_size);
            matches!(self.reserve(pad, size), Err(BeginError::Full { .. }))
        };
        !waits
    }

    /// Tells the reader whether the writer waits for room. The writer raises the flag before it sleeps on the bell that
    /// the reader rings, and lowers it afterwards.
    pub fn want_room(&self, wanted: bool) {
        self.words.room().store(u64::from(wanted), Ordering::Relaxed); // PAIRS: room (barriers)
    }

    /// Returns the size of the largest record body, bytes.
    #[inline]
    #[must_use]
    pub fn max_body(&self) -> u32 {
        self.layout.max_body()
    }

    /// Returns the number that the next record gets, which is also the count of records written.
    #[inline]
    #[must_use]
    pub fn next_sequence(&self) -> Sequence {
        self.sequence
    }

    /// Numbers the record that was just written and remembers its position.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to the length right away")]
    pub(super) fn finish(&mut self, size: u32) -> Sequence {
        let sequence = self.sequence;
        let index = sequence as usize & (self.positions.len() - 1);
        self.positions[index] = self.head;
        self.sequence = sequence + 1;
        self.head += u64::from(size);
        self.zero_next_header();
        sequence
    }
}
