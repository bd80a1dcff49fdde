//! The door: how nodes come to a client.
//!
//! A thread of its own meets nodes: those that join it, at an address where it listens, and those that it dials. A node
//! that greets with its lease goes on where its connection broke; any other is asked for a lease. What is agreed is handed
//! to the client, whose links the door does not touch.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_sync::clock::monotonic_ns;
use gristmill_sync::random::Random;
use gristmill_transport::{ClientKey, Identity, Waker};
use gristmill_wire::peer::{Ask, Control, Grant, Greeting, MessageKind, Role};
use gristmill_wire::{PeerId, WIRE_VERSION};

use super::disagreement::disagreement;
use super::intake::PeerNews;
use super::links::NewLink;
use super::reception::{Host, Reception, ReceptionError, Talk, Turn};
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
}

/// What the door knows, for those who ask.
#[derive(Debug, Default)]
struct Board {
    /// What went wrong last, per address or name.
    troubles: Vec<(String, String)>,
    is_closing: bool,
}

/// A client's door, while its thread runs.
#[derive(Debug)]
pub struct Door {
    /// Where nodes join, if they may.
    pub address: Option<SocketAddr>,
    board: Arc<Mutex<Board>>,
    waker: Waker,
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
        let board = Arc::new(Mutex::new(Board::default()));
        let door = Self {
            address: reception.address(),
            board: Arc::clone(&board),
            waker: reception.waker(),
        };
        client.set_door(reception.waker());
        let porter = Porter {
            client: Arc::clone(client),
            board,
            random: Random::from_system()?,
            leases: HashMap::new(),
            kept: None,
            options,
        };
        let builder = std::thread::Builder::new().name("gristmill-door".to_owned());
        builder.spawn(move || porter.run(reception))?;
        Ok(door)
    }

    /// What went wrong with which node last, while it has not come.
    #[must_use]
    pub fn troubles(&self) -> Vec<(String, String)> {
        look(&self.board).troubles.clone()
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

/// Who stands at the door.
struct Porter {
    client: Arc<Client>,
    board: Arc<Mutex<Board>>,
    random: Random,
    /// Which peer has which lease.
    leases: HashMap<u64, PeerId>,
    /// The address and the lease of a link that was just made.
    kept: Option<(Option<usize>, u64)>,
    options: DoorOptions,
}

impl Porter {
    fn run(mut self, mut reception: Reception) {
        gristmill_sync::signals::block_all();
        while !look(&self.board).is_closing && !self.client.has_ended() {
            let now = monotonic_ns();
            reception.attend(&mut self, now);
            if let Some((dial, lease)) = self.kept.take() {
                reception.keep(dial, lease);
            }
            for news in self.client.take_news() {
                self.hear(news, &mut reception, now);
            }
            reception.sleep(now, u64::MAX);
        }
    }

    fn greeting(&self, lease: u64) -> Greeting {
        let received = self.leases.get(&lease).and_then(|&peer| self.client.received(peer));
        Greeting {
            wire_version: WIRE_VERSION,
            role: Role::Client,
            python: self.options.python.clone(),
            engine: self.options.engine.clone(),
            name: self.options.name.clone(),
            lease: if received.is_some() { lease } else { 0 },
            received: received.unwrap_or(0),
            offer: [0; 3],
            labels: String::new(),
        }
    }

    fn greet(&mut self, mut talk: Talk, theirs: Greeting) -> Turn {
        let own = (self.options.python.as_str(), self.options.engine.as_str());
        if let Some(text) = disagreement(&theirs, Role::Node, own) {
            talk.meeting.say(|out| {
                self.greeting(0).write(out);
                Control::Refuse { text: text.clone() }.write(out);
            });
            return Turn::Failed(Box::new(talk), text);
        }
        let known = self.leases.get(&theirs.lease).copied();
        let resumed = known.filter(|&peer| self.client.received(peer).is_some());
        let has_spoken = talk.dial.is_some();
        let answer = self.greeting(theirs.lease);
        if resumed.is_none() {
            talk.lease = self.random.next() | 1;
        }
        let ask = Ask { lease: talk.lease, ..self.options.ask.clone() };
        talk.meeting.say(|out| {
            if !has_spoken {
                answer.write(out);
            }
            if resumed.is_none() {
                ask.write(out);
            }
        });
        let Some(peer) = resumed else {
            talk.theirs = Some(theirs);
            return Turn::On(Box::new(talk));
        };
        if let Some(channel) = talk.meeting.into_channel() {
            self.client.reattach(peer, channel, theirs.received);
        }
        Turn::Done
    }

    fn settle(&mut self, talk: Talk, grant: &Grant, theirs: Greeting) {
        let mut board = look(&self.board);
        let address = talk.meeting.peer();
        board.troubles.retain(|(whom, _)| *whom != theirs.name && whom != address);
        drop(board);
        self.kept = Some((talk.dial, grant.lease));
        let Some(channel) = talk.meeting.into_channel() else { return };
        let Ask { beat_ns, expiry_ns, .. } = self.options.ask;
        let Grant { workers, ends_in_ns, .. } = *grant;
        let name = theirs.name;
        let link = NewLink { name, channel, beat_ns, expiry_ns, workers, ends_in_ns };
        let peer = self.client.attach(link);
        self.leases.insert(grant.lease, peer);
    }

    /// What became of links.
    fn hear(&mut self, news: PeerNews, reception: &mut Reception, now: u64) {
        let (peer, is_over) = match news {
            PeerNews::Parted { peer, .. } => (peer, false),
            PeerNews::Gone { peer, name, text } => {
                self.failed(&name, &text);
                (peer, true)
            }
        };
        let lease = self.leases.iter().find(|(_, one)| **one == peer).map(|(&lease, _)| lease);
        let Some(lease) = lease else { return };
        if is_over {
            self.leases.remove(&lease);
        }
        reception.redial(lease, is_over, now);
    }
}

impl Host for Porter {
    /// The end that dialled speaks first.
    fn open(&mut self, talk: &mut Talk) {
        if talk.dial.is_some() {
            let greeting = self.greeting(talk.lease);
            talk.meeting.say(|out| {
                greeting.write(out);
            });
        }
    }

    fn said(&mut self, mut talk: Talk, kind: MessageKind, body: &[u8]) -> Turn {
        let text = match kind {
            MessageKind::Greeting => match Greeting::read(body) {
                Ok(theirs) => return self.greet(talk, theirs),
                Err(error) => format!("it did not greet: {error}"),
            },
            MessageKind::Grant => match (Grant::read(body), talk.theirs.take()) {
                (Ok(grant), Some(theirs)) if grant.lease == talk.lease => {
                    self.settle(talk, &grant, theirs);
                    return Turn::Done;
                }
                _ => "it grants what nobody asked for".to_owned(),
            },
            other => match Control::read(other, body) {
                Ok(Some(Control::Refuse { text } | Control::End { text })) => text,
                _ => format!("it says {other:?} before a lease"),
            },
        };
        Turn::Failed(Box::new(talk), text)
    }

    fn failed(&mut self, whom: &str, text: &str) {
        let mut board = look(&self.board);
        board.troubles.retain(|(one, _)| one != whom);
        board.troubles.push((whom.to_owned(), text.to_owned()));
    }
}
