//! Receiving side of a link: chunks, and messages that may span several of them.

use gristmill_transport::ReceiveStatus;

use super::{Link, LinkError, OversizedMessage, PIECE};

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
    /// A chunk of this many bytes that ends a message of which only the beginning was kept, because it is too large.
    Oversized(OversizedMessage, usize),
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
            match self.receive_one(chunk, self.partial.size())? {
                Came::Nothing => return Ok(false),
                Came::Part(_) => {}
                Came::Messages => return Ok(true),
                Came::Oversized(message, _) => return Err(message.into()),
            }
        }
    }

    /// Returns the number of bytes of a message whose end has not come.
    pub(in crate::peers) const fn assembled(&self) -> usize {
        self.partial.size()
    }

    /// Reads one chunk only, like [`Self::receive`]. `held` is the number of bytes that incomplete messages of all links take.
    ///
    /// # Errors
    /// As [`Self::receive`], except that a message that is too large is no error.
    pub(in crate::peers) fn receive_one(
        &mut self,
        chunk: &mut Vec<u8>,
        held: usize,
    ) -> Result<Came, LinkError> {
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
            self.partial.take(chunk, &self.sizes, held)?;
        }
        if head.kind == PIECE {
            return Ok(Came::Part(bytes));
        }
        if !self.partial.is_empty()
            && let Some(message) = self.partial.finish(chunk)?
        {
            return Ok(Came::Oversized(message, bytes));
        }
        Ok(Came::Messages)
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::{Channel as _, ChunkHead, Flushed, InprocChannel, pair};
    use gristmill_wire::Epoch;
    use gristmill_wire::peer::{MessageKind, write_message};

    use super::*;
    use crate::peers::heartbeats::LinkLiveness;
    use crate::peers::link::{LinkSizes, WHOLE};

    /// Returns a link that assembles messages of up to `message` bytes, and its other end.
    fn link(message: usize) -> (Link, InprocChannel) {
        let (ours, theirs) = pair().expect("descriptors");
        let sizes = LinkSizes { message, assembled: 4096, ..LinkSizes::default() };
        let pulse = LinkLiveness::new(1, 1, 0);
        (Link::new("one".into(), Epoch(0), (Box::new(ours), sizes), pulse), theirs)
    }

    fn send(channel: &mut InprocChannel, kind: u8, sequence: u64, body: &[u8]) {
        let head = ChunkHead { kind, sequence, acknowledged: 0 };
        channel.send(head, body).expect("it is open");
        assert_eq!(channel.flush().expect("it is open"), Flushed::All);
    }

    /// Returns a message whose body has `size` bytes.
    fn message(size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_message(&mut bytes, MessageKind::Answer, |out| out.resize(out.len() + size, 7));
        bytes
    }

    /// Sends a message in chunks of `size` bytes, the first of which has the number `first`.
    fn send_in_pieces(channel: &mut InprocChannel, message: &[u8], size: usize, first: u64) {
        let last = message.len().div_ceil(size) - 1;
        for (place, piece) in message.chunks(size).enumerate() {
            let kind = if place == last { WHOLE } else { PIECE };
            send(channel, kind, first + place as u64, piece);
        }
    }

    #[test]
    fn pieces_make_a_message_up_to_the_largest() {
        let (mut link, mut channel) = link(1008);
        let sent = message(1000);
        send_in_pieces(&mut channel, &sent, 100, 1);
        let mut chunk = Vec::new();
        assert!(link.receive(&mut chunk).expect("it is not too large"));
        assert_eq!((&chunk, link.assembled()), (&sent, 0));
    }

    #[test]
    fn of_a_larger_message_only_the_beginning_is_kept_and_the_next_one_comes() {
        let (mut link, mut channel) = link(1000);
        send_in_pieces(&mut channel, &message(1000), 40, 1);
        let next = message(500);
        send_in_pieces(&mut channel, &next, 100, 27);
        let mut chunk = Vec::new();
        let large = loop {
            match link.receive_one(&mut chunk, 0).expect("it goes on") {
                Came::Part(_) => assert!(link.assembled() <= 64),
                Came::Oversized(large, _) => break large,
                other => panic!("{other:?}"),
            }
        };
        let (kind, body) = (MessageKind::Answer, vec![7; 56]);
        assert_eq!(large, OversizedMessage { kind, body, size: 1008, limit: 1000, held: None });
        assert!(link.receive(&mut chunk).expect("the link goes on"));
        assert_eq!(chunk, next);
    }

    #[test]
    fn incomplete_messages_of_all_links_have_one_limit() {
        let (mut link, mut channel) = link(1008);
        send_in_pieces(&mut channel, &message(1000), 100, 1);
        let mut chunk = Vec::new();
        let mut receive = |held| link.receive_one(&mut chunk, held).expect("it goes on");
        assert!(matches!(receive(0), Came::Part(100)));
        let large = (1..11).find_map(|_| match receive(4000) {
            Came::Oversized(large, _) => Some(large),
            _ => None,
        });
        let large = large.expect("the other links hold too much");
        assert_eq!((large.size, large.limit, large.held), (1008, 4096, Some(4000)));
        assert_eq!(large.body.len(), 56);
    }

    #[test]
    fn pieces_without_end_end_the_link_with_a_sentence() {
        for limit in [16, 1008] {
            let (mut link, mut channel) = link(limit);
            let mut sent = message(1000);
            sent.extend([0; 40]);
            for (sequence, piece) in (1..).zip(sent.chunks(64)) {
                send(&mut channel, PIECE, sequence, piece);
            }
            let error = link.receive(&mut Vec::new()).expect_err("it has no end");
            assert_eq!(error.to_string(), "it sent 1024 bytes of a message of 1008");
            assert!(!error.can_resume(), "another connection would bring the same");
        }
    }

    #[test]
    fn pieces_without_a_head_end_the_link() {
        let (mut link, mut channel) = link(16);
        send(&mut channel, PIECE, 1, &[1; 7]);
        assert!(matches!(link.receive(&mut Vec::new()), Err(LinkError::Message(_))));
    }
}
