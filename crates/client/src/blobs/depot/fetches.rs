//! Blobs that are fetched from other nodes: one connection each.

use std::collections::BTreeMap;

use gristmill_store::Store;
use gristmill_wire::peer::{BlobMessage, MessageKind, Messages, Piece, Shortfall};
use gristmill_wire::{BlobName, Digest};

use super::gate::{DepotLine, Gate};

/// How long another node may take until both have proved who they are, nanoseconds: the client has the blob as well.
const HANDSHAKE_NS: u64 = 3_000_000_000;
/// Chunks that are taken in of one blob before others have their turn.
const TURN: usize = 8;

#[derive(Debug)]
struct Fetch<L> {
    name: BlobName,
    line: L,
    /// Where it is fetched, for messages.
    address: String,
}

/// Blobs that are fetched from other nodes.
#[derive(Debug)]
pub(super) struct Fetches<L> {
    fetches: BTreeMap<Digest, Fetch<L>>,
    chunk: Vec<u8>,
}

/// What came of a look at one of them.
#[derive(Debug)]
enum Look {
    /// So many bytes came; whether there is more to do at once.
    Goes(u64, bool),
    /// It does not come any more; a sentence.
    Failed(u64, String),
}

impl<L: DepotLine> Fetches<L> {
    pub const fn new() -> Self {
        Self { fetches: BTreeMap::new(), chunk: Vec::new() }
    }

    /// Begins to fetch a blob, and ceases to do so elsewhere. An error is a sentence.
    pub fn begin(
        &mut self,
        gate: &mut impl Gate<Line = L>,
        (name, address): (BlobName, String),
        now: u64,
    ) -> Result<(), String> {
        self.cease(name.digest);
        let line = gate.connect(&address, now + HANDSHAKE_NS)?;
        self.fetches.insert(name.digest, Fetch { name, line, address });
        Ok(())
    }

    /// Ceases to fetch a blob.
    pub fn cease(&mut self, digest: Digest) {
        self.fetches.remove(&digest);
    }

    /// Takes in what came: `came` is told of the bytes of a blob, `failed` of those that do not come any more, with a
    /// sentence. Whether there is more to do at once.
    pub fn attend(
        &mut self,
        (store, gate): (&Store, &impl Gate<Line = L>),
        now: u64,
        mut came: impl FnMut(BlobName, u64),
        mut failed: impl FnMut(BlobName, String),
    ) -> bool {
        let Self { fetches, chunk } = self;
        let mut is_busy = false;
        fetches.retain(|_, fetch| match fetch.attend(store, chunk, now) {
            Look::Goes(count, has_more) => {
                came(fetch.name, count);
                is_busy |= has_more;
                gate.watch(&mut fetch.line);
                true
            }
            Look::Failed(count, text) => {
                came(fetch.name, count);
                failed(fetch.name, format!("node at {}: {text}", fetch.address));
                false
            }
        });
        is_busy
    }
}

impl<L: DepotLine> Fetch<L> {
    fn attend(&mut self, store: &Store, chunk: &mut Vec<u8>, now: u64) -> Look {
        let mut count = 0;
        match self.go_on(store, chunk, &mut count, now) {
            Ok(has_more) => Look::Goes(count, has_more),
            Err(text) => Look::Failed(count, text),
        }
    }

    fn go_on(
        &mut self,
        store: &Store,
        chunk: &mut Vec<u8>,
        count: &mut u64,
        now: u64,
    ) -> Result<bool, String> {
        if self.line.open(now)? {
            self.ask(store)?;
        }
        self.line.flush()?;
        for _ in 0..TURN {
            if !self.line.hear(chunk)? {
                return Ok(false);
            }
            for message in Messages::new(chunk) {
                let (kind, body) = message.map_err(|error| error.to_string())?;
                *count += self.take(store, kind, body)?;
            }
        }
        Ok(true)
    }

    /// Asks for what has not come yet.
    fn ask(&mut self, store: &Store) -> Result<(), String> {
        let received = store.progress(self.name.digest).map_or(0, |progress| progress.received);
        let (shortfall, text) = (Shortfall::None, String::new());
        let mut message = Vec::new();
        BlobMessage::Need { name: self.name, received, shortfall, text }.write(&mut message);
        self.line.say(&message)
    }

    fn take(&self, store: &Store, kind: MessageKind, body: &[u8]) -> Result<u64, String> {
        let broken = |error: gristmill_wire::FrameError| error.to_string();
        if kind == MessageKind::Piece {
            let Piece { digest, offset, bytes } = Piece::read(body).map_err(broken)?;
            let is_taken = digest == self.name.digest && store.append(digest, offset, bytes);
            // Who gives bytes that were not asked for is not asked again.
            return if is_taken {
                Ok(bytes.len() as u64)
            } else {
                Err("it gave other bytes".into())
            };
        }
        match BlobMessage::read(kind, body).map_err(broken)? {
            Some(BlobMessage::Dropped { text, .. }) => Err(text),
            _ => Err(format!("it said {kind:?}")),
        }
    }
}
