//! Lease negotiator of a client: the messages to nodes in handshakes, and the table of leases.
//!
//! A node that greets with its lease resumes where its connection broke. Any other node is asked for a lease. The client
//! receives the agreed links. The negotiator has no thread, socket or clock: its caller has them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use gristmill_sync::random::Random;
use gristmill_transport::Channel;
use gristmill_wire::peer::{Control, Greeting, LeaseGrant, LeaseRequest, MessageKind, Role};
use gristmill_wire::{PeerId, WIRE_VERSION};

use super::dials::Redial;
use super::disagreement::disagreement;
use super::handshake::HandshakeChannel;
use super::handshake_failure::HandshakeFailure;
use super::handshake_server::{HandshakeNext, Host, PendingHandshake};
use super::intake::{Departure, PeerEvent};
use super::links::NewLink;
use super::node_failures::{NodeFailures, NodeRef};
use crate::client::Client;

/// Number of failures that are kept, and bytes of their names and texts: strangers leave one for each host.
const LAST_FAILURES_MAX: usize = 1000;
const LAST_FAILURES_SIZE_MAX: usize = 1 << 20;

/// An engine that takes over links.
pub trait LinkOwner {
    /// Attaches a link: tasks go there from now on, and come from there.
    fn attach(&self, new: NewLink) -> PeerId;

    /// Resumes a link over another connection, whose other end has `received` chunks; returns false if the link is gone.
    fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool;

    /// Returns the number of chunks that came over a link, or `None` if there is no such link.
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

/// Terms that a client states to each node.
#[derive(Debug, Clone)]
pub struct LeaseTerms {
    /// Lease request that every node receives; the lease's number is filled in.
    pub request: LeaseRequest,
    /// Version of this interpreter, as in `3.11`.
    pub python: String,
    /// Version of this engine.
    pub engine: String,
    /// Name of this program, for messages.
    pub name: String,
    /// Time after which no node is wanted any more, monotonic nanoseconds; `u64::MAX` if it is not known.
    pub ends_at_ns: u64,
    /// Maximum number of nodes; `None` if it is not known.
    pub nodes_max: Option<usize>,
    /// The largest message that the client takes in several chunks, bytes.
    pub message_max: u64,
}

/// State machine that negotiates leases with nodes.
pub struct LeaseNegotiator<L> {
    owner: L,
    random: Random,
    /// Peer and node of each lease.
    leases: HashMap<u64, (PeerId, NodeRef)>,
    /// Links that were just made: the index of the dial (`None` if the node connected itself), and the lease.
    pub kept: Vec<(Option<usize>, u64)>,
    /// Last failure of each address or name.
    pub last_failures: Vec<(String, String)>,
    /// Nodes that have failed for good since this list was emptied, each with the reason.
    pub failures: Vec<(String, String)>,
    node_states: NodeFailures,
    /// Reason why no node gets a lease any more.
    closed: Option<String>,
    terms: LeaseTerms,
}

impl<L: LinkOwner> LeaseNegotiator<L> {
    /// Creates a negotiator that hands links to `owner` and draws the numbers of leases from `random`.
    pub fn new(owner: L, terms: LeaseTerms, random: Random) -> Self {
        Self {
            owner,
            random,
            leases: HashMap::new(),
            kept: Vec::new(),
            last_failures: Vec::new(),
            failures: Vec::new(),
            node_states: NodeFailures::new(terms.nodes_max),
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
            message_max: self.terms.message_max,
            labels: String::new(),
        }
    }

    /// Sets the time until which nodes that join from now on are wanted, monotonic nanoseconds.
    pub const fn set_end(&mut self, ends_at_ns: u64) {
        self.terms.ends_at_ns = ends_at_ns;
    }

    fn greet<M: HandshakeChannel>(
        &mut self,
        mut pending: PendingHandshake<M>,
        theirs: Greeting,
        now: u64,
    ) -> HandshakeNext<M> {
        if let Some(text) = self.why_not(&theirs, pending.dial) {
            pending.handshake.say(|out| {
                self.greeting(0).write(out);
                Control::Refuse { text: text.clone(), is_final: true }.write(out);
            });
            pending.theirs = Some(theirs);
            return HandshakeNext::Failed(Box::new(pending), HandshakeFailure::lasting(text));
        }
        let known = self.leases.get(&theirs.lease).map(|(peer, _)| *peer);
        let resumed = known.filter(|&peer| self.owner.received(peer).is_some());
        let has_spoken = pending.dial.is_some();
        let answer = self.greeting(theirs.lease);
        if resumed.is_none() {
            pending.lease = self.random.next() | 1;
        }
        let duration_ns = match self.terms.ends_at_ns {
            u64::MAX => self.terms.request.duration_ns,
            ends_at_ns => ends_at_ns.saturating_sub(now).min(self.terms.request.duration_ns),
        };
        let request =
            LeaseRequest { lease: pending.lease, duration_ns, ..self.terms.request.clone() };
        pending.handshake.say(|out| {
            if !has_spoken {
                answer.write(out);
            }
            if resumed.is_none() {
                request.write(out);
            }
        });
        let Some(peer) = resumed else {
            pending.theirs = Some(theirs);
            return HandshakeNext::On(Box::new(pending));
        };
        if let Some(channel) = pending.handshake.into_channel() {
            self.owner.reattach(peer, channel, theirs.received);
        }
        HandshakeNext::Done
    }

    /// Returns why a node that greets will never get a lease, or `None` if it may get one.
    fn why_not(&self, theirs: &Greeting, dial: Option<usize>) -> Option<String> {
        let own = (self.terms.python.as_str(), self.terms.engine.as_str());
        let has_failed = || self.node_states.why(&which(dial, &theirs.name)).map(str::to_owned);
        disagreement(theirs, Role::Node, own).or_else(|| self.closed.clone()).or_else(has_failed)
    }

    fn settle<M: HandshakeChannel>(
        &mut self,
        pending: PendingHandshake<M>,
        grant: &LeaseGrant,
        theirs: Greeting,
    ) {
        let node = which(pending.dial, &theirs.name);
        let address = pending.handshake.peer();
        self.last_failures.retain(|(whom, _)| *whom != theirs.name && whom != address);
        if pending.dial.is_none() {
            self.forget_knocks(address);
        }
        self.kept.push((pending.dial, grant.lease));
        let Some(channel) = pending.handshake.into_channel() else { return };
        let LeaseRequest { beat_ns, expiry_ns, .. } = self.terms.request;
        let (Greeting { name, labels, message_max, .. }, grant) = (theirs, *grant);
        let own_name = String::new();
        let link =
            NewLink { name, channel, beat_ns, expiry_ns, grant, labels, own_name, message_max };
        let peer = self.owner.attach(link);
        self.leases.insert(grant.lease, (peer, node));
    }

    /// Processes an event of a peer; returns the lease whose address it concerns, and the action for that address.
    pub fn hear(&mut self, event: PeerEvent, now: u64) -> Option<(u64, Redial)> {
        match event {
            PeerEvent::Parted { peer, .. } => Some((self.lease_of(peer)?, Redial::Resume)),
            PeerEvent::Gone { peer, name, text, how, had_workers } => {
                self.note(&name, &text);
                let lease = self.lease_of(peer)?;
                let (_, which) = self.leases.remove(&lease)?;
                if how == Departure::Failed {
                    self.fail(which, &name, &text, now);
                    return Some((lease, Redial::Never));
                }
                if had_workers {
                    self.node_states.thrive();
                }
                Some((lease, Redial::Anew))
            }
            // Only clients send `Extend`, to the engine of a lease. A client ignores it.
            PeerEvent::Extend { .. } => None,
        }
    }

    fn lease_of(&self, peer: PeerId) -> Option<u64> {
        self.leases.iter().find(|(_, one)| one.0 == peer).map(|(&lease, _)| lease)
    }

    /// Returns the peer that has a lease.
    pub fn peer_of(&self, lease: u64) -> Option<PeerId> {
        self.leases.get(&lease).map(|(peer, _)| *peer)
    }

    /// Returns why no task will ever run, once that is certain: no node is there, and all possible nodes have failed for good.
    pub fn verdict(&self, now: u64) -> Option<String> {
        let is_open = self.leases.is_empty() && self.closed.is_none();
        if is_open { self.node_states.verdict(now) } else { None }
    }

    /// Refuses a lease to every node from now on, for this reason.
    pub fn close(&mut self, reason: &str) {
        self.closed = Some(reason.to_owned());
    }

    fn fail(&mut self, which: NodeRef, name: &str, text: &str, now: u64) {
        if self.node_states.fail(which, name, text, now) {
            self.failures.push((name.to_owned(), text.to_owned()));
        }
    }

    /// Forgets failures of connections that came from a host and gave no name: those of strangers, and those of a node that
    /// tried a connection before it joined.
    fn forget_knocks(&mut self, from: &str) {
        if let Some(host) = host_of(from) {
            self.last_failures.retain(|(one, _)| host_of(one) != Some(host));
        }
    }

    fn note(&mut self, whom: &str, text: &str) {
        self.last_failures.retain(|(one, _)| one != whom);
        self.last_failures.push((whom.to_owned(), text.to_owned()));
        let size_of = |(whom, text): &(String, String)| whom.len() + text.len();
        let mut size: usize = self.last_failures.iter().map(size_of).sum();
        while self.last_failures.len() > LAST_FAILURES_MAX || size > LAST_FAILURES_SIZE_MAX {
            size -= size_of(&self.last_failures.remove(0));
        }
    }
}

impl<L: LinkOwner, M: HandshakeChannel> Host<M> for LeaseNegotiator<L> {
    /// Greets the other end if this end dialled: the end that dialled speaks first.
    fn open(&mut self, pending: &mut PendingHandshake<M>) {
        if pending.dial.is_some() {
            let greeting = self.greeting(pending.lease);
            pending.handshake.say(|out| {
                greeting.write(out);
            });
        }
    }

    fn said(
        &mut self,
        mut pending: PendingHandshake<M>,
        said: (MessageKind, &[u8]),
        now: u64,
    ) -> HandshakeNext<M> {
        let (kind, body) = said;
        let text = match kind {
            MessageKind::Greeting => match Greeting::read(body) {
                Ok(theirs) => return self.greet(pending, theirs, now),
                Err(error) => format!("its greeting cannot be read: {error}"),
            },
            MessageKind::Grant => match (LeaseGrant::read(body), pending.theirs.take()) {
                (Ok(grant), Some(theirs)) if grant.lease == pending.lease => {
                    self.settle(pending, &grant, theirs);
                    return HandshakeNext::Done;
                }
                _ => "it granted a lease that was not requested".to_owned(),
            },
            other => match Control::read(other, body) {
                Ok(Some(Control::Refuse { text, is_final })) => {
                    return HandshakeNext::Failed(
                        Box::new(pending),
                        HandshakeFailure { text, is_final },
                    );
                }
                Ok(Some(Control::End { text })) => text,
                _ => format!("it sent {other:?} before the lease was granted"),
            },
        };
        HandshakeNext::Failed(Box::new(pending), HandshakeFailure::passing(text))
    }

    fn answered(&mut self, whom: &str) {
        self.last_failures.retain(|(one, _)| one != whom);
    }

    fn failed(&mut self, whom: &str, dial: Option<usize>, failure: &HandshakeFailure, now: u64) {
        if dial.is_none() {
            self.forget_knocks(whom);
        }
        self.note(whom, &failure.text);
        if failure.is_final && self.closed.is_none() {
            self.fail(which(dial, whom), whom, &failure.text, now);
        }
    }
}

/// Identifies a node that was dialled, or that joins with a name.
fn which(dial: Option<usize>, name: &str) -> NodeRef {
    // A node that has not said its name is known by its host, because its port is another one each time.
    let host = || host_of(name).map_or_else(|| name.to_owned(), |host| host.to_string());
    dial.map_or_else(|| NodeRef::Joining(host()), NodeRef::Dialled)
}

/// Returns the host of an address, or `None` if it is a name.
fn host_of(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests;
