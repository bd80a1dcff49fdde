//! The door: how nodes come to a client.
//!
//! A thread of its own meets nodes: those that join it, at an address where it listens, and those that it dials. What is
//! said to them is the porter's business; what is agreed is handed to the client, whose links the door does not touch.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_sync::clock::monotonic_ns;
use gristmill_sync::random::Random;
use gristmill_transport::{ClientKey, Identity, Waker};

use gristmill_wire::peer::Ask;

use super::intake::PeerNews;
use super::porter::{Porter, Terms};
use super::reception::{Reception, ReceptionError};
use crate::client::Client;

/// What a door is made from.
#[derive(Debug)]
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
}

/// A node that is gone for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
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
    departures: VecDeque<Departure>,
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
        let PeerNews::Gone { name, text, has_ended, .. } = news else { return };
        if self.departures.len() == DEPARTURES_MAX {
            self.departures.pop_front();
        }
        let (name, text) = (name.to_string(), text.clone());
        self.departures.push_back(Departure { name, text, has_ended: *has_ended });
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
        let DoorOptions { ask, python, engine, name, .. } = options;
        let terms = Terms { ask, python, engine, name, ends_at_ns };
        let porter = Porter::new(Arc::clone(client), terms, Random::from_system()?);
        let client = Arc::clone(client);
        let builder = std::thread::Builder::new().name("gristmill-door".to_owned());
        builder.spawn(move || stand(porter, reception, &client, &board))?;
        Ok(door)
    }

    /// What went wrong with which node last, while it has not come.
    #[must_use]
    pub fn troubles(&self) -> Vec<(String, String)> {
        look(&self.board).troubles.clone()
    }

    /// Which nodes have gone for good since the last time that somebody asked.
    #[must_use]
    pub fn take_departures(&self) -> Vec<Departure> {
        look(&self.board).departures.drain(..).collect()
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
    mut porter: Porter<Arc<Client>>,
    mut reception: Reception,
    client: &Arc<Client>,
    board: &Mutex<Board>,
) {
    gristmill_sync::signals::block_all();
    while !look(board).is_closing && !client.has_ended() {
        let now = monotonic_ns();
        porter.set_end(look(board).ends_at_ns);
        reception.attend(&mut porter, now);
        for (dial, lease) in porter.kept.drain(..) {
            reception.dials.keep(dial, lease);
        }
        for news in client.take_news() {
            look(board).note(&news);
            if let Some((lease, is_over)) = porter.hear(news) {
                reception.dials.redial(lease, is_over, now);
            }
        }
        look(board).troubles.clone_from(&porter.troubles);
        reception.sleep(now, u64::MAX);
    }
}
