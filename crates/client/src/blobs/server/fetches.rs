//! Blobs that are fetched from other nodes, each over a connection of its own.

use std::collections::BTreeMap;

use gristmill_store::Store;
use gristmill_wire::peer::{BlobMessage, MessageKind, Messages, Piece, Shortfall};
use gristmill_wire::{BlobName, Digest};

use super::transport::{BlobConnection, BlobTransport};

/// Time in which both nodes have to prove their identity, nanoseconds. It is short, because the client has the blob as well.
const HANDSHAKE_NS: u64 = 3_000_000_000;
/// Chunks of one blob that are handled before others have their turn.
const TURN: usize = 8;

#[derive(Debug)]
struct Fetch<L> {
    name: BlobName,
    connection: L,
    /// Address that the blob is fetched from, for messages.
    address: String,
}

/// Blobs that are fetched from other nodes.
#[derive(Debug)]
pub(super) struct Fetches<L> {
    fetches: BTreeMap<Digest, Fetch<L>>,
    chunk: Vec<u8>,
}

/// Result of one look at a fetch.
#[derive(Debug)]
enum FetchPoll {
    /// The fetch goes on: the number of bytes that came, and true if there is more to do at once.
    Goes(u64, bool),
    /// The blob does not come any more: the number of bytes that came, and an error message.
    Failed(u64, String),
}

impl<L: BlobConnection> Fetches<L> {
    pub const fn new() -> Self {
        Self { fetches: BTreeMap::new(), chunk: Vec::new() }
    }

    /// Starts to fetch a blob, and ends an earlier fetch of it. An error is a message in words.
    pub fn begin(
        &mut self,
        transport: &mut impl BlobTransport<Connection = L>,
        (name, address): (BlobName, String),
        now: u64,
    ) -> Result<(), String> {
        self.cease(name.digest);
        let connection = transport.connect(&address, now + HANDSHAKE_NS)?;
        self.fetches.insert(name.digest, Fetch { name, connection, address });
        Ok(())
    }

    /// Stops fetching a blob.
    pub fn cease(&mut self, digest: Digest) {
        self.fetches.remove(&digest);
    }

    /// Handles the bytes that came. Calls `came` with the number of bytes of each blob, and `failed` with an error message
    /// for each blob that does not come any more. Returns true if there is more to do at once.
    pub fn attend(
        &mut self,
        (store, transport): (&Store, &impl BlobTransport<Connection = L>),
        now: u64,
        mut came: impl FnMut(BlobName, u64),
        mut failed: impl FnMut(BlobName, String),
    ) -> bool {
        let Self { fetches, chunk } = self;
        let mut is_busy = false;
        fetches.retain(|_, fetch| match fetch.attend(store, chunk, now) {
            FetchPoll::Goes(count, has_more) => {
                came(fetch.name, count);
                is_busy |= has_more;
                transport.watch(&mut fetch.connection);
                true
            }
            FetchPoll::Failed(count, text) => {
                came(fetch.name, count);
                failed(fetch.name, format!("node at {}: {text}", fetch.address));
                false
            }
        });
        is_busy
    }
}

impl<L: BlobConnection> Fetch<L> {
    fn attend(&mut self, store: &Store, chunk: &mut Vec<u8>, now: u64) -> FetchPoll {
        let mut count = 0;
        match self.go_on(store, chunk, &mut count, now) {
            Ok(has_more) => FetchPoll::Goes(count, has_more),
            Err(text) => FetchPoll::Failed(count, text),
        }
    }

    fn go_on(
        &mut self,
        store: &Store,
        chunk: &mut Vec<u8>,
        count: &mut u64,
        now: u64,
    ) -> Result<bool, String> {
        if self.connection.open(now)? {
            self.request(store)?;
        }
        self.connection.flush()?;
        for _ in 0..TURN {
            if !self.connection.hear(chunk)? {
                return Ok(false);
            }
            for message in Messages::new(chunk) {
                let (kind, body) = message.map_err(|error| error.to_string())?;
                *count += self.take(store, kind, body)?;
            }
        }
        Ok(true)
    }

    /// Requests the bytes that have not come yet.
    fn request(&mut self, store: &Store) -> Result<(), String> {
        let received = store.progress(self.name.digest).map_or(0, |progress| progress.received);
        let (shortfall, text) = (Shortfall::None, String::new());
        let mut message = Vec::new();
        BlobMessage::Need { name: self.name, received, shortfall, text }.write(&mut message);
        self.connection.say(&message)
    }

    fn take(&self, store: &Store, kind: MessageKind, body: &[u8]) -> Result<u64, String> {
        let broken = |error: gristmill_wire::FrameError| error.to_string();
        if kind == MessageKind::Piece {
            let Piece { digest, offset, bytes } = Piece::read(body).map_err(broken)?;
            let is_taken = digest == self.name.digest && store.append(digest, offset, bytes);
            // A source that sends bytes which were not requested is not asked again.
            return if is_taken {
                Ok(bytes.len() as u64)
            } else {
                Err("it sent bytes that were not requested".into())
            };
        }
        match BlobMessage::read(kind, body).map_err(broken)? {
            Some(BlobMessage::Dropped { text, .. }) => Err(text),
            _ => Err(format!(
                "it sent a message of kind {kind:?}, which no answer to a request for a blob has"
            )),
        }
    }
}
