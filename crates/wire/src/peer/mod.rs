//! Messages between engines on different nodes.
//!
//! Messages follow one another in a *chunk*, which a transport moves as a whole. Each message is a word with its kind and size,
//! and a body padded to 8 bytes. Both directions use the same messages. A client sends tasks to a node. A node sends its client
//! those tasks that its own tasks submitted and that it has no room for. Task ids, function ids and times are the sender's; an
//! answer carries the ids of the engine that sent the task.

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
pub use control::{Control, Definition, Heartbeat};
pub use greeting::{Greeting, LeaseGrant, LeaseRequest, Role};
pub use parted::{ParentResult, ParentResults, Part, Parted};
pub use task::{TaskLimits, TaskMessage};

pub(crate) use reader::Reader;
pub use reader::{TEXT_SIZE_MAX, text_of};

use crate::{FrameError, padded_size};

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// The identity of the sender: the first message of each connection, both ways.
    Greeting = 1,
    /// A client's request for a lease.
    LeaseRequest = 2,
    /// The grant of a lease.
    Grant = 3,
    /// The refusal of a lease, or the end of one: a flag that says whether it is final, and text.
    Refuse = 4,
    /// The last message of the sender: text gives the reason.
    End = 5,
    /// A heartbeat, with times and load.
    Heartbeat = 6,
    /// The definition of a function id, valid from now on.
    Define = 7,
    /// A task to run.
    Task = 8,
    /// The end of a task.
    Answer = 9,
    /// A request to stop a task, or not to start it.
    Stop = 10,
    /// A request to give back up to so many tasks that have not started.
    Recall = 11,
    /// The answer to a recall: all tasks that the sender could give back were given back before it.
    Recalled = 12,
    /// A request to send no more tasks: text gives the reason.
    Drain = 13,
    /// A request not to start a task. The receiver answers the task as not started, or with `Kept`.
    Withdraw = 14,
    /// A task that was to be withdrawn has started, or has ended.
    Kept = 15,
    /// The answer to a drain: the sender sends no more tasks there, and has sent all earlier ones.
    Drained = 16,
    /// The number of nested tasks that the sender would take at a time.
    Want = 17,
    /// A request that the lease last this long from now on.
    Extend = 23,
    /// The time that the lease lasts from now on.
    Lasts = 24,
    /// The sender needs a blob.
    Need = 18,
    /// The sender has all of a blob.
    Have = 19,
    /// The blob is no longer there, or is not available: text gives the reason.
    Dropped = 20,
    /// A request to fetch a blob from another node.
    Fetch = 21,
    /// Some bytes of a blob.
    Piece = 22,
    /// The notice that all bytes of a result have come.
    Received = 25,
    /// The port at which other nodes fetch blobs from the sender.
    Open = 26,
    /// The definition of a context id, valid from now on.
    DefineContext = 27,
    /// The notice that no task will name a context any more.
    ForgetContext = 28,
    /// The state of a context at the sender.
    ContextState = 29,
    /// The notice that no task will name a function id any more.
    ForgetFunction = 30,
    /// A priority below which no task may begin.
    Floor = 31,
    /// The number of workers that have nothing to do because of that floor.
    Vacant = 32,
}

impl MessageKind {
    const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            1 => Self::Greeting,
            2 => Self::LeaseRequest,
            3 => Self::Grant,
            4 => Self::Refuse,
            5 => Self::End,
            6 => Self::Heartbeat,
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
            30 => Self::ForgetFunction,
            31 => Self::Floor,
            32 => Self::Vacant,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// Bytes of the word in front of each message.
pub const MESSAGE_HEAD_SIZE: usize = 8;

/// The size of the largest message, with its head: the size of a body has 32 bits.
pub const MESSAGE_SIZE_MAX: usize = MESSAGE_HEAD_SIZE + padded_size(u32::MAX as usize);

/// The size of the largest message that an engine sends, with its head. With its padding, the size of the body fits into 32
/// bits.
pub const SENT_SIZE_MAX: usize = u32::MAX as usize;

/// Returns the kind of a message whose beginning is in `bytes`, and its size with its head.
///
/// # Errors
/// [`FrameError::Truncated`]: the head is not complete; [`FrameError::UnknownKind`].
pub fn message_of(bytes: &[u8]) -> Result<(MessageKind, usize), FrameError> {
    let (kind, size) = kind_and_size(Reader::new(bytes).word()?)?;
    Ok((kind, MESSAGE_HEAD_SIZE + padded_size(size as usize)))
}

/// Returns the kind of a message, and the size of its body, from the word in front of it.
const fn kind_and_size(word: u64) -> Result<(MessageKind, u32), FrameError> {
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    let (size, kind) = (word as u32, (word >> 32) as u8);
    match MessageKind::from_byte(kind) {
        Ok(kind) => Ok((kind, size)),
        Err(error) => Err(error),
    }
}

/// Returns the word in front of a message: the size of its body and its kind.
fn message_head(size: usize, kind: MessageKind) -> u64 {
    let size = u32::try_from(size).expect("the body of a message is smaller than 4 GiB");
    u64::from(size) | ((kind as u64) << 32)
}

/// Appends a message whose body is the bytes that `fill` appends. Returns the size of the message.
///
/// # Panics
/// If the body has 4 GiB or more: its size would be cut, and the peer would read the rest as other messages.
pub fn write_message(
    out: &mut Vec<u8>,
    kind: MessageKind,
    fill: impl FnOnce(&mut Vec<u8>),
) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; MESSAGE_HEAD_SIZE]);
    fill(out);
    let size = out.len() - start - MESSAGE_HEAD_SIZE;
    let word = message_head(size, kind);
    out[start..start + MESSAGE_HEAD_SIZE].copy_from_slice(&word.to_le_bytes());
    out.resize(start + MESSAGE_HEAD_SIZE + padded_size(size), 0);
    out.len() - start
}

/// The messages of a chunk, in order. The iterator ends after the first error.
#[derive(Debug, Clone)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Creates an iterator over the messages of a chunk.
    #[must_use]
    pub const fn new(chunk: &'a [u8]) -> Self {
        Self(chunk)
    }

    /// Returns the number of bytes not read yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self) -> Result<(MessageKind, &'a [u8]), FrameError> {
        let mut reader = Reader::new(self.0);
        let (kind, size) = kind_and_size(reader.word()?)?;
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

/// Appends the size of `bytes`, then `bytes`, padded.
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
    fn the_largest_body_has_its_whole_size_in_the_head() {
        let max = u32::MAX as usize;
        assert_eq!(message_head(max, MessageKind::Recall), 11 << 32 | u64::from(u32::MAX));
    }

    #[test]
    #[should_panic(expected = "smaller than 4 GiB")]
    fn a_body_of_4_gib_is_not_cut() {
        let _ = message_head(1 << 32, MessageKind::Recall);
    }

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
        assert_eq!(message_of(&chunk[16..24]), Ok((MessageKind::End, 16)), "with its padding");
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
