//! A queue of outbound bytes.

use crate::chunk::{ChunkHead, Envelope, EnvelopeError};

/// The capacity above which an empty outbox frees its memory, bytes. It is the smallest power of two that holds what a link
/// sends in one pass.
const KEPT_SIZE_MAX: usize = 2 << 20;
/// The least number of sent bytes that are dropped from the front while unsent bytes remain. They must also outnumber the
/// unsent bytes, which are then moved. So fewer bytes are moved than sent.
const MOVED_SIZE_MIN: usize = 256 << 10;

/// A queue of bytes that is written at its end and sent from its front.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Bytes at the front that are sent.
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

    /// Returns the bytes that are not sent.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Drops bytes from the front of the unsent ones.
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
