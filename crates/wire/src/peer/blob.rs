//! Messages about blobs: requests for blobs, notices of where they are, and their bytes.
//!
//! The receiver of a blob controls the transfer. It states how many bytes it has, and accepts the following bytes from the
//! source that the client names. The same messages go between a node and its client and between two nodes. Between nodes,
//! [`BlobMessage::Need`] asks for the bytes.

use super::{MessageKind, Reader, put_bytes, put_words, write_message};
use crate::{BlobName, Digest, FrameError};

/// The fault of the last source of a blob. An unknown byte in its place gives [`FrameError::UnknownVerdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shortfall {
    /// There was no source, or it is not at fault.
    None = 0,
    /// The source cannot be reached, or does not provide the blob.
    Gone = 1,
    /// All bytes came, but they are not those of the requested blob.
    Wrong = 2,
}

impl Shortfall {
    const fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            0 => Self::None,
            1 => Self::Gone,
            2 => Self::Wrong,
            other => return Err(FrameError::UnknownVerdict(other)),
        })
    }
}

/// A message about one blob, or about all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobMessage {
    /// The port at which other nodes can fetch blobs from the sender, if any. Sent once, before any other message about blobs.
    Open {
        /// The port; 0 means that other nodes cannot fetch blobs from the sender.
        port: u16,
    },
    /// The sender needs a blob.
    Need {
        /// The name of the blob.
        name: BlobName,
        /// Bytes from the blob's start that the sender has.
        received: u64,
        /// The fault of the last source.
        shortfall: Shortfall,
        /// The fault, as readable text.
        text: String,
    },
    /// The sender has all of a blob.
    Have {
        /// The digest of the blob.
        digest: Digest,
        /// Bytes of the blob that came from other nodes, including those that came twice.
        fetched: u64,
    },
    /// From a holder: it does not have the blob any more. To a receiver: the blob is not available.
    Dropped {
        /// The digest of the blob.
        digest: Digest,
        /// The reason.
        text: String,
    },
    /// The receiver of this message is to fetch a blob from another node.
    Fetch {
        /// The name of the blob.
        name: BlobName,
        /// The address at which that node serves blobs, as `host:port`. Empty if the current source is gone; the receiver then
        /// answers with another [`BlobMessage::Need`].
        address: String,
    },
    /// The blob was named in an answer, and the engine that wanted the answer has it now. The node need not keep it for this
    /// answer any more.
    Received {
        /// The digest of the blob.
        digest: Digest,
    },
}

impl BlobMessage {
    /// Appends the message and returns its size, bytes.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Open { port } => {
                write_message(out, MessageKind::Open, |out| put_words(out, [u64::from(*port)]))
            }
            Self::Need { name, received, shortfall, text } => {
                write_message(out, MessageKind::Need, |out| {
                    put_name(out, name);
                    put_words(out, [*received, *shortfall as u64]);
                    put_bytes(out, text.as_bytes());
                })
            }
            Self::Have { digest, fetched } => write_message(out, MessageKind::Have, |out| {
                out.extend_from_slice(&digest.0);
                put_words(out, [*fetched]);
            }),
            Self::Dropped { digest, text } => write_message(out, MessageKind::Dropped, |out| {
                out.extend_from_slice(&digest.0);
                put_bytes(out, text.as_bytes());
            }),
            Self::Fetch { name, address } => write_message(out, MessageKind::Fetch, |out| {
                put_name(out, name);
                put_bytes(out, address.as_bytes());
            }),
            Self::Received { digest } => write_message(out, MessageKind::Received, |out| {
                out.extend_from_slice(&digest.0);
            }),
        }
    }

    /// Reads a message about blobs; returns `None` for other kinds.
    ///
    /// # Errors
    /// The message is shorter than it states, or has an unknown shortfall.
    #[expect(clippy::cast_possible_truncation, reason = "fields of a packed word")]
    pub fn read(kind: MessageKind, body: &[u8]) -> Result<Option<Self>, FrameError> {
        let mut reader = Reader::new(body);
        Ok(Some(match kind {
            MessageKind::Open => Self::Open { port: reader.word()? as u16 },
            MessageKind::Need => {
                let name = read_name(&mut reader)?;
                let [received, shortfall] = reader.words()?;
                let shortfall = Shortfall::from_byte(shortfall as u8)?;
                Self::Need { name, received, shortfall, text: reader.text()? }
            }
            MessageKind::Have => Self::Have { digest: reader.digest()?, fetched: reader.word()? },
            MessageKind::Dropped => {
                Self::Dropped { digest: reader.digest()?, text: reader.text()? }
            }
            MessageKind::Fetch => {
                Self::Fetch { name: read_name(&mut reader)?, address: reader.text()? }
            }
            MessageKind::Received => Self::Received { digest: reader.digest()? },
            _ => return Ok(None),
        }))
    }
}

fn put_name(out: &mut Vec<u8>, name: &BlobName) {
    out.extend_from_slice(&name.digest.0);
    put_words(out, [name.size]);
}

fn read_name(reader: &mut Reader<'_>) -> Result<BlobName, FrameError> {
    BlobName::checked(reader.digest()?, reader.word()?)
}

/// Some bytes of a blob, borrowed from the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The digest of the blob.
    pub digest: Digest,
    /// Offset of these bytes in the blob.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Appends a piece of `size` bytes, which `fill` writes.
    pub fn write(
        out: &mut Vec<u8>,
        (digest, offset): (Digest, u64),
        size: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> usize {
        write_message(out, MessageKind::Piece, |out| {
            out.extend_from_slice(&digest.0);
            put_words(out, [offset]);
            let start = out.len();
            out.resize(start + size, 0);
            fill(&mut out[start..]);
        })
    }

    /// Reads a piece.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    pub fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let (digest, offset) = (reader.digest()?, reader.word()?);
        Ok(Self { digest, offset, bytes: reader.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Messages;
    use super::*;
    use proptest::prelude::*;

    const DIGEST: Digest = Digest([3; 32]);

    #[test]
    fn every_notice_comes_back() {
        let name = BlobName { digest: Digest::of(DIGEST.0, 5), size: 5 };
        let text = || "why".to_owned();
        let need = |shortfall| BlobMessage::Need { name, received: 4, shortfall, text: text() };
        for message in [
            BlobMessage::Open { port: 7700 },
            need(Shortfall::None),
            need(Shortfall::Gone),
            need(Shortfall::Wrong),
            BlobMessage::Have { digest: DIGEST, fetched: 6 },
            BlobMessage::Dropped { digest: DIGEST, text: text() },
            BlobMessage::Fetch { name, address: "10.0.0.1:80".to_owned() },
            BlobMessage::Received { digest: DIGEST },
        ] {
            let mut chunk = Vec::new();
            message.write(&mut chunk);
            let (kind, body) = Messages::new(&chunk).next().expect("one").expect("whole");
            assert_eq!(BlobMessage::read(kind, body), Ok(Some(message)));
        }
    }

    #[test]
    fn golden_piece() {
        let mut chunk = Vec::new();
        Piece::write(&mut chunk, (DIGEST, 9), 3, |space| space.copy_from_slice(b"abc"));
        let mut golden = vec![43, 0, 0, 0, 22, 0, 0, 0];
        golden.extend([3; 32]);
        golden.extend([9, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 0]);
        assert_eq!(chunk, golden);
        let (_, body) = Messages::new(&chunk).next().expect("one").expect("whole");
        assert_eq!(Piece::read(body), Ok(Piece { digest: DIGEST, offset: 9, bytes: b"abc" }));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            let _ = Piece::read(&bytes);
            let kinds = [
                MessageKind::Need, MessageKind::Have, MessageKind::Dropped, MessageKind::Fetch,
                MessageKind::Received, MessageKind::Open,
            ];
            for kind in kinds {
                let _ = BlobMessage::read(kind, &bytes);
            }
        }
    }
}
