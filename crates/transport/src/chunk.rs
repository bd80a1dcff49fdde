//! The envelope of a chunk: fixed width, little endian.
//!
//! | bytes | type | content |
//! |---|---|---|
//! | 0..4 | `u32` | the size of the body, at most [`CHUNK_SIZE_MAX`] |
//! | 4 | `u8` | the kind, whose meaning the layer above defines |
//! | 5..8 | | 0 |
//! | 8..16 | `u64` | the sequence number; 0 for a chunk without one |
//! | 16..24 | `u64` | the last sequence number that the sender has received |

use thiserror::Error;

/// The largest body of a chunk, bytes. A chunk is received as a whole, so this bounds the memory that one peer can make the
/// other use. The limit is large enough to make the cost of an envelope negligible, and small enough for a thousand peers.
pub const CHUNK_SIZE_MAX: usize = 16 << 20;
/// The size of an envelope, bytes.
pub const ENVELOPE_SIZE: usize = 24;

/// The fields in front of the body of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkHead {
    /// The kind of the chunk; the layer above defines the kinds.
    pub kind: u8,
    /// The chunk's number in its direction, from 1; 0 for a chunk that is not kept and not repeated.
    pub sequence: u64,
    /// The last number that the sender of the chunk has received.
    pub acknowledged: u64,
}

/// A head and the size of the body behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The head of the chunk.
    pub head: ChunkHead,
    /// The size of the body, bytes.
    pub size: usize,
}

/// Errors of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The three bytes behind the kind are not zero.
    #[error("an envelope has {found:?} in its reserved bytes, which must be zero")]
    Reserved {
        /// The bytes found there.
        found: [u8; 3],
    },
    /// The size exceeds the limit.
    #[error("an envelope announces {size} bytes, and the limit is {limit}")]
    TooLarge {
        /// The announced size, bytes.
        size: usize,
        /// The largest allowed size, bytes.
        limit: usize,
    },
}

impl Envelope {
    /// Makes the envelope for a body of `size` bytes.
    ///
    /// # Errors
    /// The body is too large.
    pub const fn new(head: ChunkHead, size: usize) -> Result<Self, EnvelopeError> {
        if size > CHUNK_SIZE_MAX {
            return Err(EnvelopeError::TooLarge { size, limit: CHUNK_SIZE_MAX });
        }
        Ok(Self { head, size })
    }

    /// Returns the envelope as bytes.
    #[must_use]
    pub fn encode(self) -> [u8; ENVELOPE_SIZE] {
        let mut bytes = [0; ENVELOPE_SIZE];
        let size = u32::try_from(self.size).unwrap_or(u32::MAX);
        bytes[0..4].copy_from_slice(&size.to_le_bytes());
        bytes[4] = self.head.kind;
        bytes[8..16].copy_from_slice(&self.head.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.head.acknowledged.to_le_bytes());
        bytes
    }

    /// Reads an envelope.
    ///
    /// # Errors
    /// The bytes are not an envelope: the peer is broken or hostile.
    pub fn decode(bytes: &[u8; ENVELOPE_SIZE]) -> Result<Self, EnvelopeError> {
        let [s0, s1, s2, s3, kind, r0, r1, r2, words @ ..] = *bytes;
        if [r0, r1, r2] != [0; 3] {
            return Err(EnvelopeError::Reserved { found: [r0, r1, r2] });
        }
        let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = words;
        let sequence = u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
        let acknowledged = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        let size = usize::try_from(u32::from_le_bytes([s0, s1, s2, s3])).unwrap_or(usize::MAX);
        Self::new(ChunkHead { kind, sequence, acknowledged }, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn envelopes_are_pinned_to_the_byte() {
        let head = ChunkHead { kind: 7, sequence: 0x0102, acknowledged: 0x0304_0506 };
        let bytes = Envelope { head, size: 0x0001_0203 }.encode();
        let expected = b"\x03\x02\x01\0\x07\0\0\0\x02\x01\0\0\0\0\0\0\x06\x05\x04\x03\0\0\0\0";
        assert_eq!(&bytes, expected);
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let whole = Envelope { head: ChunkHead::default(), size: CHUNK_SIZE_MAX }.encode();
        assert_eq!(Envelope::decode(&whole).unwrap().size, CHUNK_SIZE_MAX);
        for place in 5..8 {
            let mut bytes = whole;
            bytes[place] = 1;
            assert!(matches!(Envelope::decode(&bytes), Err(EnvelopeError::Reserved { .. })));
        }
        let mut bytes = whole;
        bytes[0] = 1;
        let error = EnvelopeError::TooLarge { size: CHUNK_SIZE_MAX + 1, limit: CHUNK_SIZE_MAX };
        assert_eq!(Envelope::decode(&bytes), Err(error));
    }

    proptest! {
        #[test]
        fn envelopes_survive_the_wire(
            kind: u8, sequence: u64, acknowledged: u64, size in 0..=CHUNK_SIZE_MAX,
        ) {
            let envelope = Envelope { head: ChunkHead { kind, sequence, acknowledged }, size };
            prop_assert_eq!(Envelope::decode(&envelope.encode()), Ok(envelope));
        }
    }
}
