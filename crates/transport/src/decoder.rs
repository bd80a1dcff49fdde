//! Puts chunks together from bytes that come in pieces.

use crate::chunk::{ChunkHead, ENVELOPE_SIZE, Envelope, EnvelopeError};

/// What one step of decoding did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the input that were used up.
    pub count: usize,
    /// The head of the chunk that is now whole, its body being in the caller's vector; `None`: more bytes are needed,
    /// and the whole input was used up.
    pub head: Option<ChunkHead>,
}

/// The part of a chunk that has come. A chunk that comes in one piece is copied once, and one in several pieces as well:
/// its body changes places with the caller's vector.
#[derive(Debug, Default)]
pub struct Decoder {
    envelope: [u8; ENVELOPE_SIZE],
    /// How much of the envelope has come.
    envelope_size: usize,
    body: Vec<u8>,
}

impl Decoder {
    /// Takes bytes until a chunk is whole, and puts its body in the place of what `body` holds.
    ///
    /// # Errors
    /// The bytes are no envelope. It is the same error ever after, since behind it no border can be trusted.
    pub fn take(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<Taken, EnvelopeError> {
        if self.envelope_size == 0
            && let Some((first, rest)) = input.split_first_chunk::<ENVELOPE_SIZE>()
        {
            let envelope = Envelope::decode(first);
            if let Ok(Envelope { head, size }) = envelope
                && let Some(whole) = rest.get(..size)
            {
                body.clear();
                body.extend_from_slice(whole);
                return Ok(Taken { count: ENVELOPE_SIZE + size, head: Some(head) });
            }
        }
        self.take_piece(input, body)
    }

    /// Whether a chunk has begun that is not whole.
    #[must_use]
    pub fn is_within_chunk(&self) -> bool {
        self.envelope_size > 0
    }

    fn take_piece(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<Taken, EnvelopeError> {
        let count = input.len().min(ENVELOPE_SIZE - self.envelope_size);
        let (first, rest) = input.split_at(count);
        let end = self.envelope_size + count;
        self.envelope[self.envelope_size..end].copy_from_slice(first);
        self.envelope_size = end;
        if end < ENVELOPE_SIZE {
            return Ok(Taken { count, head: None });
        }
        let Envelope { head, size } = Envelope::decode(&self.envelope)?;
        if self.body.is_empty() {
            self.body.reserve_exact(size);
        }
        let more = rest.len().min(size - self.body.len());
        self.body.extend_from_slice(&rest[..more]);
        let count = count + more;
        if self.body.len() < size {
            return Ok(Taken { count, head: None });
        }
        std::mem::swap(&mut self.body, body);
        self.body.clear();
        self.envelope_size = 0;
        Ok(Taken { count, head: Some(head) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_envelope_stays_an_error() {
        let (mut decoder, mut body) = (Decoder::default(), Vec::new());
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
            let (mut decoder, mut body, mut found) = (Decoder::default(), vec![1], Vec::new());
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
