//! The door: how nodes come to a client.
//!
//! A thread of its own meets nodes: those that join it, at an address where it listens, and those that it dials. What is
//! said to them is the porter's business; what is agreed is handed to the client, whose links the door does not touch. When
//! none can come any more the client is told that nothing will run.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_sync::clock::monotonic_ns;
use gristmill_sync::random::Random;
use gristmill_transport::{ClientKey, Identity, Waker};

use gristmill_wire::peer::Ask;

use super::intake::{Departure, PeerNews};
use super::porter::{Porter, Terms};
use super::reception::{Reception, ReceptionError};
use crate::client::Client;

/// Who is told of a node, and what. Called by the door's thread.
pub type Told = Box<dyn Fn(&str, &str) + Send>;

/// What a door is made from.
pub struct DoorOptions {
    /// The client's key of its fleet.
    pub key: ClientKey,
    /// Where nodes may join; port 0 is any.
    pub listen: Option<SocketAddr>,
    /// Nodes that listen themselves, as `host:port`.
    pub dial: Vec<String>,
    /// What every node is asked for; the lease's number is filled in.
    pub ask: Ask,
    /// This interpreter, as in `3.11`.
    pub python: String,
    /// This engine.
    pub engine: String,
    /// What this program is called, for messages.
    pub name: String,
    /// When no node is wanted any more, monotonic nanoseconds; `u64::MAX` is not known.
    pub ends_at_ns: u64,
    /// How many nodes there can be; none: nobody knows.
    pub nodes_max: Option<usize>,
    /// Told of each node that has failed for good: what it is called, and why.
    pub told: Told,
}

/// A node that is gone for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepartedNode {
    /// What it was called.
    pub name: String,
    /// Why.
    pub text: String,
    /// It said so itself; otherwise it was lost.
    pub has_ended: bool,
}

/// Departures that are kept for whoever asks; older ones are forgotten.
const DEPARTURES_MAX: usize = 1000;

/// What the door knows, for those who ask.
#[derive(Debug)]
struct Board {
    /// What went wrong last, per address or name.
    troubles: Vec<(String, String)>,
    departures: VecDeque<DepartedNode>,
    /// How many there were before these.
    forgotten: usize,
    is_closing: bool,
    /// When no node is wanted any more.
    ends_at_ns: u64,
}

/// A client's door, while its thread runs.
#[derive(Debug)]
pub struct Door {
    /// Where nodes join, if they may.
    pub address: Option<SocketAddr>,
    board: Arc<Mutex<Board>>,
    waker: Waker,
}

impl Board {
    fn note(&mut self, news: &PeerNews) {
        let PeerNews::Gone { name, text, how, .. } = news else { return };
        if self.departures.len() == DEPARTURES_MAX {
            self.departures.pop_front();
            self.forgotten += 1;
        }
        let (name, text) = (name.to_string(), text.clone());
        let has_ended = *how != Departure::Lost;
        self.departures.push_back(DepartedNode { name, text, has_ended });
    }
}

fn look(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Door {
    /// Opens a door for a client that has [`crate::LinkUse::Outwards`].
    ///
    /// # Errors
    /// [`ReceptionError`].
    pub fn open(client: &Arc<Client>, options: DoorOptions) -> Result<Self, ReceptionError> {
        let identity = Identity::of_client(&options.key);
        let reception = Reception::new(identity, options.listen, &options.dial)?;
        let ends_at_ns = options.ends_at_ns;
        let board = Board {
            troubles: Vec::new(),
            departures: VecDeque::new(),
            forgotten: 0,
            is_closing: false,
            ends_at_ns,
        };
        let board = Arc::new(Mutex::new(board));
        let door = Self {
            address: reception.address(),
            board: Arc::clone(&board),
            waker: reception.waker(),
        };
        client.set_door(reception.waker());
        let DoorOptions { ask, python, engine, name, nodes_max, told, .. } = options;
        let terms = Terms { ask, python, engine, name, ends_at_ns, nodes_max };
        let porter = Porter::new(Arc::clone(client), terms, Random::from_system()?);
        let client = Arc::clone(client);
        let builder = std::thread::Builder::new().name("gristmill-door".to_owned());
        builder.spawn(move || stand((porter, reception), &client, &board, &told))?;
        Ok(door)
    }

    /// What went wrong with which node last, while it has not come.
    #[must_use]
    pub fn troubles(&self) -> Vec<(String, String)> {
        look(&self.board).troubles.clone()
    }

    /// How many nodes have gone for good so far, and which of them after the first so many.
    #[must_use]
    pub fn departures(&self, known: usize) -> (usize, Vec<DepartedNode>) {
        let board = look(&self.board);
        let Board { departures, forgotten, .. } = &*board;
        let new = departures.iter().skip(known.saturating_sub(*forgotten)).cloned().collect();
        (forgotten + departures.len(), new)
    }

    /// Whoever comes from now on is wanted until then, monotonic nanoseconds.
    pub fn set_end(&self, ends_at_ns: u64) {
        look(&self.board).ends_at_ns = ends_at_ns;
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        look(&self.board).is_closing = true;
        self.waker.wake();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.close();
    }
}

/// Lets the porter work until nobody is to be let in any more.
fn stand(
    (mut porter, mut reception): (Porter<Arc<Client>>, Reception),
    client: &Arc<Client>,
    board: &Mutex<Board>,
    told: &Told,
) {
    gristmill_sync::signals::block_all();
    while !look(board).is_closing && !client.is_over() {
        let now = monotonic_ns();
        porter.set_end(look(board).ends_at_ns);
        reception.attend(&mut porter, now);
        for (dial, lease) in std::mem::take(&mut porter.kept) {
            reception.dials.keep(dial, lease);
            // The end may have come to be known, or been moved, after the node was asked.
            let ends_at_ns = look(board).ends_at_ns;
            if let Some(peer) = porter.peer_of(lease).filter(|_| ends_at_ns != u64::MAX) {
                client.extend_peer(peer, ends_at_ns.saturating_sub(now));
            }
        }
        for news in client.take_news() {
            look(board).note(&news);
            if let Some((lease, redial)) = porter.hear(news, now) {
                reception.dials.redial(lease, redial, now);
            }
        }
        porter.failures.drain(..).for_each(|(name, text)| told(&name, &text));
        if let Some(text) = porter.verdict(now) {
            client.give_up_workers(&text);
        }
        if let Some(text) = client.failure() {
            // Whoever comes is told so, and need not try again.
            porter.close(&text);
            reception.dials.give_all_up();
        }
        look(board).troubles.clone_from(&porter.troubles);
        reception.sleep(now, u64::MAX);
    }
    // A node that was asked for a lease may have granted it by now.
    reception.close();
}
