//! A node: an agent, the engines of its leases with their workers, and its faults.
//!
//! *True time* is the time of the simulation. The clock of each node may disagree with it and drift: see [`Clock`].

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_agent::LeaseServer;

use super::clock::Clock;
use super::connections::SimConnections;
use super::engine_factory::{SimEngineFactory, begin};
use super::handle::{Handle, Life};
use super::network::Air;
use super::plan::ClusterPlan;
use super::shared::Shared;

/// Reason that clients get for the end of an agent.
const STOPPED: &str = "the node agent was stopped";

/// Condition of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Well,
    /// Stopped until a true time, possibly together with its workers.
    Frozen {
        until: u64,
        with_workers: bool,
    },
    /// Dead until a true time.
    Down {
        until: u64,
        /// True if peers do not learn of the death, as after a loss of power: no connection is closed or refused.
        is_silent: bool,
    },
    /// Finished, with nothing more to do.
    Gone,
}

/// A node with its agent.
pub(crate) struct Node {
    pub place: usize,
    pub clock: Clock,
    pub condition: Condition,
    /// True time at which the node's last freeze ended.
    pub troubled_at: u64,
    /// Lease server of the agent.
    pub server: LeaseServer<SimEngineFactory>,
    /// True time by which running tasks must have ended, if the node drains.
    pub drains_until: Option<u64>,
    /// Connection manager of the agent.
    pub connections: SimConnections,
    /// Engines that run, and dead ones whose workers still run.
    pub engines: Rc<RefCell<Vec<Handle>>>,
    shared: Rc<RefCell<Shared>>,
    plan: Rc<ClusterPlan>,
    /// Simulated network.
    air: Air,
}

impl Node {
    pub fn new(
        place: usize,
        clock: Clock,
        shared: &Rc<RefCell<Shared>>,
        plan: &Rc<ClusterPlan>,
        air: &Air,
    ) -> Self {
        let engines = Rc::default();
        let (server, connections) = begin(place, clock, (shared, &engines), plan, air);
        Self {
            place,
            clock,
            condition: Condition::Well,
            troubled_at: 0,
            server,
            drains_until: None,
            connections,
            engines,
            shared: Rc::clone(shared),
            plan: Rc::clone(plan),
            air: air.clone(),
        }
    }

    /// Starts an agent that knows nothing of its predecessor.
    pub fn restart(&mut self) {
        let parts = (&self.shared, &self.engines);
        (self.server, self.connections) =
            begin(self.place, self.clock, parts, &self.plan, &self.air);
        self.condition = Condition::Well;
    }

    /// Accepts no more tasks; the agent ends when its running tasks have ended, or at a true time.
    pub fn drain(&mut self, until: u64) {
        self.server.drain(STOPPED);
        self.drains_until = Some(until);
    }

    /// Ends the agent cleanly: closes its leases first. The next agent starts as soon as time passes.
    pub fn stop(&mut self, now: u64) {
        self.server.close(STOPPED);
        self.die(Condition::Down { until: now, is_silent: false }, now);
    }

    /// Kills the agent; its workers die at a true time.
    pub fn die(&mut self, condition: Condition, workers_until: u64) {
        for handle in self.engines.borrow().iter().filter(|handle| handle.is_alive()) {
            handle.die(workers_until);
        }
        // The state of the dead agent is lost.
        let parts = (&self.shared, &self.engines);
        (self.server, self.connections) =
            begin(self.place, self.clock, parts, &self.plan, &self.air);
        self.drains_until = None;
        self.condition = condition;
    }

    pub fn local(&self) -> u64 {
        self.clock.local(self.shared.borrow().now)
    }

    /// Returns whether the node has no engine left, and is neither frozen nor down.
    pub fn is_over(&self) -> bool {
        let is_still = matches!(self.condition, Condition::Well | Condition::Gone);
        is_still && self.engines.borrow().iter().all(|one| *one.life.borrow() == Life::Over)
    }

    /// Returns whether the agent runs.
    pub fn runs(&self) -> bool {
        self.condition == Condition::Well
    }

    /// Returns whether the node's workers are not frozen. If the agent is down, workers of its engines may still run for a
    /// while.
    pub fn workers_run(&self) -> bool {
        !matches!(self.condition, Condition::Frozen { with_workers: true, .. })
    }

    /// Lets the lease server work; returns false if there is nothing to do.
    pub fn attend(&mut self) -> bool {
        let now = self.local();
        let has_events =
            self.engines.borrow().iter().any(|one| one.with(|one| !one.events.is_empty()));
        let is_over = self.server.next_end().is_some_and(|end| end <= now);
        if !has_events && !is_over && !self.connections.is_due(now) {
            return false;
        }
        self.connections.attend(&mut self.server, now);
        for (dial, lease) in self.server.kept.drain(..) {
            self.connections.dials.keep(dial, lease);
        }
        let is_finished = self.server.hear(&mut self.connections.dials, now);
        self.server.end_over(&mut self.connections.dials, now);
        if is_finished {
            self.server.close(STOPPED);
            self.condition = Condition::Gone;
        }
        self.forget_dead();
        true
    }

    /// Forgets the engines whose processes are all gone.
    pub fn forget_dead(&self) {
        self.engines.borrow_mut().retain(|handle| *handle.life.borrow() != Life::Over);
    }

    /// Returns the true time at which the lease server next has something to do.
    pub fn next_wake(&self) -> Option<u64> {
        let wakes = self.connections.next_wake().into_iter().chain(self.server.next_end());
        wakes.filter(|&wake| wake != u64::MAX).map(|wake| self.clock.when(wake)).min()
    }

    /// Returns the number of workers that belong to leases.
    pub fn used_workers(&self) -> usize {
        let engines = self.engines.borrow();
        engines.iter().filter(|one| one.is_alive()).map(|one| one.workers).sum()
    }
}
