//! Assembly of a message that came in several chunks.
//!
//! Guarantees: a message takes no more than its own size, and no more than the limits allow. Of a larger one only the beginning
//! is kept, which names the task that it belongs to.

use gristmill_wire::FrameError;
use gristmill_wire::peer::{MESSAGE_HEAD_SIZE, MessageKind, message_of};

use super::{LinkError, LinkSizes};

/// Bytes that are kept of a message that is too large: its head, and the part of its body that names a task.
const BEGINNING: usize = 64;
/// Bytes for which room is made at a time: the system gives memory when they come.
const ROOM: usize = 64 << 20;

/// A message that is too large to be assembled.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::peers) struct OversizedMessage {
    /// The kind of the message.
    pub kind: MessageKind,
    /// The beginning of its body.
    pub body: Vec<u8>,
    /// Size of the message, bytes.
    pub size: usize,
    /// The limit that it exceeds, bytes.
    pub limit: usize,
    /// Bytes that incomplete messages of all links took, if the limit is that of all of them.
    pub held: Option<usize>,
}

impl From<OversizedMessage> for LinkError {
    fn from(message: OversizedMessage) -> Self {
        let OversizedMessage { kind, size, limit, .. } = message;
        Self::TooLarge { kind, size, limit }
    }
}

/// The limit that a message exceeds.
#[derive(Debug, Clone, Copy)]
struct Exceeded {
    limit: usize,
    held: Option<usize>,
}

/// The parts of a message whose end has not come.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    bytes: Vec<u8>,
    /// Size of the message, as its head states it.
    size: usize,
    /// Bytes that came, with those that were not kept.
    received: usize,
    exceeded: Option<Exceeded>,
}

impl Assembly {
    /// Returns true if no part has come.
    pub const fn is_empty(&self) -> bool {
        self.received == 0
    }

    /// Returns the number of bytes that are kept.
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the next part. `held` is the number of bytes that incomplete messages of all links take.
    ///
    /// # Errors
    /// The bytes are no message, or more than their message has.
    pub fn take(
        &mut self,
        part: &mut Vec<u8>,
        sizes: &LinkSizes,
        held: usize,
    ) -> Result<(), LinkError> {
        if self.is_empty() {
            (_, self.size) = message_of(part)?;
            let is_too_large = self.size > sizes.message;
            self.exceeded = is_too_large.then_some(Exceeded { limit: sizes.message, held: None });
        }
        self.received = self.received.saturating_add(part.len());
        if self.received > self.size {
            return Err(LinkError::Overlong { received: self.received, size: self.size });
        }
        if self.exceeded.is_none() && held.saturating_add(part.len()) > sizes.assembled {
            self.exceeded = Some(Exceeded { limit: sizes.assembled, held: Some(held) });
        }
        if self.exceeded.is_some() {
            self.keep_beginning(part);
        } else {
            self.append(part);
        }
        Ok(())
    }

    fn append(&mut self, part: &mut Vec<u8>) {
        let kept = self.bytes.len();
        if self.bytes.capacity() - kept < part.len() {
            // Without this room the vector would take up to twice the size of the message.
            let room = (self.size - kept).min(ROOM.max(part.len()));
            let _ = self.bytes.try_reserve_exact(room);
        }
        self.bytes.append(part);
    }

    fn keep_beginning(&mut self, part: &[u8]) {
        if self.bytes.len() > BEGINNING {
            self.bytes = self.bytes[..BEGINNING].to_vec();
        }
        let more = part.len().min(BEGINNING - self.bytes.len());
        self.bytes.extend_from_slice(&part[..more]);
    }

    /// Ends the message: `whole` gets its bytes, unless it is too large.
    ///
    /// # Errors
    /// The message is too large, and not complete.
    pub fn finish(&mut self, whole: &mut Vec<u8>) -> Result<Option<OversizedMessage>, LinkError> {
        let Self { bytes, size, received, exceeded } = std::mem::take(self);
        let Some(Exceeded { limit, held }) = exceeded else {
            *whole = bytes;
            return Ok(None);
        };
        if received < size {
            return Err(FrameError::Truncated { needed: size, found: received }.into());
        }
        let (kind, _) = message_of(&bytes)?;
        let body = bytes[MESSAGE_HEAD_SIZE..].to_vec();
        Ok(Some(OversizedMessage { kind, body, size, limit, held }))
    }
}
