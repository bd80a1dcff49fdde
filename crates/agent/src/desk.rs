//! The desk: what is said to clients that come to a node, which of them has which lease, and when a lease ends.
//!
//! No thread, socket, process or clock: whoever has those calls it, and the engines of leases are behind [`Housing`].

use std::collections::{BTreeMap, VecDeque};

use gristmill_client::{
    Conversation, Departure, Dials, Host, LinkOwner, NewLink, PeerNews, Redial, Talk, Trouble,
    Turn, disagreement,
};
use gristmill_wire::peer::{Ask, Control, Grant, Greeting, MessageKind, Role};
use gristmill_wire::{PeerId, WIRE_VERSION};

use crate::Capacity;
use crate::leases::{Leases, RefusedLease};
use crate::orders::{FailedOrders, Order};
use crate::places::Places;

/// The engine of a lease: it runs the lease's tasks, which come over a link.
pub trait LeaseEngine: LinkOwner {
    /// What became of its link since this was asked last.
    fn take_news(&self) -> VecDeque<PeerNews>;

    /// Takes no more tasks, and gives back what has not started.
    fn drain(&self, text: &str);

    /// Whether everything that it was given has ended, and its client knows.
    fn is_drained(&self) -> bool;

    /// Lasts for so long from now on, nanoseconds: tells its client, and takes tasks again if it drained.
    fn last(&self, peer: PeerId, duration_ns: u64);

    /// Tells its client that the lease is over.
    fn end_links(&self, text: &str);

    /// Begins to end it, and every process that it has.
    fn begin_end(&self, reason: &str);

    /// Whether every process of it is gone.
    fn has_ended(&self) -> bool;
}

/// What starts the engines of leases.
pub trait Housing {
    /// Such an engine.
    type Engine: LeaseEngine;

    /// Starts the engine of a lease, whose workers have these places of the node.
    ///
    /// # Errors
    /// A sentence for the client.
    fn start(&mut self, ask: &Ask, grant: &Grant, places: &[u16]) -> Result<Self::Engine, String>;
}

/// What a node says of itself.
#[derive(Debug, Clone)]
pub struct Facts {
    /// This interpreter, as in `3.11`.
    pub python: String,
    /// This engine.
    pub engine: String,
    /// What this node is called.
    pub name: String,
    /// What it has to give.
    pub capacity: Capacity,
    /// What the worker of each place is bound to.
    pub places: Places,
    /// Labels, as `name=value` lines.
    pub labels: String,
    /// It joins clients, and has no more to do once one of them has finished.
    pub joins: bool,
    /// How long what runs may take to end before the end of a lease, nanoseconds.
    pub drain_ns: u64,
    /// The shortest time for which a lease is given, nanoseconds.
    pub lease_min_ns: u64,
    /// When it is over, monotonic nanoseconds; `u64::MAX` is not known.
    pub ends_at: u64,
}

struct Tenant<E> {
    engine: E,
    peer: PeerId,
    /// What the client is called.
    name: String,
    order: Order,
}

/// How long the processes of a lease that is over may take to be gone before others get its share all the same,
/// nanoseconds: one may be held up in the kernel for ever.
const LEAVE_MAX_NS: u64 = 10_000_000_000;

/// The engine of a lease that is over, while it has processes.
struct Leaving<E> {
    lease: u64,
    engine: E,
    /// When it is waited for no longer.
    until_ns: u64,
}

/// What meetings are about.
pub struct Desk<H: Housing> {
    facts: Facts,
    housing: H,
    leases: Leases,
    tenants: BTreeMap<u64, Tenant<H::Engine>>,
    leaving: Vec<Leaving<H::Engine>>,
    failed: FailedOrders,
    /// The addresses and leases of links that were just made.
    pub kept: Vec<(Option<usize>, u64)>,
    /// What went wrong last.
    pub trouble: String,
}

impl<H: Housing> Desk<H> {
    /// A node without a lease.
    pub fn new(facts: Facts, housing: H) -> Self {
        Self {
            leases: Leases::new(facts.capacity, facts.places.clone(), facts.drain_ns),
            tenants: BTreeMap::new(),
            leaving: Vec::new(),
            failed: FailedOrders::default(),
            kept: Vec::new(),
            trouble: "no client came".to_owned(),
            facts,
            housing,
        }
    }

    /// Whether nobody has a lease.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.leases.is_empty()
    }

    /// When the next lease is to drain, or is over, if one has a time.
    #[must_use]
    pub fn next_end(&self) -> Option<u64> {
        self.leases.next_end()
    }

    fn greeting(&self, lease: u64) -> Greeting {
        let tenant = self.tenants.get(&lease);
        let received = tenant.and_then(|tenant| tenant.engine.received(tenant.peer));
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
            labels: self.facts.labels.clone(),
        }
    }

    fn greet<M: Conversation>(&mut self, mut talk: Talk<M>, theirs: Greeting) -> Turn<M> {
        let own = (self.facts.python.as_str(), self.facts.engine.as_str());
        if let Some(text) = disagreement(&theirs, Role::Client, own) {
            talk.meeting.say(|out| {
                self.greeting(0).write(out);
                Control::Refuse { text: text.clone(), is_final: true }.write(out);
            });
            talk.theirs = Some(theirs);
            return Turn::Failed(Box::new(talk), Trouble::lasting(text));
        }
        if talk.dial.is_none() {
            let greeting = self.greeting(theirs.lease);
            talk.meeting.say(|out| {
                greeting.write(out);
            });
        }
        let Some(tenant) = self.tenants.get(&theirs.lease) else {
            talk.theirs = Some(theirs);
            return Turn::On(Box::new(talk));
        };
        if let Some(channel) = talk.meeting.into_channel() {
            tenant.engine.reattach(tenant.peer, channel, theirs.received);
        }
        Turn::Done
    }

    fn lease<M: Conversation>(&mut self, mut talk: Talk<M>, ask: &Ask, now: u64) -> Turn<M> {
        let order = Order::of(talk.name(), ask);
        let (grant, engine) = match self.try_lease(order, ask, now) {
            Ok(started) => started,
            Err(Trouble { text, is_final }) => {
                self.leases.end(ask.lease);
                talk.meeting.say(|out| {
                    Control::Refuse { text: text.clone(), is_final }.write(out);
                });
                // A client that is joined says itself when it has no use for this node any more: then it knows why.
                return Turn::Failed(Box::new(talk), Trouble::passing(text));
            }
        };
        talk.meeting.say(|out| {
            grant.write(out);
        });
        let (name, dial) = (talk.name().to_owned(), talk.dial);
        if let Some(channel) = talk.meeting.into_channel() {
            // Its workers come up while the first tasks are on their way.
            let Ask { beat_ns, expiry_ns, .. } = *ask;
            let (grant, labels) = (Grant::NOTHING, String::new());
            let link = NewLink { name: name.clone(), channel, beat_ns, expiry_ns, grant, labels };
            let peer = engine.attach(link);
            self.tenants.insert(ask.lease, Tenant { engine, peer, name, order });
            self.kept.push((dial, ask.lease));
        }
        Turn::Done
    }

    /// Begins a lease. Where no worker could be started for the same order another lease would end the same way.
    fn try_lease(
        &mut self,
        order: Order,
        ask: &Ask,
        now: u64,
    ) -> Result<(Grant, H::Engine), Trouble> {
        if let Some(text) = self.failed.why(order) {
            return Err(Trouble::lasting(text));
        }
        let ends_in_ns = self.left(ask.duration_ns, now);
        let granted = if ends_in_ns < self.facts.lease_min_ns {
            Err(RefusedLease::TooShort { left_ms: ends_in_ns / 1_000_000 })
        } else {
            self.leases.grant(ask, now)
        };
        let grant = granted.map_err(|refused| {
            let (text, is_final) = (refused.to_string(), refused.is_final());
            Trouble { text, is_final }
        })?;
        let places = self.leases.places(ask.lease);
        let engine = self.housing.start(ask, &grant, places).map_err(Trouble::passing)?;
        Ok((Grant { ends_in_ns, ..grant }, engine))
    }

    /// How much of a time the node lasts, nanoseconds; `u64::MAX` is no end.
    fn left(&self, duration_ns: u64, now: u64) -> u64 {
        let ends_at = now.saturating_add(duration_ns).min(self.facts.ends_at);
        if ends_at == u64::MAX { u64::MAX } else { ends_at.saturating_sub(now) }
    }

    /// What became of links; says whether a client that was joined has finished.
    pub fn hear(&mut self, dials: &mut Dials, now: u64) -> bool {
        let mut is_finished = false;
        let leases: Vec<u64> = self.tenants.keys().copied().collect();
        for lease in leases {
            let news = self.tenants[&lease].engine.take_news();
            for one in news {
                let (text, how) = match one {
                    PeerNews::Parted { .. } => {
                        dials.redial(lease, Redial::Resume, now);
                        continue;
                    }
                    PeerNews::Extend { peer, duration_ns } => {
                        self.extend(lease, peer, (duration_ns, now));
                        continue;
                    }
                    PeerNews::Gone { text, how, .. } => (text, how),
                };
                if how == Departure::Failed
                    && let Some(tenant) = self.tenants.get(&lease)
                {
                    self.failed.note(tenant.order, &text);
                }
                dials.redial(lease, Redial::Anew, now);
                self.end(lease, &text, now);
                // One that was lost may be back when the network is.
                is_finished |= self.facts.joins && how == Departure::Ended;
            }
        }
        is_finished
    }

    /// Lets a lease last as long as its client wants, if the node does and does not drain.
    fn extend(&mut self, lease: u64, peer: PeerId, (duration_ns, now): (u64, u64)) {
        let left = self.left(duration_ns, now);
        let lasts = self.leases.extend(lease, left, now);
        if let Some(tenant) = self.tenants.get(&lease).filter(|_| lasts) {
            tenant.engine.last(peer, left);
        }
    }

    /// Ends the leases whose time is over, and drains those whose time nearly is: their clients may extend them until
    /// then. Clients that were joined are dialled for another lease.
    pub fn end_over(&mut self, dials: &mut Dials, now: u64) {
        for lease in self.leases.over(now) {
            dials.redial(lease, Redial::Anew, now);
            self.end(lease, "the time of the lease is over", now);
        }
        for lease in self.leases.begin_drains(now) {
            if let Some(tenant) = self.tenants.get(&lease) {
                tenant.engine.drain("the time of the lease is nearly over");
            }
        }
    }

    /// Ends a lease. Nobody waits for its processes, but its share is theirs until they are gone.
    fn end(&mut self, lease: u64, text: &str, now: u64) {
        let Some(Tenant { engine, name, .. }) = self.tenants.remove(&lease) else { return };
        self.trouble = format!("{name}: {text}");
        engine.begin_end(text);
        self.leases.leave(lease);
        let until_ns = now.saturating_add(LEAVE_MAX_NS);
        self.leaving.push(Leaving { lease, engine, until_ns });
        self.sweep(now);
    }

    /// Takes the shares of leases back whose processes are gone; says whether there are others.
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

    /// Takes no more tasks, and gives back what has not started; no lease is given or lasts longer from now on.
    pub fn drain(&mut self, text: &str) {
        self.leases.drain();
        self.tenants.values().for_each(|tenant| tenant.engine.drain(text));
    }

    /// Whether everything that it was given has ended, and its clients know.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.tenants.values().all(|tenant| tenant.engine.is_drained())
    }

    /// Begins to end all leases: the node gives nothing more. Gives the engines that may have processes.
    pub fn close(&mut self, text: &str) -> Vec<H::Engine> {
        let mut engines: Vec<_> = self.leaving.drain(..).map(|one| one.engine).collect();
        for (_, Tenant { engine, .. }) in std::mem::take(&mut self.tenants) {
            engine.end_links(text);
            engine.begin_end(text);
            engines.push(engine);
        }
        engines
    }
}

impl<H: Housing, M: Conversation> Host<M> for Desk<H> {
    /// The end that dialled speaks first.
    fn open(&mut self, talk: &mut Talk<M>) {
        if talk.dial.is_some() {
            let greeting = self.greeting(talk.lease);
            talk.meeting.say(|out| {
                greeting.write(out);
            });
        }
    }

    fn said(&mut self, talk: Talk<M>, said: (MessageKind, &[u8]), now: u64) -> Turn<M> {
        let (kind, body) = said;
        let text = match kind {
            MessageKind::Greeting => match Greeting::read(body) {
                Ok(theirs) => return self.greet(talk, theirs),
                Err(error) => format!("it did not greet: {error}"),
            },
            MessageKind::Ask if talk.theirs.is_some() => match Ask::read(body) {
                Ok(ask) => return self.lease(talk, &ask, now),
                Err(error) => format!("it asks for nothing that can be read: {error}"),
            },
            other => match Control::read(other, body) {
                Ok(Some(Control::Refuse { text, is_final })) => {
                    return Turn::Failed(Box::new(talk), Trouble { text, is_final });
                }
                Ok(Some(Control::End { text })) => text,
                _ => format!("it says {other:?} before it has a lease"),
            },
        };
        Turn::Failed(Box::new(talk), Trouble::passing(text))
    }

    fn failed(&mut self, whom: &str, _dial: Option<usize>, trouble: &Trouble, _now: u64) {
        self.trouble = format!("{whom}: {}", trouble.text);
    }
}

#[cfg(test)]
mod tests;
