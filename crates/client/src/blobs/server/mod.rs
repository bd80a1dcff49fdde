//! Blob server of a lease: a thread that gives blobs to other nodes, fetches blobs from them, verifies the bytes that came,
//! and names the results that were made here.
//!
//! It never holds the engine's lock, nor the store's lock while bytes move. The engine leaves commands for it, and finds its
//! events, in a mailbox between them. Each wakes the other.

mod fetches;
mod inbound;
mod naming;
mod preparing;
mod server_loop;
mod sinks;
mod socket_connection;
#[cfg(test)]
mod tests;
mod transport;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_shm::BlockPart;
use gristmill_store::Store;
use gristmill_transport::{ChannelError, Identity, Listener, Sleeper, Waker};
use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest, TaskId};

use super::options::BlobSizes;
use socket_connection::SocketTransport;

pub use server_loop::{BlobServer, LoopStatus};
pub use transport::{BlobConnection, BlobTransport};

/// Command from the engine to its blob server.
#[derive(Debug)]
pub(crate) enum BlobServerCommand {
    /// The block of a blob that will be requested has no pages yet.
    Prepare(BlobName),
    /// Bytes came over the engine's link.
    Follow,
    /// A blob must be fetched at an address. An empty address ends the fetch, and the server reports how much came.
    Fetch(BlobName, String),
    /// A blob must be read back from disk.
    Restore(BlobName),
    /// No task waits for a blob any more.
    Forget(Digest),
    /// A result needs names.
    Name(UnnamedResult),
}

/// Result with large parts.
#[derive(Debug)]
pub(crate) struct UnnamedResult {
    /// Task that returned it.
    pub task: TaskId,
    /// Index of the task among the inbound tasks.
    pub place: u32,
    /// All its parts.
    pub parts: Vec<BlockPart>,
}

/// Result with names.
#[derive(Debug)]
pub(crate) struct NamedResult {
    /// Result that was named.
    pub result: UnnamedResult,
    /// Names of its large parts, in the order of all its parts.
    pub names: Vec<Option<BlobName>>,
}

/// Event from the blob server to its engine.
#[derive(Debug)]
pub(crate) enum BlobServerEvent {
    /// All of a blob is here.
    Here {
        /// Blob that is here.
        digest: Digest,
        /// Bytes that came from other nodes; `None` if the blob was on disk here.
        fetched: Option<u64>,
    },
    /// A blob does not come any more.
    Lacks {
        /// Blob that does not come.
        name: BlobName,
        /// Bytes that came.
        received: u64,
        /// Way in which the blob's source fell short.
        shortfall: Shortfall,
        /// Description of the failure.
        text: String,
    },
    /// A blob cannot be had, because there is no memory for it; with an error message.
    Refused(Digest, String),
    /// Blobs were dropped, because there is no room for them.
    Gone(Vec<Digest>),
    /// A result has its names.
    Named(NamedResult),
}

#[derive(Debug, Default)]
struct Notes {
    commands: Vec<BlobServerCommand>,
    events: Vec<BlobServerEvent>,
    is_over: bool,
}

/// Mailbox between the engine and its blob server.
#[derive(Debug)]
struct BlobServerMailbox {
    notes: Mutex<Notes>,
    /// Wakes the thread that takes the events; `None` if that thread never sleeps.
    engine: Option<Waker>,
}

impl BlobServerMailbox {
    fn look(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: BlobServerEvent) {
        self.look().events.push(event);
        if let Some(engine) = &self.engine {
            engine.wake();
        }
    }
}

/// Engine's end of a blob server. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct BlobServerHandle {
    mailbox: Arc<BlobServerMailbox>,
    /// Wakes the server's thread; `None` if the server has no thread and the caller runs it.
    waker: Option<Waker>,
    port: u16,
}

impl BlobServerHandle {
    /// Starts a blob server over a store. With `sibling`, which proves its identity, other nodes can fetch blobs from it.
    /// `engine` wakes the thread that takes its events.
    ///
    /// # Errors
    /// The system has no descriptors or threads left.
    pub fn start(
        store: Store,
        sibling: Option<&Identity>,
        engine: Option<Waker>,
    ) -> io::Result<Self> {
        let sleeper = Arc::new(Sleeper::new()?);
        let waker = sleeper.waker();
        // Without a listener other nodes cannot fetch blobs here. All else works.
        let listener = sibling.and_then(|identity| listen(identity).ok());
        let port = listener.as_ref().map_or(0, |listener| listener.address().port());
        let mailbox = Arc::new(BlobServerMailbox { notes: Mutex::new(Notes::default()), engine });
        let sockets = SocketTransport::new(Arc::clone(&sleeper), (listener, sibling.cloned()));
        let server = BlobServer::new(store, Arc::clone(&mailbox), sockets, BlobSizes::default());
        let builder = std::thread::Builder::new().name("gristmill-blobs".to_owned());
        builder.spawn(move || server.run(&sleeper))?;
        Ok(Self { mailbox, waker: Some(waker), port })
    }

    /// Creates a blob server without a thread: the caller runs the returned server, one turn at a time. Other nodes are told
    /// to find it at `port`.
    pub fn unmanned<G: BlobTransport>(
        store: Store,
        (transport, port): (G, u16),
        sizes: BlobSizes,
    ) -> (Self, BlobServer<G>) {
        let mailbox =
            Arc::new(BlobServerMailbox { notes: Mutex::new(Notes::default()), engine: None });
        let server = BlobServer::new(store, Arc::clone(&mailbox), transport, sizes);
        (Self { mailbox, waker: None, port }, server)
    }

    /// Returns the port where other nodes fetch blobs from this node; 0 if there is none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leaves a command for the server.
    pub fn send(&self, command: BlobServerCommand) {
        self.mailbox.look().commands.push(command);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Returns true if there are events that were not taken.
    pub fn has_events(&self) -> bool {
        !self.mailbox.look().events.is_empty()
    }

    /// Returns the events since the last call.
    pub fn take_events(&self) -> Vec<BlobServerEvent> {
        std::mem::take(&mut self.mailbox.look().events)
    }
}

impl Drop for BlobServerHandle {
    fn drop(&mut self) {
        self.mailbox.look().is_over = true;
        self.wake();
    }
}

/// Listens at a free port of all addresses. Other nodes find out which of these addresses they can reach.
fn listen(identity: &Identity) -> Result<Listener, ChannelError> {
    Listener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), identity.clone())
}
