//! Other nodes that get blobs here: each has a connection, and is given what is there, and what comes, as it comes.

use gristmill_store::Store;
use gristmill_wire::peer::{BlobMessage, Messages, Piece};
use gristmill_wire::{BlobName, Digest};

use super::gate::{DepotLine, Gate};

/// Bytes on their way to one taker above which it is given nothing more for now.
const UNSENT_MAX: usize = 512 << 10;
/// Pieces that one taker is given before others have their turn.
const TURN: usize = 8;
/// More than the client's plan ever has at one giver.
const TAKERS_MAX: usize = 256;
/// How long who connects may take to prove who it is, nanoseconds.
const HANDSHAKE_NS: u64 = 10_000_000_000;

#[derive(Debug)]
struct Taker<L> {
    line: L,
    /// What it gets, and how much of that it has or is under way.
    wants: Option<(BlobName, u64)>,
}

/// Other nodes that get blobs here.
#[derive(Debug)]
pub(super) struct Takers<L> {
    takers: Vec<Taker<L>>,
    /// As large as a piece.
    piece: Vec<u8>,
    chunk: Vec<u8>,
}

impl<L: DepotLine> Takers<L> {
    /// None yet; they get pieces of so many bytes.
    pub fn new(piece_size: usize) -> Self {
        Self { takers: Vec::new(), piece: vec![0; piece_size], chunk: Vec::new() }
    }

    /// Takes connections that wait.
    pub fn accept(&mut self, gate: &mut impl Gate<Line = L>, now: u64) {
        while let Some(line) = gate.accept(now + HANDSHAKE_NS) {
            // Whoever cannot be taken now gets what it needs elsewhere.
            if self.takers.len() < TAKERS_MAX {
                self.takers.push(Taker { line, wants: None });
            }
        }
    }

    /// Gives what there is to give; whether there is more to do at once.
    pub fn attend(&mut self, store: &Store, gate: &impl Gate<Line = L>, now: u64) -> bool {
        let Self { takers, piece, chunk } = self;
        let mut is_busy = false;
        takers.retain_mut(|taker| {
            // Who breaks off, or says what nobody says here, is forgotten: it is told by that.
            let Ok(has_more) = taker.attend(store, (piece, chunk), now) else { return false };
            is_busy |= has_more;
            gate.watch(&mut taker.line);
            true
        });
        is_busy
    }

    /// What was given of a blob was wrong: those that get it have to begin anew, elsewhere.
    pub fn dismiss(&mut self, digest: Digest) {
        self.takers.retain(|taker| taker.wants.is_none_or(|(name, _)| name.digest != digest));
    }
}

impl<L: DepotLine> Taker<L> {
    fn attend(
        &mut self,
        store: &Store,
        (piece, chunk): (&mut [u8], &mut Vec<u8>),
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
    fn give(&mut self, store: &Store, piece: &mut [u8]) -> Result<bool, String> {
        let Some((name, offset)) = self.wants else { return Ok(false) };
        if self.line.unsent() > UNSENT_MAX || offset >= name.size {
            return Ok(false);
        }
        match store.read(name.digest, offset, piece) {
            Ok(Some(0)) => Ok(false),
            Ok(Some(count)) => {
                let mut message = Vec::with_capacity(count + 64);
                Piece::write(&mut message, (name.digest, offset), count, |space| {
                    space.copy_from_slice(&piece[..count]);
                });
                self.wants = Some((name, offset + count as u64));
                self.line.say(&message).map(|()| true)
            }
            Ok(None) => self.refuse(name, "it is not here"),
            Err(error) => self.refuse(name, &error.to_string()),
        }
    }

    fn refuse(&mut self, name: BlobName, text: &str) -> Result<bool, String> {
        self.wants = None;
        let mut message = Vec::new();
        BlobMessage::Dropped { digest: name.digest, text: text.to_owned() }.write(&mut message);
        self.line.say(&message).map(|()| true)
    }
}
