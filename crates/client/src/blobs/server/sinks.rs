//! Sinks: other nodes that get blobs here. Each has a connection, and is sent bytes as soon as they are here.

use gristmill_store::Store;
use gristmill_wire::peer::{BlobMessage, Messages, Piece};
use gristmill_wire::{BlobName, Digest};

use super::transport::{BlobConnection, BlobTransport};

/// Unsent bytes above which a sink is sent nothing more for now.
const UNSENT_MAX: usize = 512 << 10;
/// Pieces that one sink is sent before others have their turn.
const TURN: usize = 8;
/// Maximum number of sinks: more than the client's plan ever assigns to one source.
const TAKERS_MAX: usize = 256;
/// Time in which a node that connects has to prove its identity, nanoseconds.
const HANDSHAKE_NS: u64 = 10_000_000_000;
/// Longest time for which a connected node may neither request a blob nor read bytes that wait for it, nanoseconds. A node
/// that has all bytes needs about a second for each gigabyte to verify them, and then closes its connection.
const IDLE_NS: u64 = 60_000_000_000;

#[derive(Debug)]
struct BlobSink<L> {
    connection: L,
    /// Blob that it gets, and the number of bytes of it that it has or that are on their way.
    wants: Option<(BlobName, u64)>,
    /// Bytes that it was sent, with those that it has not read.
    sent: u64,
    /// Bytes that it had read when it was seen to do something, and the time of that.
    seen: (u64, u64),
}

/// Other nodes that get blobs here.
#[derive(Debug)]
pub(super) struct BlobSinks<L> {
    sinks: Vec<BlobSink<L>>,
    /// Buffer of the size of a piece.
    piece: Vec<u8>,
    chunk: Vec<u8>,
}

impl<L: BlobConnection> BlobSinks<L> {
    /// Creates an empty set of sinks, which are sent pieces of `piece_size` bytes.
    pub fn new(piece_size: usize) -> Self {
        Self { sinks: Vec::new(), piece: vec![0; piece_size], chunk: Vec::new() }
    }

    /// Accepts connections that wait.
    pub fn accept(&mut self, transport: &mut impl BlobTransport<Connection = L>, now: u64) {
        while let Some(connection) = transport.accept(now + HANDSHAKE_NS) {
            // A node that is turned away gets its blob elsewhere.
            if self.sinks.len() < TAKERS_MAX {
                self.sinks.push(BlobSink { connection, wants: None, sent: 0, seen: (0, now) });
            }
        }
    }

    /// Sends the bytes that are ready. Returns true if there is more to do at once.
    pub fn attend(
        &mut self,
        store: &Store,
        transport: &impl BlobTransport<Connection = L>,
        now: u64,
    ) -> bool {
        let Self { sinks, piece, chunk } = self;
        let mut is_busy = false;
        sinks.retain_mut(|sink| {
            // A sink whose connection breaks, or that sends a message not allowed here, is removed. The closed connection
            // tells it so.
            let Ok(has_more) = sink.attend(store, (piece, chunk), now) else { return false };
            is_busy |= has_more;
            transport.watch(&mut sink.connection);
            true
        });
        is_busy
    }

    /// Removes the sinks of a blob whose bytes were wrong: they have to begin anew, elsewhere.
    pub fn cancel(&mut self, digest: Digest) {
        self.sinks.retain(|sink| sink.wants.is_none_or(|(name, _)| name.digest != digest));
    }
}

impl<L: BlobConnection> BlobSink<L> {
    fn attend(
        &mut self,
        store: &Store,
        (piece, chunk): (&mut [u8], &mut Vec<u8>),
        now: u64,
    ) -> Result<bool, String> {
        self.connection.open(now)?;
        for _ in 0..TURN {
            if !self.connection.hear(chunk)? {
                break;
            }
            self.take(chunk)?;
            self.seen.1 = now;
        }
        let mut has_more = false;
        for turn in 0..=TURN {
            has_more = turn == TURN;
            self.connection.flush()?;
            if has_more || !self.give(store, piece)? {
                break;
            }
        }
        self.check_idle(now)?;
        Ok(has_more)
    }

    /// Returns an error if the node does nothing for too long, although the next step is its own: it keeps its place from
    /// others.
    fn check_idle(&mut self, now: u64) -> Result<(), String> {
        let unsent = self.connection.unsent() as u64;
        let read = self.sent.saturating_sub(unsent);
        let waits = unsent == 0 && self.wants.is_some_and(|(name, offset)| offset < name.size);
        if waits || read != self.seen.0 {
            self.seen = (read, now);
        }
        if now.saturating_sub(self.seen.1) < IDLE_NS {
            return Ok(());
        }
        Err(format!("it has requested and read nothing for {} s", IDLE_NS / 1_000_000_000))
    }

    /// Sends messages, which count as unread until the node reads them.
    fn say(&mut self, messages: &[u8]) -> Result<(), String> {
        self.sent += messages.len() as u64;
        self.connection.say(messages)
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), String> {
        for message in Messages::new(chunk) {
            let (kind, body) = message.map_err(|error| error.to_string())?;
            match BlobMessage::read(kind, body).map_err(|error| error.to_string())? {
                Some(BlobMessage::Need { name, received, .. }) => {
                    self.wants = Some((name, received));
                }
                _ => return Err(format!("a message of kind {kind:?} is no request for a blob")),
            }
        }
        Ok(())
    }

    /// Sends the next piece. Returns false if there is no piece now, or no room for one.
    fn give(&mut self, store: &Store, piece: &mut [u8]) -> Result<bool, String> {
        let Some((name, offset)) = self.wants else { return Ok(false) };
        if self.connection.unsent() > UNSENT_MAX || offset >= name.size {
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
                self.say(&message).map(|()| true)
            }
            Ok(None) => self.refuse(name, "this node does not have it"),
            Err(error) => self.refuse(name, &error.to_string()),
        }
    }

    fn refuse(&mut self, name: BlobName, text: &str) -> Result<bool, String> {
        self.wants = None;
        let mut message = Vec::new();
        BlobMessage::Dropped { digest: name.digest, text: text.to_owned() }.write(&mut message);
        self.say(&message).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use gristmill_shm::ClientArena;
    use gristmill_store::{BlobLimits, InsertOutcome, digest_of};
    use gristmill_wire::peer::Shortfall;

    use super::*;

    const PIECE_SIZE: usize = 128 << 10;

    /// A connection of a node that requests a blob once, and reads nothing. It counts the bytes that wait for the node.
    struct Silent {
        request: Option<Vec<u8>>,
        waiting: Rc<RefCell<usize>>,
    }

    impl BlobConnection for Silent {
        fn open(&mut self, _: u64) -> Result<bool, String> {
            Ok(false)
        }

        fn say(&mut self, messages: &[u8]) -> Result<(), String> {
            *self.waiting.borrow_mut() += messages.len();
            Ok(())
        }

        fn flush(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String> {
            Ok(self.request.take().map(|request| *chunk = request).is_some())
        }

        fn unsent(&self) -> usize {
            *self.waiting.borrow()
        }
    }

    /// A transport at which some of these nodes wait.
    struct Queue {
        name: BlobName,
        count: usize,
        /// True if they request a blob.
        requests: bool,
        waiting: Rc<RefCell<usize>>,
    }

    impl BlobTransport for Queue {
        type Connection = Silent;

        fn accept(&mut self, _: u64) -> Option<Silent> {
            self.count = self.count.checked_sub(1)?;
            let (shortfall, text) = (Shortfall::None, String::new());
            let mut request = Vec::new();
            BlobMessage::Need { name: self.name, received: 0, shortfall, text }.write(&mut request);
            let request = self.requests.then_some(request);
            Some(Silent { request, waiting: Rc::clone(&self.waiting) })
        }

        fn connect(&mut self, _: &str, _: u64) -> Result<Silent, String> {
            Err("no other node is there".to_owned())
        }
    }

    /// Returns a store with a blob of 8 MB, and a transport at which `count` nodes wait that request it.
    fn nodes(count: usize) -> (Store, Queue) {
        let arena = ClientArena::create(0).expect("an arena");
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
        let store = Store::new(arena.clone(), limits);
        let part = arena.store(&vec![7; 8 << 20]).expect("a block");
        let name = BlobName { digest: digest_of(&part), size: 8 << 20 };
        assert!(matches!(store.adopt(name, &part), InsertOutcome::Here(_)));
        (store, Queue { name, count, requests: true, waiting: Rc::default() })
    }

    #[test]
    fn nodes_beyond_the_limit_are_turned_away() {
        let (_, mut transport) = nodes(3 * TAKERS_MAX);
        let mut sinks = BlobSinks::new(PIECE_SIZE);
        sinks.accept(&mut transport, 0);
        assert_eq!((sinks.sinks.len(), transport.count), (TAKERS_MAX, 0));
    }

    #[test]
    fn a_bounded_number_of_bytes_waits_for_a_node_that_reads_nothing() {
        let (store, mut transport) = nodes(1);
        let mut sinks = BlobSinks::new(PIECE_SIZE);
        sinks.accept(&mut transport, 0);
        while sinks.attend(&store, &transport, 0) {}
        let waiting = *transport.waiting.borrow();
        assert!((UNSENT_MAX..UNSENT_MAX + 2 * PIECE_SIZE).contains(&waiting), "{waiting}");
    }

    #[test]
    fn a_node_that_reads_nothing_or_requests_nothing_loses_its_place() {
        for requests in [true, false] {
            let (store, mut transport) = nodes(1);
            transport.requests = requests;
            let mut sinks = BlobSinks::new(PIECE_SIZE);
            sinks.accept(&mut transport, 5);
            while sinks.attend(&store, &transport, 5) {}
            let mut count_at = |now| {
                sinks.attend(&store, &transport, now);
                sinks.sinks.len()
            };
            assert_eq!((count_at(IDLE_NS + 4), count_at(IDLE_NS + 5)), (1, 0), "{requests}");
        }
    }

    #[test]
    fn a_node_that_reads_slowly_or_waits_for_bytes_keeps_its_place() {
        let (store, mut transport) = nodes(1);
        let mut sinks = BlobSinks::new(PIECE_SIZE);
        sinks.accept(&mut transport, 0);
        for turn in 0..20 {
            while sinks.attend(&store, &transport, turn * (IDLE_NS - 1)) {}
            let waiting = transport.waiting.take();
            transport.waiting.replace(waiting - 1);
        }
        assert_eq!(sinks.sinks.len(), 1, "it reads");
        // It has read all that it was sent, and bytes that are not here are not its fault.
        transport.waiting.replace(0);
        sinks.sinks[0].wants = Some((BlobName { size: u64::MAX, ..transport.name }, 8 << 20));
        for turn in 20..23 {
            while sinks.attend(&store, &transport, turn * (IDLE_NS - 1)) {}
        }
        assert_eq!(sinks.sinks.len(), 1, "it waits");
    }
}
