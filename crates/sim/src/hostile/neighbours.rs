//! Other nodes that a client has named, as a blob server sees them: some send what is requested, others lie or disconnect.

use std::collections::VecDeque;

use gristmill_client::{BlobConnection, BlobTransport};
use gristmill_wire::peer::{BlobMessage, Messages, Piece};

use super::payloads::Contents;

/// Reaction of a node to a request for a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Gives,
    Lies,
    Refuses,
    BreaksOff,
    IsSilent,
}

/// Transport to other nodes, whose manners are derived from their addresses.
#[derive(Debug)]
pub(super) struct Neighbours(pub Contents);

/// A connection to another node.
#[derive(Debug)]
pub(super) struct Neighbour {
    contents: Contents,
    manner: Manner,
    is_open: bool,
    /// Chunks that the node sends.
    out: VecDeque<Vec<u8>>,
}

impl BlobTransport for Neighbours {
    type Connection = Neighbour;

    fn accept(&mut self, _deadline_ns: u64) -> Option<Neighbour> {
        None
    }

    fn connect(&mut self, address: &str, _deadline_ns: u64) -> Result<Neighbour, String> {
        const MANNERS: [Manner; 5] =
            [Manner::Gives, Manner::Lies, Manner::Refuses, Manner::BreaksOff, Manner::IsSilent];
        let manner = MANNERS.get(address.len() % 6).ok_or("no process listens there")?;
        let (contents, is_open, out) = (self.0.clone(), false, VecDeque::new());
        Ok(Neighbour { contents, manner: *manner, is_open, out })
    }
}

impl BlobConnection for Neighbour {
    fn open(&mut self, _now: u64) -> Result<bool, String> {
        Ok(!std::mem::replace(&mut self.is_open, true))
    }

    fn say(&mut self, messages: &[u8]) -> Result<(), String> {
        for (kind, body) in Messages::new(messages).map_while(Result::ok) {
            let message = BlobMessage::read(kind, body).expect("a blob server wrote it");
            let Some(BlobMessage::Need { name, received, .. }) = message else { continue };
            let digest = name.digest;
            let known = self.contents.iter().find(|(name, _)| name.digest == digest);
            let bytes = known.map_or(&[][..], |(_, bytes)| bytes);
            let start = usize::try_from(received).unwrap_or(usize::MAX).min(bytes.len());
            let middle = start.midpoint(bytes.len());
            let is_lie = self.manner == Manner::Lies;
            let piece = |from: usize, to: usize| {
                let mut out = Vec::new();
                Piece::write(&mut out, (digest, from as u64), to - from, |space| {
                    space.copy_from_slice(&bytes[from..to]);
                    space.iter_mut().for_each(|byte| *byte ^= u8::from(is_lie));
                });
                out
            };
            match self.manner {
                Manner::Gives | Manner::Lies => {
                    self.out.extend([piece(start, middle), piece(middle, bytes.len())]);
                }
                Manner::BreaksOff => self.out.push_back(piece(start, middle)),
                Manner::Refuses => {
                    let mut out = Vec::new();
                    BlobMessage::Dropped { digest, text: "no".to_owned() }.write(&mut out);
                    self.out.push_back(out);
                }
                Manner::IsSilent => {}
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String> {
        match self.out.pop_front() {
            Some(out) => *chunk = out,
            None if self.manner == Manner::BreaksOff => return Err("it breaks off".to_owned()),
            None => return Ok(false),
        }
        Ok(true)
    }

    fn unsent(&self) -> usize {
        0
    }
}
