//! Bytes that wait to be sent.

use crate::chunk::{ChunkHead, Envelope, EnvelopeError};

/// An empty outbox that has grown beyond this gives its memory back, bytes: it holds what a pass of the layer above sends
/// at once, and the next power of two.
const KEPT_SIZE_MAX: usize = 2 << 20;
/// Sent bytes are dropped from the front once there are so many, and more than remain: each is moved at most once.
const MOVED_SIZE_MIN: usize = 256 << 10;

/// A queue of bytes that is written at its end and sent from its front.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// How many at the front are sent.
    sent: usize,
}

impl Outbox {
    /// Appends a chunk.
    pub fn push(&mut self, head: ChunkHead, body: &[u8]) -> Result<(), EnvelopeError> {
        let envelope = Envelope::new(head, body.len())?.encode();
        self.bytes.reserve(envelope.len() + body.len());
        self.bytes.extend_from_slice(&envelope);
        self.bytes.extend_from_slice(body);
        Ok(())
    }

    /// What is not sent.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Drops bytes from the front of what is not sent.
    pub fn consume(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.bytes.len() {
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_SIZE_MAX {
                self.bytes = Vec::new();
            }
            self.sent = 0;
        } else if self.sent >= MOVED_SIZE_MIN && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{CHUNK_SIZE_MAX, ENVELOPE_SIZE};

    #[test]
    fn bytes_leave_in_order_and_memory_is_given_back() {
        let mut outbox = Outbox::default();
        let body: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
        outbox.push(ChunkHead::default(), &body).unwrap();
        outbox.push(ChunkHead::default(), b"end").unwrap();
        let mut found = Vec::new();
        while !outbox.waiting().is_empty() {
            let piece = outbox.waiting().len().min(100_000);
            found.extend_from_slice(&outbox.waiting()[..piece]);
            outbox.consume(piece);
        }
        assert_eq!(found.len(), body.len() + 3 + 2 * ENVELOPE_SIZE);
        assert_eq!(&found[ENVELOPE_SIZE..ENVELOPE_SIZE + body.len()], body);
        assert!(found.ends_with(b"end"));
        assert!(outbox.bytes.capacity() <= KEPT_SIZE_MAX);
    }

    #[test]
    fn a_chunk_that_is_too_large_leaves_nothing_behind() {
        let mut outbox = Outbox::default();
        let body = vec![0; CHUNK_SIZE_MAX + 1];
        assert!(outbox.push(ChunkHead::default(), &body).is_err());
        assert!(outbox.waiting().is_empty());
    }
}
