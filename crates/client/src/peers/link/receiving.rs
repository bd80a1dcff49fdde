//! Receiving side of a link: chunks, and messages that may span several of them.

use gristmill_transport::ReceiveStatus;

use super::{Link, LinkError, PIECE};

/// Content of one chunk.
#[derive(Debug)]
#[must_use]
pub(in crate::peers) enum Came {
    /// There was no chunk.
    Nothing,
    /// A chunk after which no message is complete, or one that brings no new message (it was received before, or only serves
    /// the session), and its size in bytes.
    Part(usize),
    /// Whole messages.
    Messages,
}

impl Link {
    /// Returns true if anything has come since the last call, even if it was only a part of a long message.
    pub fn has_heard(&mut self) -> bool {
        let bytes =
            self.channel.as_ref().map_or(self.seen_bytes, |channel| channel.received_bytes());
        std::mem::replace(&mut self.seen_bytes, bytes) != bytes
    }

    /// Replaces the content of `chunk` with the next messages that have come; returns false if there are none.
    ///
    /// # Errors
    /// An error if the link, or its connection, can no longer be used.
    pub fn receive(&mut self, chunk: &mut Vec<u8>) -> Result<bool, LinkError> {
        loop {
            match self.receive_one(chunk)? {
                Came::Nothing => return Ok(false),
                Came::Part(_) => {}
                Came::Messages => return Ok(true),
            }
        }
    }

    /// Reads one chunk only, like [`Self::receive`].
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub(in crate::peers) fn receive_one(&mut self, chunk: &mut Vec<u8>) -> Result<Came, LinkError> {
        let Some(channel) = &mut self.channel else { return Ok(Came::Nothing) };
        let came = match channel.receive(chunk)? {
            // Reads once more, because the channel may report nothing without asking the socket, and the link ends after this.
            None if self.unsendable.is_some() => channel.receive(chunk)?,
            came => came,
        };
        let Some(head) = came else {
            return self.unsendable.take().map_or(Ok(Came::Nothing), Err);
        };
        let bytes = chunk.len();
        if self.session.accept(&head, bytes)? != ReceiveStatus::Fresh {
            return Ok(Came::Part(bytes));
        }
        if head.kind == PIECE || !self.partial.is_empty() {
            self.partial.append(chunk);
        }
        if head.kind == PIECE {
            let (size, limit) = (self.partial.len(), self.sizes.message);
            if size > limit {
                return Err(LinkError::TooLarge { size, limit });
            }
            return Ok(Came::Part(bytes));
        }
        if !self.partial.is_empty() {
            *chunk = std::mem::take(&mut self.partial);
        }
        Ok(Came::Messages)
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::{Channel as _, ChunkHead, Flushed, InprocChannel, pair};
    use gristmill_wire::Epoch;

    use super::*;
    use crate::peers::heartbeats::LinkLiveness;
    use crate::peers::link::{LinkSizes, WHOLE};

    /// Returns a link and its other end. The pieces of a message before its last chunk may have up to `message` bytes.
    fn link(message: usize) -> (Link, InprocChannel) {
        let (ours, theirs) = pair().expect("descriptors");
        let sizes = LinkSizes { message, ..LinkSizes::default() };
        let pulse = LinkLiveness::new(1, 1, 0);
        (Link::new("one".into(), Epoch(0), (Box::new(ours), sizes), pulse), theirs)
    }

    fn send(channel: &mut InprocChannel, kind: u8, sequence: u64, body: &[u8]) {
        let head = ChunkHead { kind, sequence, acknowledged: 0 };
        channel.send(head, body).expect("it is open");
        assert_eq!(channel.flush().expect("it is open"), Flushed::All);
    }

    #[test]
    fn pieces_make_a_message_up_to_the_largest() {
        let (mut link, mut channel) = link(16);
        send(&mut channel, PIECE, 1, &[1; 8]);
        send(&mut channel, PIECE, 2, &[2; 8]);
        send(&mut channel, WHOLE, 3, &[3; 8]);
        let mut chunk = Vec::new();
        assert!(link.receive(&mut chunk).expect("it is not too large"));
        assert_eq!(chunk.len(), 24);
    }

    #[test]
    fn pieces_without_end_end_the_link_with_a_sentence() {
        let (mut link, mut channel) = link(16);
        for sequence in 1..=3 {
            send(&mut channel, PIECE, sequence, &[1; 8]);
        }
        let error = link.receive(&mut Vec::new()).expect_err("it is too large");
        assert_eq!(error.to_string(), "it sent 24 bytes of one message, and the limit is 16");
        assert!(!error.can_resume(), "another connection would bring the same");
    }
}
