//! The lease server: answers the clients of a node, knows the lease of each client, and decides when a lease ends.
//!
//! It has no thread, socket, process or clock: the caller has those, and the engines of leases are behind [`EngineFactory`].

use std::collections::{BTreeMap, VecDeque};

use gristmill_client::{
    Departure, Dials, HandshakeChannel, HandshakeFailure, HandshakeNext, Host, LinkOwner, NewLink,
    PeerEvent, PendingHandshake, Redial, disagreement,
};
use gristmill_wire::peer::{Control, Greeting, LeaseGrant, LeaseRequest, MessageKind, Role};
use gristmill_wire::{PeerId, WIRE_VERSION};

use crate::Capacity;
use crate::affinity::CpuSlotAffinity;
use crate::leases::{Leases, RefusedLease};
use crate::start_failures::{StartFailureCache, WorkerSpecHash};

/// The engine of a lease: runs the lease's tasks, which come over a link.
pub trait LeaseEngine: LinkOwner {
    /// Returns the events of the engine's link since the last call.
    fn take_events(&self) -> VecDeque<PeerEvent>;

    /// Accepts no more tasks, and gives back the tasks that have not started.
    fn drain(&self, text: &str);

    /// Returns true if every task of the engine has ended and the client has confirmed every answer.
    fn is_drained(&self) -> bool;

    /// Extends the lease to `duration_ns` nanoseconds from now on: tells its client, and accepts tasks again if it drained.
    fn last(&self, peer: PeerId, duration_ns: u64);

    /// Tells the client that the lease is over.
    fn end_links(&self, text: &str);

    /// Begins to end the engine and all of its processes.
    fn begin_end(&self, reason: &str);

    /// Returns true if every process of the engine is gone.
    fn has_ended(&self) -> bool;
}

/// A starter of the engines of leases.
pub trait EngineFactory {
    /// The engine of a lease.
    type Engine: LeaseEngine;

    /// Starts the engine of a lease whose workers have these CPU slots of the node.
    ///
    /// # Errors
    /// A sentence for the client.
    fn start(
        &mut self,
        request: &LeaseRequest,
        grant: &LeaseGrant,
        cpu_slots: &[u16],
    ) -> Result<Self::Engine, String>;
}

/// The description of a node that the agent sends to clients, and the limits of its leases.
#[derive(Debug, Clone)]
pub struct NodeDescription {
    /// Version of this interpreter, as in `3.11`.
    pub python: String,
    /// Version of this engine.
    pub engine: String,
    /// Name of this node.
    pub name: String,
    /// Resources that the agent can grant.
    pub capacity: Capacity,
    /// NUMA nodes and GPUs that the worker of each CPU slot is bound to.
    pub affinity: CpuSlotAffinity,
    /// Labels, as `name=value` lines.
    pub labels: String,
    /// The largest message that an engine here takes in several chunks, bytes.
    pub message_max: u64,
    /// True if the node joins clients. It has nothing more to do once one of them has finished.
    pub joins: bool,
    /// Time that tasks have to finish before the end of a lease, nanoseconds.
    pub drain_ns: u64,
    /// The shortest time for which a lease is granted, nanoseconds.
    pub lease_min_ns: u64,
    /// Time at which the node ends, monotonic nanoseconds; `u64::MAX` means unknown.
    pub ends_at: u64,
}

struct LeaseSession<E> {
    engine: E,
    peer: PeerId,
    /// Name of the client.
    name: String,
    /// Hash of the worker spec that the client requested.
    spec: WorkerSpecHash,
}

/// Time after which the share of an ended lease is free again even if some of its processes are still there, nanoseconds: the
/// kernel may hold up a process for ever.
const LEAVE_MAX_NS: u64 = 10_000_000_000;

/// The engine of a lease that is over but still has processes.
struct Leaving<E> {
    lease: u64,
    engine: E,
    /// Time at which the share becomes free in any case, monotonic nanoseconds.
    until_ns: u64,
}

/// The leases of a node, and the answers in its handshakes.
pub struct LeaseServer<H: EngineFactory> {
    facts: NodeDescription,
    factory: H,
    leases: Leases,
    sessions: BTreeMap<u64, LeaseSession<H::Engine>>,
    leaving: Vec<Leaving<H::Engine>>,
    failed: StartFailureCache,
    /// Queue of the links that were just made, which the agent empties: the index of the dial (`None` if the client connected
    /// itself) and the lease.
    pub kept: Vec<(Option<usize>, u64)>,
    /// The text of the last failure.
    pub failure: String,
}

impl<H: EngineFactory> LeaseServer<H> {
    /// Creates the lease server of a node without leases.
    pub fn new(facts: NodeDescription, factory: H) -> Self {
        Self {
            leases: Leases::new(facts.capacity, facts.affinity.clone(), facts.drain_ns),
            sessions: BTreeMap::new(),
            leaving: Vec::new(),
            failed: StartFailureCache::default(),
            kept: Vec::new(),
            failure: "no client connected".to_owned(),
            facts,
            factory,
        }
    }

    /// Returns true if no client has a lease.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.leases.is_empty()
    }

    /// Returns the time at which the next lease starts to drain or ends.
    #[must_use]
    pub fn next_end(&self) -> Option<u64> {
        self.leases.next_end()
    }

    fn greeting(&self, lease: u64) -> Greeting {
        let session = self.sessions.get(&lease);
        let received = session.and_then(|session| session.engine.received(session.peer));
        let capacity = self.facts.capacity;
        Greeting {
            wire_version: WIRE_VERSION,
            role: Role::Node,
            python: self.facts.python.clone(),
            engine: self.facts.engine.clone(),
            name: self.facts.name.clone(),
            lease: if received.is_some() { lease } else { 0 },
            received: received.unwrap_or(0),
            offer: [capacity.workers.into(), capacity.memory, capacity.gpus.into()],
            message_max: self.facts.message_max,
            labels: self.facts.labels.clone(),
        }
    }

    fn greet<M: HandshakeChannel>(
        &mut self,
        mut pending: PendingHandshake<M>,
        theirs: Greeting,
    ) -> HandshakeNext<M> {
        let own = (self.facts.python.as_str(), self.facts.engine.as_str());
        if let Some(text) = disagreement(&theirs, Role::Client, own) {
            pending.handshake.say(|out| {
                self.greeting(0).write(out);
                Control::Refuse { text: text.clone(), is_final: true }.write(out);
            });
            pending.theirs = Some(theirs);
            return HandshakeNext::Failed(Box::new(pending), HandshakeFailure::lasting(text));
        }
        if pending.dial.is_none() {
            let greeting = self.greeting(theirs.lease);
            pending.handshake.say(|out| {
                greeting.write(out);
            });
        }
        let Some(session) = self.sessions.get(&theirs.lease) else {
            pending.theirs = Some(theirs);
            return HandshakeNext::On(Box::new(pending));
        };
        if let Some(channel) = pending.handshake.into_channel() {
            session.engine.reattach(session.peer, channel, theirs.received);
        }
        HandshakeNext::Done
    }

    fn lease<M: HandshakeChannel>(
        &mut self,
        mut pending: PendingHandshake<M>,
        request: &LeaseRequest,
        now: u64,
    ) -> HandshakeNext<M> {
        let spec = WorkerSpecHash::of(pending.name(), request);
        let (grant, engine) = match self.try_lease(spec, request, now) {
            Ok(started) => started,
            Err(HandshakeFailure { text, is_final }) => {
                pending.handshake.say(|out| {
                    Control::Refuse { text: text.clone(), is_final }.write(out);
                });
                // The message tells the client whether the failure is final. For the agent none is: it dials a joined
                // client again until that client refuses for good.
                return HandshakeNext::Failed(Box::new(pending), HandshakeFailure::passing(text));
            }
        };
        pending.handshake.say(|out| {
            grant.write(out);
        });
        let (name, dial) = (pending.name().to_owned(), pending.dial);
        let message_max = pending.theirs.as_ref().map_or(0, |theirs| theirs.message_max);
        if let Some(channel) = pending.handshake.into_channel() {
            // The workers start while the first tasks are on their way.
            let link = NewLink {
                name: name.clone(),
                channel,
                beat_ns: request.beat_ns,
                expiry_ns: request.expiry_ns,
                grant: LeaseGrant::NOTHING,
                labels: String::new(),
                own_name: self.facts.name.clone(),
                message_max,
            };
            let peer = engine.attach(link);
            self.sessions.insert(request.lease, LeaseSession { engine, peer, name, spec });
            self.kept.push((dial, request.lease));
        }
        HandshakeNext::Done
    }

    /// Begins a lease. Refuses it if no worker could be started for the same worker spec before: it would fail in the same way.
    fn try_lease(
        &mut self,
        spec: WorkerSpecHash,
        request: &LeaseRequest,
        now: u64,
    ) -> Result<(LeaseGrant, H::Engine), HandshakeFailure> {
        if let Some(text) = self.failed.why(spec) {
            return Err(HandshakeFailure::lasting(text));
        }
        let ends_in_ns = self.left(request.duration_ns, now);
        let granted = if ends_in_ns < self.facts.lease_min_ns {
            Err(RefusedLease::TooShort { left_ms: ends_in_ns / 1_000_000 })
        } else {
            self.leases.grant(request, now)
        };
        let grant = granted.map_err(|refused| {
            let (text, is_final) = (refused.to_string(), refused.is_final());
            HandshakeFailure { text, is_final }
        })?;
        let cpu_slots = self.leases.cpu_slots(request.lease);
        match self.factory.start(request, &grant, cpu_slots) {
            Ok(engine) => Ok((LeaseGrant { ends_in_ns, ..grant }, engine)),
            Err(text) => {
                self.leases.end(request.lease);
                Err(HandshakeFailure::passing(text))
            }
        }
    }

    /// Returns `duration_ns`, shortened to the time that the node lasts, nanoseconds; `u64::MAX` means no end.
    fn left(&self, duration_ns: u64, now: u64) -> u64 {
        let ends_at = now.saturating_add(duration_ns).min(self.facts.ends_at);
        if ends_at == u64::MAX { u64::MAX } else { ends_at.saturating_sub(now) }
    }

    /// Handles the events of all links. Returns true if a client that the node joined has finished.
    pub fn hear(&mut self, dials: &mut Dials, now: u64) -> bool {
        let mut is_finished = false;
        let leases: Vec<u64> = self.sessions.keys().copied().collect();
        for lease in leases {
            let events = self.sessions[&lease].engine.take_events();
            for one in events {
                let (text, how) = match one {
                    PeerEvent::Parted { .. } => {
                        dials.redial(lease, Redial::Resume, now);
                        continue;
                    }
                    PeerEvent::Extend { peer, duration_ns } => {
                        self.extend(lease, peer, (duration_ns, now));
                        continue;
                    }
                    PeerEvent::Gone { text, how, .. } => (text, how),
                };
                if how == Departure::Failed
                    && let Some(session) = self.sessions.get(&lease)
                {
                    self.failed.note(session.spec, &text);
                }
                dials.redial(lease, Redial::Anew, now);
                self.end(lease, &text, now);
                // A client that was lost may come back when the network does.
                is_finished |= self.facts.joins && how == Departure::Ended;
            }
        }
        is_finished
    }

    /// Makes a lease last for the time that its client wants, from now on, limited by the end of the node. Does nothing if the
    /// node drains.
    fn extend(&mut self, lease: u64, peer: PeerId, (duration_ns, now): (u64, u64)) {
        let left = self.left(duration_ns, now);
        let lasts = self.leases.extend(lease, left, now);
        if let Some(session) = self.sessions.get(&lease).filter(|_| lasts) {
            session.engine.last(peer, left);
        }
    }

    /// Ends the leases whose time is over, and drains those whose time is nearly over. A client may still extend a lease
    /// that drains until it ends. Dials joined clients for another lease.
    pub fn end_over(&mut self, dials: &mut Dials, now: u64) {
        for lease in self.leases.over(now) {
            dials.redial(lease, Redial::Anew, now);
            self.end(lease, "the lease has expired", now);
        }
        for lease in self.leases.begin_drains(now) {
            if let Some(session) = self.sessions.get(&lease) {
                session.engine.drain("the lease is about to expire");
            }
        }
    }

    /// Ends a lease without a wait for its processes; they keep the share of the lease until they are gone.
    fn end(&mut self, lease: u64, text: &str, now: u64) {
        let Some(LeaseSession { engine, name, .. }) = self.sessions.remove(&lease) else { return };
        self.failure = format!("{name}: {text}");
        engine.begin_end(text);
        self.leases.leave(lease);
        let until_ns = now.saturating_add(LEAVE_MAX_NS);
        self.leaving.push(Leaving { lease, engine, until_ns });
        self.sweep(now);
    }

    /// Takes back the shares of ended leases whose processes are gone. Returns true if other ended leases still have processes.
    pub fn sweep(&mut self, now: u64) -> bool {
        let leases = &mut self.leases;
        self.leaving.retain(|one| {
            let is_gone = one.engine.has_ended() || now >= one.until_ns;
            if is_gone {
                leases.end(one.lease);
            }
            !is_gone
        });
        !self.leaving.is_empty()
    }

    /// Drains the node: its engines accept no more tasks and give back those that have not started. No lease is granted or
    /// extended any more.
    pub fn drain(&mut self, text: &str) {
        self.leases.drain();
        self.sessions.values().for_each(|session| session.engine.drain(text));
    }

    /// Returns true if every task of every lease has ended and the clients know.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.sessions.values().all(|session| session.engine.is_drained())
    }

    /// Begins to end all leases, and returns the engines that may still have processes.
    pub fn close(&mut self, text: &str) -> Vec<H::Engine> {
        let mut engines: Vec<_> = self.leaving.drain(..).map(|one| one.engine).collect();
        for (_, LeaseSession { engine, .. }) in std::mem::take(&mut self.sessions) {
            engine.end_links(text);
            engine.begin_end(text);
            engines.push(engine);
        }
        engines
    }
}

impl<H: EngineFactory, M: HandshakeChannel> Host<M> for LeaseServer<H> {
    /// Sends the greeting if this end dialled: the end that dialled speaks first.
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
        pending: PendingHandshake<M>,
        said: (MessageKind, &[u8]),
        now: u64,
    ) -> HandshakeNext<M> {
        let (kind, body) = said;
        let text = match kind {
            MessageKind::Greeting => match Greeting::read(body) {
                Ok(theirs) => return self.greet(pending, theirs),
                Err(error) => format!("its greeting cannot be read: {error}"),
            },
            MessageKind::LeaseRequest if pending.theirs.is_some() => match LeaseRequest::read(body)
            {
                Ok(request) => return self.lease(pending, &request, now),
                Err(error) => format!("its request for a lease cannot be read: {error}"),
            },
            other => match Control::read(other, body) {
                Ok(Some(Control::Refuse { text, is_final })) => {
                    return HandshakeNext::Failed(
                        Box::new(pending),
                        HandshakeFailure { text, is_final },
                    );
                }
                Ok(Some(Control::End { text })) => text,
                _ => format!("it sent {other:?} before it had a lease"),
            },
        };
        HandshakeNext::Failed(Box::new(pending), HandshakeFailure::passing(text))
    }

    fn failed(&mut self, whom: &str, _dial: Option<usize>, failure: &HandshakeFailure, _now: u64) {
        self.failure = format!("{whom}: {}", failure.text);
    }
}

#[cfg(test)]
mod tests;
