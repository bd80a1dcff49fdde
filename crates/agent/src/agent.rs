//! The agent's one thread: answers the handshakes of clients, grants leases and ends them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gristmill_client::{HandshakeServer, HandshakeServerError, LinkSizes};
use gristmill_sync::atomic::{AtomicU32, Ordering};
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{Identity, Waker};

use crate::lease_server::{LeaseServer, NodeDescription};
use crate::lease_session::{Processes, wait_for_all};
use crate::options::AgentOptions;

/// Reason for an agent's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentExit {
    /// The agent was told to stop.
    Stopped,
    /// The time of the node is over.
    TimeOver,
    /// The client that the agent joined has finished.
    Finished,
    /// The agent had no lease for too long. The text says what failed last.
    Idle(String),
    /// The client that the agent joins will never use it. The text says what failed last.
    Refused(String),
}

/// A node agent.
pub struct Agent {
    handshakes: HandshakeServer,
    leases: LeaseServer<Processes>,
    /// True if the agent listens, so that clients can connect to it that it does not dial.
    listens: bool,
    patience: Option<Duration>,
    /// Time that tasks have to finish before the node ends.
    drain_ns: u64,
    /// Time at which the node ends, monotonic nanoseconds.
    ends_at: u64,
    /// Number of times that the agent was told to stop.
    stops: Arc<AtomicU32>,
}

impl Agent {
    /// Listens, or prepares to join.
    ///
    /// # Errors
    /// [`HandshakeServerError`].
    pub fn new(options: AgentOptions) -> Result<Self, HandshakeServerError> {
        let identity = Identity::of_node(&options.key);
        let sibling = Identity::of_sibling(&options.key);
        let (joins, listens) = (!options.join.is_empty(), !options.listen.is_empty());
        let dial = if joins { vec![options.join] } else { Vec::new() };
        let reception = HandshakeServer::new(identity, &options.listen, &dial)?;
        let AgentOptions { python, engine, name, capacity, affinity, labels, .. } = options;
        let AgentOptions { walltime, drain_time, patience, prepare, .. } = options;
        let (ends_at, memory) = (end_of(walltime), capacity.memory);
        let drain_ns = duration_ns(drain_time);
        let lease_min_ns = LEASE_MIN_NS;
        let message_max = LinkSizes::of_machine().message as u64;
        let facts = NodeDescription {
            python,
            engine,
            name,
            capacity,
            affinity,
            labels,
            message_max,
            joins,
            drain_ns,
            lease_min_ns,
            ends_at,
        };
        let processes = Processes { prepare, waker: reception.waker(), sibling, memory };
        let server = LeaseServer::new(facts, processes);
        let stops = Arc::new(AtomicU32::new(0));
        Ok(Self {
            handshakes: reception,
            leases: server,
            listens,
            patience,
            drain_ns,
            ends_at,
            stops,
        })
    }

    /// Returns the address at which clients reach the agent, or `None` if it does not listen.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.handshakes.address()
    }

    /// Returns a counter and a waker that make [`Self::run`] return: increment the counter, then wake. The agent drains after
    /// the first increment and ends at once after the second.
    #[must_use]
    pub fn stopper(&self) -> (Arc<AtomicU32>, Waker) {
        (Arc::clone(&self.stops), self.handshakes.waker())
    }

    /// Runs until the agent is told to stop, or has nothing more to do. Then waits for the end of the processes that the agent
    /// started, for ten seconds at most.
    pub fn run(mut self) -> AgentExit {
        let mut idle_since = monotonic_ns();
        let mut drain: Option<Drain> = None;
        loop {
            let now = monotonic_ns();
            self.handshakes.attend(&mut self.leases, now);
            for (dial, lease) in self.leases.kept.drain(..) {
                self.handshakes.dials.keep(dial, lease);
            }
            let is_finished = self.leases.hear(&mut self.handshakes.dials, now);
            self.leases.end_over(&mut self.handshakes.dials, now);
            if !self.leases.is_idle() {
                idle_since = now;
            }
            if drain.is_none() {
                drain = self.begin_drain(now);
            }
            // PAIRS: stop (the increment by the caller of `stopper`): Relaxed, because the increment publishes no other data.
            let is_hurried = self.stops.load(Ordering::Relaxed) > 1;
            let ending = match &drain {
                Some(drain) if is_hurried || now >= drain.limit_ns || self.leases.is_drained() => {
                    Some(drain.ending.clone())
                }
                _ => self.ending(is_finished, now - idle_since),
            };
            if let Some(ending) = ending {
                wait_for_all(&self.leases.close(reason(&ending)));
                return ending;
            }
            let is_ending = self.leases.sweep(now) || drain.is_some();
            let wake = self.next_wake(is_ending, now);
            self.handshakes.sleep(now, wake);
        }
    }

    /// Starts to drain if the agent was told to stop or the node's time is nearly over.
    fn begin_drain(&mut self, now: u64) -> Option<Drain> {
        // PAIRS: stop (the increment by the caller of `stopper`): Relaxed, because the increment publishes no other data.
        let drain = if self.stops.load(Ordering::Relaxed) > 0 {
            Drain { ending: AgentExit::Stopped, limit_ns: now.saturating_add(self.drain_ns) }
        } else if now >= self.ends_at.saturating_sub(self.drain_ns) {
            Drain { ending: AgentExit::TimeOver, limit_ns: self.ends_at }
        } else {
            return None;
        };
        self.leases.drain(reason(&drain.ending));
        Some(drain)
    }

    fn next_wake(&self, is_ending: bool, now: u64) -> u64 {
        if is_ending {
            return now + END_LOOK_NS;
        }
        let end = self.ends_at.saturating_sub(self.drain_ns);
        self.leases.next_end().unwrap_or(u64::MAX).min(end)
    }

    fn ending(&self, is_finished: bool, idle_ns: u64) -> Option<AgentExit> {
        if is_finished {
            return Some(AgentExit::Finished);
        }
        if !self.listens && self.handshakes.dials.are_given_up() && self.leases.is_idle() {
            return Some(AgentExit::Refused(self.leases.failure.clone()));
        }
        let patience = self.patience?;
        let is_idle = u128::from(idle_ns) >= patience.as_nanos();
        is_idle.then(|| AgentExit::Idle(self.leases.failure.clone()))
    }
}

/// An end that waits for the running tasks.
#[derive(Debug)]
struct Drain {
    ending: AgentExit,
    /// Time after which the agent waits no longer, monotonic nanoseconds.
    limit_ns: u64,
}

/// Interval between two checks whether the running tasks, or the processes of a lease, have ended, nanoseconds.
const END_LOOK_NS: u64 = 10_000_000;
/// The shortest time for which a lease is granted, nanoseconds: the start of workers takes a part of it.
const LEASE_MIN_NS: u64 = 1_000_000_000;

fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the time at which a node with this walltime ends, monotonic nanoseconds; `u64::MAX` means never.
fn end_of(walltime: Option<Duration>) -> u64 {
    walltime.map_or(u64::MAX, |time| monotonic_ns().saturating_add(duration_ns(time)))
}

/// Returns the text that tells clients why the agent ends.
const fn reason(ending: &AgentExit) -> &'static str {
    match ending {
        AgentExit::Stopped => "the node agent was stopped",
        AgentExit::TimeOver => "the node's time is over",
        AgentExit::Finished | AgentExit::Idle(_) | AgentExit::Refused(_) => {
            "the node agent has no client left"
        }
    }
}
