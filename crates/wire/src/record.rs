//! The header in front of every record of a ring.

use crate::FrameError;

/// Bytes in front of each record: the commit word and the revoked word.
pub const RECORD_HEADER_SIZE: u32 = 16;
/// Every record starts at, and spans, a multiple of this many bytes.
pub const RECORD_ALIGN: u32 = 8;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// Filler at the end of the ring, so that no record straddles it; has no sequence.
    Pad = 1,
    /// To a worker: one task.
    Task = 2,
    /// To a worker: the definition of a function id, sent before its first task. With flag 1 the definition is in an arena
    /// block, whose offset and size follow.
    Define = 3,
    /// To a worker: a function id will not be used again.
    Forget = 4,
    /// To a worker: the outcome of a task it submitted itself.
    Reply = 5,
    /// To a worker: blocks of its part of the arena that the client has finished with. The body is their count and an offset
    /// each.
    Release = 6,
    /// To a worker: no further records follow, and the worker must leave.
    Stop = 7,
    /// From a worker: the answer to one task.
    Answer = 16,
    /// From a worker: the running task submits another.
    Request = 17,
    /// From a worker: the running task begins to wait for a task it submitted, or has stopped waiting.
    Wait = 18,
    /// From a worker: the worker is up, and its initializer has returned or raised.
    Ready = 19,
    /// From a worker: arena blocks of its task that it goes on using after the task. The body is their count and an offset
    /// each.
    Keep = 20,
    /// From a worker: kept arena blocks that it has finished with. The body is their count and an offset each.
    Return = 21,
    /// From a worker: the results of the next calls of the running batch.
    Results = 22,
    /// From a worker that was asked to leave: it no longer uses its rings, and its process ends by itself.
    Left = 23,
}

impl RecordKind {
    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Pad,
            2 => Self::Task,
            3 => Self::Define,
            4 => Self::Forget,
            5 => Self::Reply,
            6 => Self::Release,
            7 => Self::Stop,
            16 => Self::Answer,
            17 => Self::Request,
            18 => Self::Wait,
            19 => Self::Ready,
            20 => Self::Keep,
            21 => Self::Return,
            22 => Self::Results,
            23 => Self::Left,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// The commit word of a record: publishing it publishes the record. The word 0 means "not written yet".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes from this header to the next, header included.
    pub size: u32,
    /// The kind of the record.
    pub kind: RecordKind,
    /// Flags; each kind defines their meaning.
    pub flags: u8,
    /// The low bits of the record's sequence. The reader keeps its own count and uses them as a check only.
    pub sequence: u16,
}

impl RecordHeader {
    /// Packs the header. The word is never 0, because a size is at least 16.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.size as u64
            | ((self.kind as u64) << 32)
            | ((self.flags as u64) << 40)
            | ((self.sequence as u64) << 48)
    }

    /// Unpacks and validates a non-zero commit word.
    ///
    /// # Errors
    /// [`FrameError::BadSize`] if the size is impossible (`limit`: the bytes from here to the end of the ring),
    /// [`FrameError::UnknownKind`]. Do not retry after either: the ring is corrupt.
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub fn from_word(word: u64, limit: u32) -> Result<Self, FrameError> {
        let size = word as u32;
        if size < RECORD_HEADER_SIZE || !size.is_multiple_of(RECORD_ALIGN) || size > limit {
            return Err(FrameError::BadSize { size, limit });
        }
        Ok(Self {
            size,
            kind: RecordKind::from_byte((word >> 32) as u8)?,
            flags: (word >> 40) as u8,
            sequence: (word >> 48) as u16,
        })
    }
}

/// Rounds a number of bytes up to the alignment of records.
#[must_use]
pub const fn padded_size(size: usize) -> usize {
    size.next_multiple_of(RECORD_ALIGN as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_word() {
        let header = RecordHeader { size: 48, kind: RecordKind::Task, flags: 3, sequence: 0x1234 };
        assert_eq!(header.word().to_le_bytes(), [48, 0, 0, 0, 2, 3, 0x34, 0x12]);
    }

    #[test]
    fn rejects_what_no_writer_writes() {
        let good = RecordHeader { size: 64, kind: RecordKind::Answer, flags: 0, sequence: 0 };
        assert_eq!(RecordHeader::from_word(good.word(), 64), Ok(good));
        let limit = FrameError::BadSize { size: 64, limit: 56 };
        assert_eq!(RecordHeader::from_word(good.word(), 56), Err(limit));
        assert!(RecordHeader::from_word((2 << 32) | 20, 64).is_err(), "not a multiple of 8");
        assert!(RecordHeader::from_word((2 << 32) | 8, 64).is_err(), "smaller than a header");
        assert_eq!(RecordHeader::from_word((99 << 32) | 16, 64), Err(FrameError::UnknownKind(99)));
    }

    proptest! {
        #[test]
        fn any_word_decodes_to_itself_or_is_refused(word: u64, limit in 16u32..1 << 20) {
            if let Ok(header) = RecordHeader::from_word(word, limit) {
                prop_assert_eq!(header.word(), word);
                prop_assert!(header.size <= limit);
            }
        }
    }
}
