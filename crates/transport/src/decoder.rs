//! A decoder that assembles chunks from bytes that come in pieces.

use crate::chunk::{ChunkHead, ENVELOPE_SIZE, Envelope, EnvelopeError};

/// The result of one decoding step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeProgress {
    /// Bytes of the input that the step consumed.
    pub count: usize,
    /// The head of the chunk that is now complete, with its body in the caller's vector. `None` means that the step consumed
    /// the whole input and needs more bytes.
    pub head: Option<ChunkHead>,
}

/// A decoder with the received part of a chunk. It copies each body once. A body that comes in one piece is copied to the
/// caller's vector; one that comes in several pieces is assembled here, then swapped with that vector.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    envelope: [u8; ENVELOPE_SIZE],
    /// Bytes of the envelope that have come.
    envelope_size: usize,
    body: Vec<u8>,
}

impl ChunkDecoder {
    /// Consumes bytes until a chunk is complete, and replaces the content of `body` with the chunk's body.
    ///
    /// # Errors
    /// The bytes are not an envelope. Every later call returns the same error, because no chunk border behind it can be
    /// trusted.
    pub fn take(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<DecodeProgress, EnvelopeError> {
        if self.envelope_size == 0
            && let Some((first, rest)) = input.split_first_chunk::<ENVELOPE_SIZE>()
        {
            let envelope = Envelope::decode(first);
            if let Ok(Envelope { head, size }) = envelope
                && let Some(whole) = rest.get(..size)
            {
                body.clear();
                body.extend_from_slice(whole);
                return Ok(DecodeProgress { count: ENVELOPE_SIZE + size, head: Some(head) });
            }
        }
        self.take_piece(input, body)
    }

    /// Returns true if a chunk has begun and is not complete.
    #[must_use]
    pub fn is_within_chunk(&self) -> bool {
        self.envelope_size > 0
    }

    fn take_piece(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<DecodeProgress, EnvelopeError> {
        let count = input.len().min(ENVELOPE_SIZE - self.envelope_size);
        let (first, rest) = input.split_at(count);
        let end = self.envelope_size + count;
        self.envelope[self.envelope_size..end].copy_from_slice(first);
        self.envelope_size = end;
        if end < ENVELOPE_SIZE {
            return Ok(DecodeProgress { count, head: None });
        }
        let Envelope { head, size } = Envelope::decode(&self.envelope)?;
        if self.body.is_empty() {
            self.body.reserve_exact(size);
        }
        let more = rest.len().min(size - self.body.len());
        self.body.extend_from_slice(&rest[..more]);
        let count = count + more;
        if self.body.len() < size {
            return Ok(DecodeProgress { count, head: None });
        }
        std::mem::swap(&mut self.body, body);
        self.body.clear();
        self.envelope_size = 0;
        Ok(DecodeProgress { count, head: Some(head) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_envelope_stays_an_error() {
        let (mut decoder, mut body) = (ChunkDecoder::default(), Vec::new());
        let bytes = [0xff; 100];
        assert!(decoder.take(&bytes, &mut body).is_err());
        assert!(decoder.take(&[0; 100], &mut body).is_err());
        assert!(decoder.take(&[], &mut body).is_err());
    }

    proptest! {
        #[test]
        fn chunks_come_out_as_they_went_in_however_the_bytes_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8),
            cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let mut bytes = Vec::new();
            for (sequence, body) in (1..).zip(&bodies) {
                let head = ChunkHead { kind: 3, sequence, acknowledged: 9 };
                bytes.extend(Envelope { head, size: body.len() }.encode());
                bytes.extend(body);
            }
            let (mut decoder, mut body, mut found) = (ChunkDecoder::default(), vec![1], Vec::new());
            let (mut rest, mut cuts) = (&bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (mut piece, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                rest = later;
                while !piece.is_empty() {
                    let taken = decoder.take(piece, &mut body).unwrap();
                    piece = &piece[taken.count..];
                    if let Some(head) = taken.head {
                        found.push(body.clone());
                        prop_assert_eq!(head.sequence, found.len() as u64);
                    }
                }
            }
            prop_assert!(!decoder.is_within_chunk());
            prop_assert_eq!(found, bodies);
        }
    }
}
