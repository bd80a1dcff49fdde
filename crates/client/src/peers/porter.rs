//! The porter: what is said to nodes that come to a client, and which of them has which lease.
//!
//! A node that greets with its lease goes on where its connection broke; any other is asked for a lease. What is agreed is
//! handed to the client. No thread, socket or clock: whoever has those calls it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use gristmill_sync::random::Random;
use gristmill_transport::Channel;
use gristmill_wire::peer::{Ask, Control, Grant, Greeting, MessageKind, Role};
use gristmill_wire::{PeerId, WIRE_VERSION};

use super::dials::Redial;
use super::disagreement::disagreement;
use super::intake::{Departure, PeerNews};
use super::links::NewLink;
use super::meeting::Conversation;
use super::prospects::{Prospects, Which};
use super::reception::{Host, Talk, Turn};
use super::trouble::Trouble;
use crate::client::Client;

/// Troubles that are kept: strangers leave one for each host.
const TROUBLES_MAX: usize = 1000;

/// An engine that takes links over.
pub trait LinkOwner {
    /// Takes a link in: tasks go there from now on, and come from there.
    fn attach(&self, new: NewLink) -> PeerId;

    /// Goes on with a link over another connection, whose other end has `received` chunks. False: the link is gone.
    fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool;

    /// Chunks that came over a link, while there is one.
    fn received(&self, peer: PeerId) -> Option<u64>;
}

impl LinkOwner for Arc<Client> {
    fn attach(&self, new: NewLink) -> PeerId {
        Client::attach(self, new)
    }

    fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        Client::reattach(self, peer, channel, received)
    }

    fn received(&self, peer: PeerId) -> Option<u64> {
        Client::received(self, peer)
    }
}

/// What a client says to each node.
#[derive(Debug, Clone)]
pub struct Terms {
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
}

/// Who stands at the door.
pub struct Porter<L> {
    owner: L,
    random: Random,
    /// Which peer has which lease, and which node it is.
    leases: HashMap<u64, (PeerId, Which)>,
    /// The addresses and leases of links that were just made.
    pub kept: Vec<(Option<usize>, u64)>,
    /// What went wrong last, per address or name.
    pub troubles: Vec<(String, String)>,
    /// Nodes that have failed for good since somebody looked, and why.
    pub failures: Vec<(String, String)>,
    prospects: Prospects,
    /// Why nobody gets a lease any more.
    closed: Option<String>,
    terms: Terms,
}

impl<L: LinkOwner> Porter<L> {
    /// Who hands links to `owner`; leases get their numbers from `random`.
    pub fn new(owner: L, terms: Terms, random: Random) -> Self {
        Self {
            owner,
            random,
            leases: HashMap::new(),
            kept: Vec::new(),
            troubles: Vec::new(),
            failures: Vec::new(),
            prospects: Prospects::new(terms.nodes_max),
            closed: None,
            terms,
        }
    }

    fn greeting(&self, lease: u64) -> Greeting {
        let received = self.leases.get(&lease).and_then(|(peer, _)| self.owner.received(*peer));
        Greeting {
            wire_version: WIRE_VERSION,
            role: Role::Client,
            python: self.terms.python.clone(),
            engine: self.terms.engine.clone(),
            name: self.terms.name.clone(),
            lease: if received.is_some() { lease } else { 0 },
            received: received.unwrap_or(0),
            offer: [0; 3],
            labels: String::new(),
        }
    }

    /// Whoever joins from now on is wanted until then, monotonic nanoseconds.
    pub const fn set_end(&mut self, ends_at_ns: u64) {
        self.terms.ends_at_ns = ends_at_ns;
    }

    fn greet<M: Conversation>(&mut self, mut talk: Talk<M>, theirs: Greeting, now: u64) -> Turn<M> {
        if let Some(text) = self.why_not(&theirs, talk.dial) {
            talk.meeting.say(|out| {
                self.greeting(0).write(out);
                Control::Refuse { text: text.clone(), is_final: true }.write(out);
            });
            talk.theirs = Some(theirs);
            return Turn::Failed(Box::new(talk), Trouble::lasting(text));
        }
        let known = self.leases.get(&theirs.lease).map(|(peer, _)| *peer);
        let resumed = known.filter(|&peer| self.owner.received(peer).is_some());
        let has_spoken = talk.dial.is_some();
        let answer = self.greeting(theirs.lease);
        if resumed.is_none() {
            talk.lease = self.random.next() | 1;
        }
        let duration_ns = match self.terms.ends_at_ns {
            u64::MAX => self.terms.ask.duration_ns,
            ends_at_ns => ends_at_ns.saturating_sub(now).min(self.terms.ask.duration_ns),
        };
        let ask = Ask { lease: talk.lease, duration_ns, ..self.terms.ask.clone() };
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
            self.owner.reattach(peer, channel, theirs.received);
        }
        Turn::Done
    }

    /// Why a node that greets will never get a lease.
    fn why_not(&self, theirs: &Greeting, dial: Option<usize>) -> Option<String> {
        let own = (self.terms.python.as_str(), self.terms.engine.as_str());
        let has_failed = || self.prospects.why(&which(dial, &theirs.name)).map(str::to_owned);
        disagreement(theirs, Role::Node, own).or_else(|| self.closed.clone()).or_else(has_failed)
    }

    fn settle<M: Conversation>(&mut self, talk: Talk<M>, grant: &Grant, theirs: Greeting) {
        let node = which(talk.dial, &theirs.name);
        let address = talk.meeting.peer();
        self.troubles.retain(|(whom, _)| *whom != theirs.name && whom != address);
        if talk.dial.is_none() {
            self.forget_knocks(address);
        }
        self.kept.push((talk.dial, grant.lease));
        let Some(channel) = talk.meeting.into_channel() else { return };
        let Ask { beat_ns, expiry_ns, .. } = self.terms.ask;
        let (Greeting { name, labels, .. }, grant) = (theirs, *grant);
        let link = NewLink { name, channel, beat_ns, expiry_ns, grant, labels };
        let peer = self.owner.attach(link);
        self.leases.insert(grant.lease, (peer, node));
    }

    /// What became of a link; the lease whose address that concerns, and what is to become of it.
    pub fn hear(&mut self, news: PeerNews, now: u64) -> Option<(u64, Redial)> {
        match news {
            PeerNews::Parted { peer, .. } => Some((self.lease_of(peer)?, Redial::Resume)),
            PeerNews::Gone { peer, name, text, how, had_workers } => {
                self.note(&name, &text);
                let lease = self.lease_of(peer)?;
                let (_, which) = self.leases.remove(&lease)?;
                if how == Departure::Failed {
                    self.fail(which, &name, &text, now);
                    return Some((lease, Redial::Never));
                }
                if had_workers {
                    self.prospects.thrive();
                }
                Some((lease, Redial::Anew))
            }
            // Only clients have leases that can last longer.
            PeerNews::Extend { .. } => None,
        }
    }

    fn lease_of(&self, peer: PeerId) -> Option<u64> {
        self.leases.iter().find(|(_, one)| one.0 == peer).map(|(&lease, _)| lease)
    }

    /// Whose a lease is.
    pub fn peer_of(&self, lease: u64) -> Option<PeerId> {
        self.leases.get(&lease).map(|(peer, _)| *peer)
    }

    /// Why no task will ever run, once that is certain: no node is there, and those that there can be have failed for good.
    pub fn verdict(&self, now: u64) -> Option<String> {
        let is_open = self.leases.is_empty() && self.closed.is_none();
        if is_open { self.prospects.verdict(now) } else { None }
    }

    /// Nobody gets a lease any more, for this reason.
    pub fn close(&mut self, reason: &str) {
        self.closed = Some(reason.to_owned());
    }

    fn fail(&mut self, which: Which, name: &str, text: &str, now: u64) {
        if self.prospects.fail(which, name, text, now) {
            self.failures.push((name.to_owned(), text.to_owned()));
        }
    }

    /// Forgets who came from a host and did not say a name: a stranger, or a node that only looked whether it can come.
    fn forget_knocks(&mut self, from: &str) {
        if let Some(host) = host_of(from) {
            self.troubles.retain(|(one, _)| host_of(one) != Some(host));
        }
    }

    fn note(&mut self, whom: &str, text: &str) {
        self.troubles.retain(|(one, _)| one != whom);
        if self.troubles.len() == TROUBLES_MAX {
            self.troubles.remove(0);
        }
        self.troubles.push((whom.to_owned(), text.to_owned()));
    }
}

impl<L: LinkOwner, M: Conversation> Host<M> for Porter<L> {
    /// The end that dialled speaks first.
    fn open(&mut self, talk: &mut Talk<M>) {
        if talk.dial.is_some() {
            let greeting = self.greeting(talk.lease);
            talk.meeting.say(|out| {
                greeting.write(out);
            });
        }
    }

    fn said(&mut self, mut talk: Talk<M>, said: (MessageKind, &[u8]), now: u64) -> Turn<M> {
        let (kind, body) = said;
        let text = match kind {
            MessageKind::Greeting => match Greeting::read(body) {
                Ok(theirs) => return self.greet(talk, theirs, now),
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
                Ok(Some(Control::Refuse { text, is_final })) => {
                    return Turn::Failed(Box::new(talk), Trouble { text, is_final });
                }
                Ok(Some(Control::End { text })) => text,
                _ => format!("it says {other:?} before a lease"),
            },
        };
        Turn::Failed(Box::new(talk), Trouble::passing(text))
    }

    fn failed(&mut self, whom: &str, dial: Option<usize>, trouble: &Trouble, now: u64) {
        if dial.is_none() {
            self.forget_knocks(whom);
        }
        self.note(whom, &trouble.text);
        if trouble.is_final && self.closed.is_none() {
            self.fail(which(dial, whom), whom, &trouble.text, now);
        }
    }
}

/// Which node one is that was dialled, or that joins with a name.
fn which(dial: Option<usize>, name: &str) -> Which {
    // One that has not said its name is known by its address, whose port is another one each time.
    let host = || host_of(name).map_or_else(|| name.to_owned(), |host| host.to_string());
    dial.map_or_else(|| Which::Joining(host()), Which::Dialled)
}

/// The host of an address; none: it is a name.
fn host_of(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests;
