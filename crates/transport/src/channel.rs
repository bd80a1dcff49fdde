//! The interface of a channel, for every kind of carrier.

use std::os::fd::BorrowedFd;

use crate::chunk::ChunkHead;
use crate::error::ChannelError;
use crate::sleeper::Interest;

/// The result of a flush: the part of the outbound bytes that the system has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flushed {
    /// Everything.
    All,
    /// A part. The descriptor becomes writable when there is room again.
    Some,
}

/// One end of a connection that moves chunks in both directions, in order. No call blocks. One thread at a time may use an end.
///
/// Dropping an end abandons the connection. To close it in order, call [`Channel::close`], then [`Channel::flush`] until
/// everything is taken, then [`Channel::receive`] until the other end has closed as well.
pub trait Channel {
    /// Queues a copy of a chunk. It leaves with [`Channel::flush`], or earlier if much is queued. The queue has no limit: the
    /// caller must watch [`Channel::unsent`].
    ///
    /// # Errors
    /// The body is too large, and nothing else has changed; or the connection has ended.
    ///
    /// # Panics
    /// If this end was closed.
    fn send(&mut self, head: ChunkHead, body: &[u8]) -> Result<(), ChannelError>;

    /// Hands queued bytes to the system, up to what it takes.
    ///
    /// # Errors
    /// The connection has ended.
    fn flush(&mut self) -> Result<Flushed, ChannelError>;

    /// Returns the head of the next chunk and replaces the content of `body` with its body. `None` means that no chunk is
    /// there; the descriptor becomes readable when more bytes come.
    ///
    /// # Errors
    /// The connection has ended. Later calls return the same error. After an orderly close, all chunks were delivered before
    /// the error. Otherwise some chunks that came just before the end may be missing.
    fn receive(&mut self, body: &mut Vec<u8>) -> Result<Option<ChunkHead>, ChannelError>;

    /// Announces that this end sends nothing more. The other end learns it after everything sent before has arrived. Needs a
    /// flush.
    fn close(&mut self);

    /// Ends the connection at once, as the death of this process would. The other end sees a loss, and bytes that were not
    /// flushed are gone.
    fn abandon(self)
    where
        Self: Sized,
    {
        drop(self);
    }

    /// Returns the number of bytes of chunks that the system has not taken.
    fn unsent(&self) -> usize;

    /// Returns true if [`Channel::flush`] has something to do.
    fn wants_write(&self) -> bool;

    /// Returns the descriptor to watch.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Returns the events to watch the descriptor for.
    fn interest(&self) -> Interest {
        if self.wants_write() { Interest::Both } else { Interest::Readable }
    }

    /// Returns the address of the other end, for messages.
    fn peer(&self) -> &str;

    /// Returns the number of bytes that the system has taken, with all framing around chunks.
    fn sent_bytes(&self) -> u64;

    /// Returns the number of bytes that the system has delivered, with all framing around chunks.
    fn received_bytes(&self) -> u64;
}
