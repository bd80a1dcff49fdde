//! What a channel does, whatever carries its bytes.

use std::os::fd::BorrowedFd;

use crate::chunk::ChunkHead;
use crate::error::ChannelError;
use crate::sleeper::Interest;

/// How much of what was to be sent the system has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flushed {
    /// Everything.
    All,
    /// A part: there is room again when the descriptor is writable.
    Some,
}

/// One end of a connection that moves chunks in both directions, in order. No call blocks; one thread at a time.
///
/// Dropping an end is abandoning it. To close in order: [`Channel::close`], then
/// [`Channel::flush`] until everything is taken, then [`Channel::receive`] until the other end has closed as well.
pub trait Channel {
    /// Takes a chunk to be sent. It is copied; it leaves with [`Channel::flush`], or earlier where much has gathered.
    /// There is no limit to what gathers: whoever sends looks at [`Channel::unsent`].
    ///
    /// # Errors
    /// The body is too large, and nothing else has changed; or the connection is at its end.
    ///
    /// # Panics
    /// This end was closed.
    fn send(&mut self, head: ChunkHead, body: &[u8]) -> Result<(), ChannelError>;

    /// Hands to the system as much as it takes.
    ///
    /// # Errors
    /// The connection is at its end.
    fn flush(&mut self) -> Result<Flushed, ChannelError>;

    /// Gives the next chunk that has come: its head, its body in the place of what `body` held. `None`: nothing more
    /// is there, and the descriptor becomes readable when there is.
    ///
    /// # Errors
    /// The connection is at its end; the same again in later calls. Where it was closed in order, all chunks have been
    /// given; else some that came just before the end may not have been.
    fn receive(&mut self, body: &mut Vec<u8>) -> Result<Option<ChunkHead>, ChannelError>;

    /// Says that nothing more will be sent: the other end is told once everything before has arrived. Needs a flush.
    fn close(&mut self);

    /// Ends it at once, as the death of this process would: the other end sees a loss, and what was not flushed is gone.
    fn abandon(self)
    where
        Self: Sized,
    {
        drop(self);
    }

    /// Bytes of chunks that the system has not taken.
    fn unsent(&self) -> usize;

    /// Whether [`Channel::flush`] has something to do.
    fn wants_write(&self) -> bool;

    /// What to watch.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// What to watch it for.
    fn interest(&self) -> Interest {
        if self.wants_write() { Interest::Both } else { Interest::Readable }
    }

    /// The address of the other end, for messages.
    fn peer(&self) -> &str;

    /// Bytes that the system has taken, with all that surrounds chunks.
    fn sent_bytes(&self) -> u64;

    /// Bytes that the system has given, with all that surrounds chunks.
    fn received_bytes(&self) -> u64;
}
