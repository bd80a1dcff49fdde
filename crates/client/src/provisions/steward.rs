//! Whoever makes files ready, in a thread of its own beside the engine: it reads and writes disks, and unpacks.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use gristmill_shm::BlockPart;
use gristmill_transport::Waker;
use gristmill_wire::Digest;

/// One use of the files of one context; no two in a process are the same.
pub type Ticket = u64;

/// Files that were brought: what each is called, and its bytes.
pub type Brought = Vec<(Digest, BlockPart)>;

/// Whoever makes the files of contexts ready on a node. Errors are sentences.
pub trait Steward: fmt::Debug + Send + Sync {
    /// Which files of a context are to be brought here. All others are here, and stay until they are let go of.
    ///
    /// # Errors
    /// They cannot be had here.
    fn look(&self, ticket: Ticket, setup: &[u8]) -> Result<Vec<Digest>, String>;

    /// Makes ready what was brought; gives the setup as the context's processes are told it on this node.
    ///
    /// # Errors
    /// They cannot be made ready here.
    fn provide(&self, ticket: Ticket, setup: &[u8], files: Brought) -> Result<Vec<u8>, String>;

    /// They are not needed any more.
    fn let_go(&self, ticket: Ticket);
}

/// What the engine wants.
#[derive(Debug)]
pub(super) enum Order {
    Look(Ticket, Arc<[u8]>),
    Provide(Ticket, Arc<[u8]>, Brought),
    LetGo(Ticket),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum News {
    Lacks(Ticket, Vec<Digest>),
    Ready(Ticket, Vec<u8>),
    Failed(Ticket, String),
}

/// The engine's end of the thread, whose end is the thread's: it lets go of everything then.
#[derive(Debug)]
pub(super) struct Desk {
    orders: Sender<Order>,
    news: Arc<Mutex<Vec<News>>>,
}

impl Desk {
    /// Starts the thread; `engine` wakes whoever takes the news.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn start(steward: Arc<dyn Steward>, engine: Waker) -> io::Result<Self> {
        let (orders, taken) = channel();
        let news = Arc::default();
        let told = Arc::clone(&news);
        let builder = std::thread::Builder::new().name("gristmill-files".to_owned());
        builder.spawn(move || serve(&*steward, &taken, &told, &engine))?;
        Ok(Self { orders, news })
    }

    pub fn order(&self, order: Order) {
        // The thread ends after this only.
        let _ = self.orders.send(order);
    }

    pub fn has_news(&self) -> bool {
        !self.news.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn take_news(&self) -> Vec<News> {
        std::mem::take(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(steward: &dyn Steward, orders: &Receiver<Order>, news: &Mutex<Vec<News>>, engine: &Waker) {
    let mut held = BTreeSet::new();
    while let Ok(order) = orders.recv() {
        let (Order::Look(ticket, _) | Order::Provide(ticket, ..) | Order::LetGo(ticket)) = order;
        held.insert(ticket);
        // Whoever waits for it is told, whatever becomes of it.
        let told = catch_unwind(AssertUnwindSafe(|| obey(steward, order)))
            .unwrap_or_else(|_| Some(News::Failed(ticket, "the steward panicked".to_owned())));
        match told {
            Some(told) => {
                news.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                engine.wake();
            }
            None => {
                held.remove(&ticket);
            }
        }
    }
    held.into_iter().for_each(|ticket| steward.let_go(ticket));
}

/// Carries an order out; says what came of it, but for what is let go of.
fn obey(steward: &dyn Steward, order: Order) -> Option<News> {
    Some(match order {
        Order::Look(ticket, setup) => match steward.look(ticket, &setup) {
            Ok(lacking) => News::Lacks(ticket, lacking),
            Err(text) => News::Failed(ticket, text),
        },
        Order::Provide(ticket, setup, files) => match steward.provide(ticket, &setup, files) {
            Ok(setup) => News::Ready(ticket, setup),
            Err(text) => News::Failed(ticket, text),
        },
        Order::LetGo(ticket) => {
            steward.let_go(ticket);
            return None;
        }
    })
}
