//! What engines on different nodes say to each other.
//!
//! Messages follow one another in a *chunk*, which a transport moves as a whole. Each is a word with its kind and size, and
//! a body padded to 8 bytes. Both directions use the same messages: a client sends tasks to a node, and a node sends the
//! tasks that its tasks submitted, and that it has no room for, to its client. Task ids, function ids and times are the
//! sender's; an answer carries those of whoever sent the task.

mod answer;
mod blob;
mod context;
mod control;
mod greeting;
mod parted;
mod reader;
mod task;

pub use answer::{AnswerMessage, EndKind, LossFrame};
pub use blob::{BlobMessage, Piece, Shortfall};
pub use context::{ContextState, ContextTerms, Files};
pub use control::{Beat, Control, Definition};
pub use greeting::{Ask, Grant, Greeting, Role};
pub use parted::{ParentResult, ParentResults, Part, Parted};
pub use task::{TaskLimits, TaskMessage};

pub(crate) use reader::Reader;

use crate::{FrameError, padded_size};

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// Who speaks: the first one of each connection, both ways.
    Greeting = 1,
    /// A client asks for a lease.
    Ask = 2,
    /// It has it.
    Grant = 3,
    /// It does not get it, or does not have it any more: whether that is final, and text.
    Refuse = 4,
    /// Nothing more will come: text says why.
    End = 5,
    /// A sign of life, with times and load.
    Beat = 6,
    /// What a function id stands for from now on.
    Define = 7,
    /// A task to be run.
    Task = 8,
    /// How one ended.
    Answer = 9,
    /// A task is to be stopped, or not started.
    Stop = 10,
    /// So many tasks that have not started are wanted back.
    Recall = 11,
    /// Those that could be given back were.
    Recalled = 12,
    /// Nothing more is to be sent here: text says why.
    Drain = 13,
    /// A task is not to be started; it is answered, or kept.
    Withdraw = 14,
    /// A task that was to be withdrawn has started, or is over.
    Kept = 15,
    /// Nothing more will be sent there: all that was has been.
    Drained = 16,
    /// So many tasks that tasks submitted would be taken at a time.
    Want = 17,
    /// A lease is to last for so long from now on.
    Extend = 23,
    /// For how long a lease lasts from now on.
    Lasts = 24,
    /// A blob is lacked here.
    Need = 18,
    /// It is here.
    Have = 19,
    /// It is not here any more, or cannot be had: text says why.
    Dropped = 20,
    /// It is to be fetched from another node.
    Fetch = 21,
    /// Some of its bytes.
    Piece = 22,
    /// All bytes of a result have come.
    Received = 25,
    /// Where nodes fetch blobs from this one.
    Open = 26,
    /// What a context id stands for from now on.
    DefineContext = 27,
    /// No task will name it any more.
    ForgetContext = 28,
    /// What became of it so far.
    ContextState = 29,
}

impl MessageKind {
    const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Greeting,
            2 => Self::Ask,
            3 => Self::Grant,
            4 => Self::Refuse,
            5 => Self::End,
            6 => Self::Beat,
            7 => Self::Define,
            8 => Self::Task,
            9 => Self::Answer,
            10 => Self::Stop,
            11 => Self::Recall,
            12 => Self::Recalled,
            13 => Self::Drain,
            14 => Self::Withdraw,
            15 => Self::Kept,
            16 => Self::Drained,
            17 => Self::Want,
            23 => Self::Extend,
            24 => Self::Lasts,
            18 => Self::Need,
            19 => Self::Have,
            20 => Self::Dropped,
            21 => Self::Fetch,
            22 => Self::Piece,
            25 => Self::Received,
            26 => Self::Open,
            27 => Self::DefineContext,
            28 => Self::ForgetContext,
            29 => Self::ContextState,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// Bytes of the word in front of each message.
pub const MESSAGE_HEAD_SIZE: usize = 8;

/// The largest message, with its head: its size is a number of 32 bits.
pub const MESSAGE_SIZE_MAX: usize = MESSAGE_HEAD_SIZE + padded_size(u32::MAX as usize);

/// Appends a message whose body is what `fill` appends. Gives its size; it must be less than 4 GiB.
pub fn write_message(
    out: &mut Vec<u8>,
    kind: MessageKind,
    fill: impl FnOnce(&mut Vec<u8>),
) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; MESSAGE_HEAD_SIZE]);
    fill(out);
    let size = out.len() - start - MESSAGE_HEAD_SIZE;
    let word = (size as u64 & u64::from(u32::MAX)) | ((kind as u64) << 32);
    out[start..start + MESSAGE_HEAD_SIZE].copy_from_slice(&word.to_le_bytes());
    out.resize(start + MESSAGE_HEAD_SIZE + padded_size(size), 0);
    out.len() - start
}

/// The messages of a chunk, in order. After an error nothing more comes.
#[derive(Debug, Clone)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Reads a chunk.
    #[must_use]
    pub const fn new(chunk: &'a [u8]) -> Self {
        Self(chunk)
    }

    /// Bytes behind those that were read.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self) -> Result<(MessageKind, &'a [u8]), FrameError> {
        let mut reader = Reader::new(self.0);
        let word = reader.word()?;
        #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
        let (size, kind) = (word as u32, (word >> 32) as u8);
        let kind = MessageKind::from_byte(kind)?;
        let body = reader.bytes(size as usize)?;
        self.0 = reader.rest();
        Ok((kind, body))
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(MessageKind, &'a [u8]), FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.0 = &[];
        }
        Some(taken)
    }
}

/// Appends words.
#[inline]
pub(crate) fn put_words<const N: usize>(out: &mut Vec<u8>, words: [u64; N]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Appends the size of some bytes, and those, padded.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_words(out, [bytes.len() as u64]);
    out.extend_from_slice(bytes);
    out.resize(padded_size(out.len()), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_message() {
        let mut chunk = Vec::new();
        let size = write_message(&mut chunk, MessageKind::Recall, |out| put_words(out, [7]));
        write_message(&mut chunk, MessageKind::End, |out| out.extend_from_slice(b"no"));
        let golden = [
            8, 0, 0, 0, 11, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, b'n', b'o', 0,
            0, 0, 0, 0, 0,
        ];
        assert_eq!((size, chunk.as_slice()), (16, golden.as_slice()));
        let read: Vec<_> = Messages::new(&chunk).map(|one| one.expect("it decodes").0).collect();
        assert_eq!(read, [MessageKind::Recall, MessageKind::End]);
    }

    proptest! {
        #[test]
        fn any_chunk_ends_or_is_refused(bytes: Vec<u8>) {
            let count = Messages::new(&bytes).count();
            prop_assert!(count <= bytes.len() / MESSAGE_HEAD_SIZE + 1);
        }
    }
}
