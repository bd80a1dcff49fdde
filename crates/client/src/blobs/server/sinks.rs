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

#[derive(Debug)]
struct BlobSink<L> {
    connection: L,
    /// Blob that it gets, and the number of bytes of it that it has or that are on their way.
    wants: Option<(BlobName, u64)>,
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
                self.sinks.push(BlobSink { connection, wants: None });
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
        }
        let mut has_more = false;
        for turn in 0..=TURN {
            has_more = turn == TURN;
            self.connection.flush()?;
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
                self.connection.say(&message).map(|()| true)
            }
            Ok(None) => self.refuse(name, "this node does not have it"),
            Err(error) => self.refuse(name, &error.to_string()),
        }
    }

    fn refuse(&mut self, name: BlobName, text: &str) -> Result<bool, String> {
        self.wants = None;
        let mut message = Vec::new();
        BlobMessage::Dropped { digest: name.digest, text: text.to_owned() }.write(&mut message);
        self.connection.say(&message).map(|()| true)
    }
}
