//! Blobs that are fetched from other nodes, each over a connection of its own.

use std::collections::BTreeMap;

use gristmill_store::Store;
use gristmill_wire::peer::{BlobMessage, MessageKind, Messages, Piece, Shortfall};
use gristmill_wire::{BlobName, Digest};

use super::transport::{BlobConnection, BlobTransport};

/// Time in which both nodes have to prove their identity, nanoseconds. It is short, because the client has the blob as well.
const HANDSHAKE_NS: u64 = 3_000_000_000;
/// Longest time in which no bytes come from a connected node, nanoseconds. The node may wait for bytes itself; but if only the
/// way between the two nodes is cut, neither the system nor the client notices.
const SILENT_NS: u64 = 60_000_000_000;
/// Chunks of one blob that are handled before others have their turn.
const TURN: usize = 8;

#[derive(Debug)]
struct Fetch<L> {
    name: BlobName,
    connection: L,
    /// Address that the blob is fetched from, for messages.
    address: String,
    /// Time at which bytes came last, or the connection was begun, ns.
    last_ns: u64,
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
        self.fetches.insert(name.digest, Fetch { name, connection, address, last_ns: now });
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
        let went_on = self.go_on(store, chunk, &mut count, now);
        if count > 0 {
            self.last_ns = now;
        }
        match went_on {
            Err(text) => FetchPoll::Failed(count, text),
            Ok(_) if now.saturating_sub(self.last_ns) >= SILENT_NS => {
                let text = format!("no bytes have come for {} s", SILENT_NS / 1_000_000_000);
                FetchPoll::Failed(count, text)
            }
            Ok(has_more) => FetchPoll::Goes(count, has_more),
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use gristmill_shm::ClientArena;
    use gristmill_store::{BlobAvailability, BlobLimits, digest_of};

    use super::*;

    /// A connection to a node that sends a piece of a blob whenever the test has put one there.
    struct Slow(Rc<RefCell<Option<Vec<u8>>>>);

    impl BlobConnection for Slow {
        fn open(&mut self, _: u64) -> Result<bool, String> {
            Ok(false)
        }

        fn say(&mut self, _: &[u8]) -> Result<(), String> {
            Ok(())
        }

        fn flush(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String> {
            Ok(self.0.take().map(|piece| *chunk = piece).is_some())
        }

        fn unsent(&self) -> usize {
            0
        }
    }

    struct Nodes(Rc<RefCell<Option<Vec<u8>>>>);

    impl BlobTransport for Nodes {
        type Connection = Slow;

        fn accept(&mut self, _: u64) -> Option<Slow> {
            None
        }

        fn connect(&mut self, _: &str, _: u64) -> Result<Slow, String> {
            Ok(Slow(Rc::clone(&self.0)))
        }
    }

    #[test]
    fn a_node_that_sends_nothing_for_too_long_is_given_up() {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
        let store = Store::new(arena.clone(), limits);
        let content = arena.store(&vec![7; 1 << 20]).expect("a block");
        let name = BlobName { digest: digest_of(&content), size: 1 << 20 };
        assert!(matches!(store.want(name), Ok(BlobAvailability::Missing(_))));
        let piece = Rc::new(RefCell::new(None));
        let mut transport = Nodes(Rc::clone(&piece));
        let (mut fetches, begun) = (Fetches::new(), 5);
        let address = "192.0.2.1:7".to_owned();
        fetches.begin(&mut transport, (name, address), begun).expect("it connects");
        let mut failures_at = |now| {
            let mut failures = Vec::new();
            let fail = |_, text| failures.push(text);
            let _ = fetches.attend((&store, &transport), now, |_, _| (), fail);
            failures
        };
        let came = begun + SILENT_NS - 1;
        let mut message = Vec::new();
        Piece::write(&mut message, (name.digest, 0), 1000, |space| space.fill(7));
        piece.replace(Some(message));
        assert!(failures_at(came).is_empty());
        assert!(failures_at(came + SILENT_NS - 1).is_empty(), "bytes have come meanwhile");
        let failures = failures_at(came + SILENT_NS);
        assert_eq!(failures, ["node at 192.0.2.1:7: no bytes have come for 60 s"]);
        assert!(failures_at(came + 2 * SILENT_NS).is_empty(), "it is told once");
    }
}
