//! The agent's one thread: meets clients, gives leases, ends them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gristmill_client::{
    Client, Host, PeerNews, Reception, ReceptionError, Talk, Turn, disagreement,
};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{Identity, Waker};
use gristmill_wire::WIRE_VERSION;
use gristmill_wire::peer::{Ask, Control, Grant, Greeting, MessageKind, Role};

use crate::leases::Leases;
use crate::options::AgentOptions;
use crate::tenant::Tenant;

/// Why an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was told to.
    Stopped,
    /// The time of its node is over.
    TimeOver,
    /// The client that it joined has finished.
    Finished,
    /// It had no lease for too long; what went wrong last.
    Idle(String),
}

/// A node agent.
pub struct Agent {
    reception: Reception,
    desk: Desk,
    stop: Arc<AtomicBool>,
}

/// What meetings are about.
struct Desk {
    options: AgentOptions,
    leases: Leases,
    tenants: HashMap<u64, Tenant>,
    /// When this node is over, monotonic nanoseconds.
    ends_at: u64,
    waker: Waker,
    /// The address and the lease of a link that was just made.
    kept: Option<(Option<usize>, u64)>,
    trouble: String,
}

impl Agent {
    /// Listens, or gets ready to join.
    ///
    /// # Errors
    /// [`ReceptionError`].
    pub fn new(options: AgentOptions) -> Result<Self, ReceptionError> {
        let identity = Identity::of_node(&options.key);
        let reception = Reception::new(identity, options.listen, &options.join)?;
        let desk = Desk {
            leases: Leases::new(options.capacity),
            tenants: HashMap::new(),
            ends_at: options.walltime.map_or(u64::MAX, |time| monotonic_ns() + duration_ns(time)),
            waker: reception.waker(),
            kept: None,
            trouble: "no client came".to_owned(),
            options,
        };
        Ok(Self { reception, desk, stop: Arc::new(AtomicBool::new(false)) })
    }

    /// Where clients reach it, if they do.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.reception.address()
    }

    /// Makes [`Self::run`] return: set the flag, then wake.
    #[must_use]
    pub fn stopper(&self) -> (Arc<AtomicBool>, Waker) {
        (Arc::clone(&self.stop), self.reception.waker())
    }

    /// Runs until it is told to stop, or nobody needs it any more. Every process that it has started is gone then.
    pub fn run(mut self) -> Ending {
        let mut idle_since = monotonic_ns();
        let mut drain: Option<Drain> = None;
        loop {
            let now = monotonic_ns();
            self.reception.attend(&mut self.desk, now);
            if let Some((dial, lease)) = self.desk.kept.take() {
                self.reception.keep(dial, lease);
            }
            let is_finished = self.desk.hear(&mut self.reception, now);
            self.desk.end_over(now);
            if !self.desk.leases.is_empty() {
                idle_since = now;
            }
            if drain.is_none() {
                drain = self.due_drain(now);
                if let Some(Drain { ending, .. }) = &drain {
                    self.desk.drain(ending);
                }
            }
            let ending = match &drain {
                Some(drain) if now >= drain.limit_ns || self.desk.is_drained() => {
                    Some(drain.ending.clone())
                }
                _ => self.ending(is_finished, now - idle_since),
            };
            if let Some(ending) = ending {
                return self.desk.close(ending);
            }
            let wake = self.next_wake(drain.is_some(), now);
            self.reception.sleep(now, wake);
        }
    }

    /// The beginning of the end, if it has come.
    fn due_drain(&self, now: u64) -> Option<Drain> {
        let time = duration_ns(self.desk.options.drain_time);
        // PAIRS: stop (whoever sets it): nothing else goes with it.
        if self.stop.load(Ordering::Relaxed) {
            return Some(Drain { ending: Ending::Stopped, limit_ns: now.saturating_add(time) });
        }
        let ends_at = self.desk.ends_at;
        let is_due = now >= ends_at.saturating_sub(time);
        is_due.then_some(Drain { ending: Ending::TimeOver, limit_ns: ends_at })
    }

    fn next_wake(&self, is_draining: bool, now: u64) -> u64 {
        if is_draining {
            return now + DRAIN_LOOK_NS;
        }
        let time = duration_ns(self.desk.options.drain_time);
        let end = self.desk.ends_at.saturating_sub(time);
        self.desk.leases.next_end().unwrap_or(u64::MAX).min(end)
    }

    fn ending(&self, is_finished: bool, idle_ns: u64) -> Option<Ending> {
        if is_finished {
            return Some(Ending::Finished);
        }
        let patience = self.desk.options.patience?;
        let is_idle = u128::from(idle_ns) >= patience.as_nanos();
        is_idle.then(|| Ending::Idle(self.desk.trouble.clone()))
    }
}

/// An end that waits for what runs.
#[derive(Debug)]
struct Drain {
    ending: Ending,
    /// When it waits no longer.
    limit_ns: u64,
}

/// How often it is looked whether what runs has ended.
const DRAIN_LOOK_NS: u64 = 10_000_000;

fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Desk {
    fn greeting(&self, lease: u64) -> Greeting {
        let tenant = self.tenants.get(&lease);
        let received = tenant.and_then(|tenant| tenant.client.received(tenant.peer));
        let capacity = self.options.capacity;
        Greeting {
            wire_version: WIRE_VERSION,
            role: Role::Node,
            python: self.options.python.clone(),
            engine: self.options.engine.clone(),
            name: self.options.name.clone(),
            lease: if received.is_some() { lease } else { 0 },
            received: received.unwrap_or(0),
            offer: [capacity.workers.into(), capacity.memory, capacity.gpus.into()],
            labels: self.options.labels.clone(),
        }
    }

    fn greet(&mut self, mut talk: Talk, theirs: Greeting) -> Turn {
        let own = (self.options.python.as_str(), self.options.engine.as_str());
        if let Some(text) = disagreement(&theirs, Role::Client, own) {
            talk.meeting.say(|out| {
                self.greeting(0).write(out);
                Control::Refuse { text: text.clone() }.write(out);
            });
            return Turn::Failed(Box::new(talk), text);
        }
        if talk.dial.is_none() {
            let greeting = self.greeting(theirs.lease);
            talk.meeting.say(|out| {
                greeting.write(out);
            });
        }
        let resumed =
            self.tenants.get(&theirs.lease).map(|tenant| (tenant.client.clone(), tenant.peer));
        let Some((client, peer)) = resumed else {
            talk.theirs = Some(theirs);
            return Turn::On(Box::new(talk));
        };
        if let Some(channel) = talk.meeting.into_channel() {
            client.reattach(peer, channel, theirs.received);
        }
        Turn::Done
    }

    fn lease(&mut self, mut talk: Talk, ask: &Ask, now: u64) -> Turn {
        let granted = self.leases.grant(ask, now).map_err(|refused| refused.to_string());
        let prepared = granted.and_then(|workers| {
            let count = u16::try_from(workers).unwrap_or(u16::MAX);
            (self.options.prepare)(ask, count).map(|options| (workers, options))
        });
        let started = prepared.and_then(|(workers, options)| {
            let client = Client::start(options).map_err(|error| error.to_string())?;
            Ok((workers, client))
        });
        let (workers, client) = match started {
            Ok(started) => started,
            Err(text) => {
                self.leases.end(ask.lease);
                talk.meeting.say(|out| {
                    Control::Refuse { text: text.clone() }.write(out);
                });
                return Turn::Failed(Box::new(talk), text);
            }
        };
        let ends_at = now.saturating_add(ask.duration_ns).min(self.ends_at);
        let ends_in_ns = if ends_at == u64::MAX { u64::MAX } else { ends_at - now };
        talk.meeting.say(|out| {
            Grant { lease: ask.lease, workers, ends_in_ns }.write(out);
        });
        let (name, dial) = (talk.name().to_owned(), talk.dial);
        if let Some(channel) = talk.meeting.into_channel() {
            client.set_door(self.waker.clone());
            self.tenants.insert(ask.lease, Tenant::new(client, ask, name, channel));
            self.kept = Some((dial, ask.lease));
        }
        Turn::Done
    }

    /// What became of links; says whether a client that was joined has finished.
    fn hear(&mut self, reception: &mut Reception, now: u64) -> bool {
        let mut is_finished = false;
        let leases: Vec<u64> = self.tenants.keys().copied().collect();
        for lease in leases {
            let news = self.tenants[&lease].client.take_news();
            for one in news {
                let text = match one {
                    PeerNews::Parted { .. } => {
                        reception.redial(lease, false, now);
                        continue;
                    }
                    PeerNews::Gone { text, .. } => text,
                };
                reception.redial(lease, true, now);
                self.end(lease, &text);
                is_finished |= !self.options.join.is_empty();
            }
        }
        is_finished
    }

    fn end_over(&mut self, now: u64) {
        for lease in self.leases.over(now) {
            self.end(lease, "the time of the lease is over");
        }
    }

    fn end(&mut self, lease: u64, text: &str) {
        self.leases.end(lease);
        if let Some(tenant) = self.tenants.remove(&lease) {
            self.trouble = format!("{}: {text}", tenant.name);
            tenant.end(text);
        }
    }

    /// Takes no more tasks, and gives back what has not started.
    fn drain(&mut self, ending: &Ending) {
        for tenant in self.tenants.values() {
            tenant.client.drain_guests(reason(ending));
        }
    }

    fn is_drained(&self) -> bool {
        self.tenants.values().all(|tenant| tenant.client.has_no_guests())
    }

    fn close(&mut self, ending: Ending) -> Ending {
        for (_, tenant) in self.tenants.drain() {
            tenant.client.end_links(reason(&ending));
            tenant.end(reason(&ending));
        }
        ending
    }
}

/// What clients are told of an end.
const fn reason(ending: &Ending) -> &'static str {
    match ending {
        Ending::Stopped => "the node agent was stopped",
        Ending::TimeOver => "the time of the node is over",
        Ending::Finished | Ending::Idle(_) => "the node agent has nothing more to do",
    }
}

impl Host for Desk {
    /// The end that dialled speaks first.
    fn open(&mut self, talk: &mut Talk) {
        if talk.dial.is_some() {
            let greeting = self.greeting(talk.lease);
            talk.meeting.say(|out| {
                greeting.write(out);
            });
        }
    }

    fn said(&mut self, talk: Talk, kind: MessageKind, body: &[u8]) -> Turn {
        let text = match kind {
            MessageKind::Greeting => match Greeting::read(body) {
                Ok(theirs) => return self.greet(talk, theirs),
                Err(error) => format!("it did not greet: {error}"),
            },
            MessageKind::Ask if talk.theirs.is_some() => match Ask::read(body) {
                Ok(ask) => return self.lease(talk, &ask, monotonic_ns()),
                Err(error) => format!("it asks for nothing that can be read: {error}"),
            },
            other => match Control::read(other, body) {
                Ok(Some(Control::Refuse { text } | Control::End { text })) => text,
                _ => format!("it says {other:?} before it has a lease"),
            },
        };
        Turn::Failed(Box::new(talk), text)
    }

    fn failed(&mut self, whom: &str, text: &str) {
        self.trouble = format!("{whom}: {text}");
    }
}
