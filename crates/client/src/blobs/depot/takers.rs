//! Other nodes that get blobs here: each has a connection, and is given what is there, and what comes, as it comes.

use gristmill_store::Store;
use gristmill_transport::{Accepted, Channel, Listener, Sleeper};
use gristmill_wire::peer::{BlobMessage, Messages, Piece};
use gristmill_wire::{BlobName, Digest};

use super::line::Line;

/// Bytes of a piece.
const PIECE_SIZE: usize = 128 << 10;
/// Bytes on their way to one taker above which it is given nothing more for now.
const UNSENT_MAX: usize = 512 << 10;
/// Pieces that one taker is given before others have their turn.
const TURN: usize = 8;
/// More than the client's plan ever has at one giver.
const TAKERS_MAX: usize = 256;
/// How long who connects may take to prove who it is, nanoseconds.
const HANDSHAKE_NS: u64 = 10_000_000_000;

#[derive(Debug)]
struct Taker {
    line: Line,
    /// What it gets, and how much of that it has or is under way.
    wants: Option<(BlobName, u64)>,
}

/// Other nodes that get blobs here.
#[derive(Debug, Default)]
pub(super) struct Takers {
    takers: Vec<Taker>,
    piece: Vec<u8>,
    chunk: Vec<u8>,
}

impl Takers {
    /// Takes connections that wait.
    pub fn accept(&mut self, listener: &Listener, mut token: impl FnMut() -> u64, now: u64) {
        loop {
            match listener.accept(now + HANDSHAKE_NS) {
                Ok(Accepted::Peer(handshake)) if self.takers.len() < TAKERS_MAX => {
                    self.takers.push(Taker { line: Line::new(handshake, token()), wants: None });
                }
                // Whoever cannot be taken now gets what it needs elsewhere.
                Ok(Accepted::Peer(_)) => {}
                Ok(Accepted::Nobody | Accepted::Full) | Err(_) => return,
            }
        }
    }

    /// Gives what there is to give; whether there is more to do at once.
    pub fn attend(&mut self, store: &Store, sleeper: &Sleeper, now: u64) -> bool {
        let Self { takers, piece, chunk } = self;
        let mut is_busy = false;
        takers.retain_mut(|taker| {
            // Who breaks off, or says what nobody says here, is forgotten: it is told by that.
            let Ok(has_more) = taker.attend(store, (piece, chunk), now) else { return false };
            is_busy |= has_more;
            taker.line.watch(sleeper);
            true
        });
        is_busy
    }

    /// What was given of a blob was wrong: those that get it have to begin anew, elsewhere.
    pub fn dismiss(&mut self, digest: Digest) {
        self.takers.retain(|taker| taker.wants.is_none_or(|(name, _)| name.digest != digest));
    }
}

impl Taker {
    fn attend(
        &mut self,
        store: &Store,
        (piece, chunk): (&mut Vec<u8>, &mut Vec<u8>),
        now: u64,
    ) -> Result<bool, String> {
        self.line.open(now)?;
        for _ in 0..TURN {
            if !self.line.hear(chunk)? {
                break;
            }
            self.take(chunk)?;
        }
        let mut has_more = false;
        for turn in 0..=TURN {
            has_more = turn == TURN;
            self.line.flush()?;
            if has_more || !self.give(store, piece)? {
                break;
            }
        }
        Ok(has_more)
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), String> {
        for message in Messages::new(chunk) {
            let (kind, body) = message.map_err(|error| error.to_string())?;
            match BlobMessage::read(kind, body).map_err(|error| error.to_string())? {
                Some(BlobMessage::Need { name, received, .. }) => {
                    self.wants = Some((name, received));
                }
                _ => return Err(format!("{kind:?} is not said here")),
            }
        }
        Ok(())
    }

    /// Gives the next piece; false: there is none now, or no room for it.
    fn give(&mut self, store: &Store, piece: &mut Vec<u8>) -> Result<bool, String> {
        let Some((name, offset)) = self.wants else { return Ok(false) };
        let unsent = self.line.channel().map_or(usize::MAX, |channel| channel.unsent());
        if unsent > UNSENT_MAX || offset >= name.size {
            return Ok(false);
        }
        let mut bytes = std::mem::take(piece);
        bytes.resize(PIECE_SIZE, 0);
        let read = store.read(name.digest, offset, &mut bytes);
        let given = match read {
            Ok(Some(0)) => Ok(false),
            Ok(Some(count)) => {
                let mut message = Vec::with_capacity(count + 64);
                Piece::write(&mut message, (name.digest, offset), count, |space| {
                    space.copy_from_slice(&bytes[..count]);
                });
                self.wants = Some((name, offset + count as u64));
                self.line.say(&message).map(|()| true)
            }
            Ok(None) => self.refuse(name, "it is not here"),
            Err(error) => self.refuse(name, &error.to_string()),
        };
        *piece = bytes;
        given
    }

    fn refuse(&mut self, name: BlobName, text: &str) -> Result<bool, String> {
        self.wants = None;
        let mut message = Vec::new();
        BlobMessage::Dropped { digest: name.digest, text: text.to_owned() }.write(&mut message);
        self.line.say(&message).map(|()| true)
    }
}
