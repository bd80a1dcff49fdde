//! The depot of a lease: a thread of its own that gives blobs to other nodes, fetches them there, checks what came, and
//! names what was made here.
//!
//! It never holds the engine's lock, nor the store's while bytes move. The engine leaves orders for it and finds its news,
//! on a board between them; each wakes the other.

mod arrivals;
mod fetches;
mod gate;
mod line;
mod naming;
mod preparing;
mod takers;
#[cfg(test)]
mod tests;
mod warden;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_shm::BlockPart;
use gristmill_store::Store;
use gristmill_transport::{ChannelError, Identity, Listener, Sleeper, Waker};
use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest, TaskId};

use super::options::BlobSizes;
use line::Sockets;

pub use gate::{DepotLine, Gate};
pub use warden::{Rest, Warden};

/// What the engine wants of its depot.
#[derive(Debug)]
pub(crate) enum Order {
    /// The block of a blob that is to be asked for has no pages yet.
    Prepare(BlobName),
    /// Bytes came over the engine's link.
    Follow,
    /// A blob is to be fetched at an address; none: not any more, and it is to be said how much of it came.
    Fetch(BlobName, String),
    /// A blob is to be read back from disk.
    Restore(BlobName),
    /// Nobody waits for a blob any more.
    Forget(Digest),
    /// A result is to get names.
    Name(Unnamed),
}

/// A result with large parts.
#[derive(Debug)]
pub(crate) struct Unnamed {
    /// Whose it is.
    pub task: TaskId,
    /// The task's place among the guests.
    pub place: u32,
    /// All its parts.
    pub parts: Vec<BlockPart>,
}

/// The same with names.
#[derive(Debug)]
pub(crate) struct Named {
    /// What was to be named.
    pub result: Unnamed,
    /// What its large parts are called, in the order of all its parts.
    pub names: Vec<Option<BlobName>>,
}

/// What the depot tells its engine.
#[derive(Debug)]
pub(crate) enum News {
    /// All of a blob is here.
    Here {
        /// Which.
        digest: Digest,
        /// Bytes that came from other nodes; none: it was here all the time, on disk.
        fetched: Option<u64>,
    },
    /// A blob does not come any more.
    Lacks {
        /// Which.
        name: BlobName,
        /// Bytes that came.
        received: u64,
        /// What became of its source.
        shortfall: Shortfall,
        /// The same in words.
        text: String,
    },
    /// A blob cannot be had: there is no memory for it. A sentence.
    Refused(Digest, String),
    /// Blobs went for which there is no room.
    Gone(Vec<Digest>),
    /// A result has its names.
    Named(Named),
}

#[derive(Debug, Default)]
struct Notes {
    orders: Vec<Order>,
    news: Vec<News>,
    is_over: bool,
}

/// What the engine and its depot leave for each other.
#[derive(Debug)]
struct Board {
    notes: Mutex<Notes>,
    /// Wakes whoever takes the news; none: nobody sleeps.
    engine: Option<Waker>,
}

impl Board {
    fn look(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, news: News) {
        self.look().news.push(news);
        if let Some(engine) = &self.engine {
            engine.wake();
        }
    }
}

/// The engine's end of a depot. Its end is the depot's.
#[derive(Debug)]
pub(crate) struct Depot {
    board: Arc<Board>,
    /// Wakes the thread; none: somebody else does what it would.
    waker: Option<Waker>,
    port: u16,
}

impl Depot {
    /// Starts a depot over a store, for other nodes if it can prove itself to them; `engine` wakes whoever takes its news.
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
        // Where nobody can listen others cannot fetch here, and the rest works.
        let listener = sibling.and_then(|identity| listen(identity).ok());
        let port = listener.as_ref().map_or(0, |listener| listener.address().port());
        let board = Arc::new(Board { notes: Mutex::new(Notes::default()), engine });
        let sockets = Sockets::new(Arc::clone(&sleeper), (listener, sibling.cloned()));
        let warden = Warden::new(store, Arc::clone(&board), sockets, BlobSizes::default());
        let builder = std::thread::Builder::new().name("gristmill-depot".to_owned());
        builder.spawn(move || warden.run(&sleeper))?;
        Ok(Self { board, waker: Some(waker), port })
    }

    /// A depot without a thread: whoever has its warden does what that would, a turn at a time. Other nodes are said to find
    /// it at a port.
    pub fn unmanned<G: Gate>(
        store: Store,
        (gate, port): (G, u16),
        sizes: BlobSizes,
    ) -> (Self, Warden<G>) {
        let board = Arc::new(Board { notes: Mutex::new(Notes::default()), engine: None });
        let warden = Warden::new(store, Arc::clone(&board), gate, sizes);
        (Self { board, waker: None, port }, warden)
    }

    /// Where other nodes get blobs from this one; 0: nowhere.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leaves an order.
    pub fn order(&self, order: Order) {
        self.board.look().orders.push(order);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Whether something happened since that was asked last.
    pub fn has_news(&self) -> bool {
        !self.board.look().news.is_empty()
    }

    /// What happened since this was asked last.
    pub fn take_news(&self) -> Vec<News> {
        std::mem::take(&mut self.board.look().news)
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        self.board.look().is_over = true;
        self.wake();
    }
}

/// Listens at any free port of all addresses: which of them others can reach is for them to find out.
fn listen(identity: &Identity) -> Result<Listener, ChannelError> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    Listener::bind(any, identity.clone()).or_else(|_| {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Listener::bind(any, identity.clone())
    })
}
