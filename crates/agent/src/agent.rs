//! The agent's one thread: has clients met, leases given and ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gristmill_client::{Reception, ReceptionError};
use gristmill_sync::atomic::{AtomicU32, Ordering};
use gristmill_sync::clock::monotonic_ns;
use gristmill_transport::{Identity, Waker};

use crate::desk::{Desk, Facts};
use crate::options::AgentOptions;
use crate::tenant::{Processes, wait_for_all};

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
    /// No client that it joins will ever have a use for it; what went wrong last.
    Refused(String),
}

/// A node agent.
pub struct Agent {
    reception: Reception,
    desk: Desk<Processes>,
    /// Clients may come that it does not join.
    listens: bool,
    patience: Option<Duration>,
    /// How long what runs may take to end before the node does.
    drain_ns: u64,
    /// When the node is over, monotonic nanoseconds.
    ends_at: u64,
    /// How often it was told to stop.
    stops: Arc<AtomicU32>,
}

impl Agent {
    /// Listens, or gets ready to join.
    ///
    /// # Errors
    /// [`ReceptionError`].
    pub fn new(options: AgentOptions) -> Result<Self, ReceptionError> {
        let identity = Identity::of_node(&options.key);
        let sibling = Identity::of_sibling(&options.key);
        let reception = Reception::new(identity, options.listen, &options.join)?;
        let (joins, listens) = (!options.join.is_empty(), options.listen.is_some());
        let AgentOptions { python, engine, name, capacity, places, labels, .. } = options;
        let AgentOptions { walltime, drain_time, patience, prepare, .. } = options;
        let (ends_at, memory) = (end_of(walltime), capacity.memory);
        let drain_ns = duration_ns(drain_time);
        let lease_min_ns = LEASE_MIN_NS;
        let facts = Facts {
            python,
            engine,
            name,
            capacity,
            places,
            labels,
            joins,
            drain_ns,
            lease_min_ns,
            ends_at,
        };
        let processes = Processes { prepare, waker: reception.waker(), sibling, memory };
        let desk = Desk::new(facts, processes);
        let stops = Arc::new(AtomicU32::new(0));
        Ok(Self { reception, desk, listens, patience, drain_ns, ends_at, stops })
    }

    /// Where clients reach it, if they do.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.reception.address()
    }

    /// Makes [`Self::run`] return: count up, then wake. Told once it drains, told again it ends at once.
    #[must_use]
    pub fn stopper(&self) -> (Arc<AtomicU32>, Waker) {
        (Arc::clone(&self.stops), self.reception.waker())
    }

    /// Runs until it is told to stop, or nobody needs it any more. Every process that it has started is gone then.
    pub fn run(mut self) -> Ending {
        let mut idle_since = monotonic_ns();
        let mut drain: Option<Drain> = None;
        loop {
            let now = monotonic_ns();
            self.reception.attend(&mut self.desk, now);
            for (dial, lease) in self.desk.kept.drain(..) {
                self.reception.dials.keep(dial, lease);
            }
            let is_finished = self.desk.hear(&mut self.reception.dials, now);
            self.desk.end_over(&mut self.reception.dials, now);
            if !self.desk.is_idle() {
                idle_since = now;
            }
            if drain.is_none() {
                drain = self.begin_drain(now);
            }
            // PAIRS: stop (whoever counts it): nothing else goes with it.
            let is_hurried = self.stops.load(Ordering::Relaxed) > 1;
            let ending = match &drain {
                Some(drain) if is_hurried || now >= drain.limit_ns || self.desk.is_drained() => {
                    Some(drain.ending.clone())
                }
                _ => self.ending(is_finished, now - idle_since),
            };
            if let Some(ending) = ending {
                wait_for_all(&self.desk.close(reason(&ending)));
                return ending;
            }
            let is_ending = self.desk.sweep(now) || drain.is_some();
            let wake = self.next_wake(is_ending, now);
            self.reception.sleep(now, wake);
        }
    }

    /// Begins to end, if it is time.
    fn begin_drain(&mut self, now: u64) -> Option<Drain> {
        // PAIRS: stop (whoever counts it): nothing else goes with it.
        let drain = if self.stops.load(Ordering::Relaxed) > 0 {
            Drain { ending: Ending::Stopped, limit_ns: now.saturating_add(self.drain_ns) }
        } else if now >= self.ends_at.saturating_sub(self.drain_ns) {
            Drain { ending: Ending::TimeOver, limit_ns: self.ends_at }
        } else {
            return None;
        };
        self.desk.drain(reason(&drain.ending));
        Some(drain)
    }

    fn next_wake(&self, is_ending: bool, now: u64) -> u64 {
        if is_ending {
            return now + END_LOOK_NS;
        }
        let end = self.ends_at.saturating_sub(self.drain_ns);
        self.desk.next_end().unwrap_or(u64::MAX).min(end)
    }

    fn ending(&self, is_finished: bool, idle_ns: u64) -> Option<Ending> {
        if is_finished {
            return Some(Ending::Finished);
        }
        if !self.listens && self.reception.dials.are_given_up() && self.desk.is_idle() {
            return Some(Ending::Refused(self.desk.trouble.clone()));
        }
        let patience = self.patience?;
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

/// How often it is looked whether what runs, or the processes of a lease, have ended.
const END_LOOK_NS: u64 = 10_000_000;
/// The shortest time for which a lease is given, nanoseconds: workers take a part of it to start.
const LEASE_MIN_NS: u64 = 1_000_000_000;

fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// When a node is over that can be used for so long.
fn end_of(walltime: Option<Duration>) -> u64 {
    walltime.map_or(u64::MAX, |time| monotonic_ns().saturating_add(duration_ns(time)))
}

/// What clients are told of an end.
const fn reason(ending: &Ending) -> &'static str {
    match ending {
        Ending::Stopped => "the node agent was stopped",
        Ending::TimeOver => "the time of the node is over",
        Ending::Finished | Ending::Idle(_) | Ending::Refused(_) => {
            "the node agent has nothing more to do"
        }
    }
}
