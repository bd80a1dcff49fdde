//! A node: an agent, the engines of its leases and their workers, and what befalls them.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_agent::Desk;

use super::clock::Clock;
use super::doorway::Doorway;
use super::handle::{Handle, Life};
use super::housing::{SimHousing, begin};
use super::network::Air;
use super::plan::ClusterPlan;
use super::shared::Shared;

/// What clients are told of an agent's end.
const STOPPED: &str = "the node agent was stopped";

/// What keeps a process from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Well,
    /// Stopped until that true time, and with it perhaps its workers.
    Frozen {
        until: u64,
        with_workers: bool,
    },
    /// It is down until then.
    Down {
        until: u64,
        is_silent: bool,
    },
    /// It has no more to do.
    Gone,
}

/// A node.
pub(crate) struct Node {
    pub place: usize,
    pub clock: Clock,
    pub condition: Condition,
    /// When it was last kept from going on, true time.
    pub troubled_at: u64,
    pub desk: Desk<SimHousing>,
    /// It drains: by when what runs there has to have ended, true time.
    pub drains_until: Option<u64>,
    pub door: Doorway,
    /// All engines that have processes.
    pub engines: Rc<RefCell<Vec<Handle>>>,
    shared: Rc<RefCell<Shared>>,
    plan: Rc<ClusterPlan>,
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
        let (desk, door) = begin(place, clock, (shared, &engines), plan, air);
        Self {
            place,
            clock,
            condition: Condition::Well,
            troubled_at: 0,
            desk,
            drains_until: None,
            door,
            engines,
            shared: Rc::clone(shared),
            plan: Rc::clone(plan),
            air: air.clone(),
        }
    }

    /// Starts an agent that knows nothing of the one before.
    pub fn restart(&mut self) {
        let parts = (&self.shared, &self.engines);
        (self.desk, self.door) = begin(self.place, self.clock, parts, &self.plan, &self.air);
        self.condition = Condition::Well;
    }

    /// Takes nothing more, and ends when what runs has ended, or at a true time.
    pub fn drain(&mut self, until: u64) {
        self.desk.drain(STOPPED);
        self.drains_until = Some(until);
    }

    /// Ends in order; another agent comes at once.
    pub fn stop(&mut self, now: u64) {
        self.desk.close(STOPPED);
        self.die(Condition::Down { until: now, is_silent: false }, now);
    }

    /// The agent is dead; its workers are ended at a true time.
    pub fn die(&mut self, condition: Condition, workers_until: u64) {
        for handle in self.engines.borrow().iter().filter(|handle| handle.is_alive()) {
            handle.die(workers_until);
        }
        // What it had in hand goes with it.
        let parts = (&self.shared, &self.engines);
        (self.desk, self.door) = begin(self.place, self.clock, parts, &self.plan, &self.air);
        self.drains_until = None;
        self.condition = condition;
    }

    pub fn local(&self) -> u64 {
        self.clock.local(self.shared.borrow().now)
    }

    /// Whether it has no lease, and nothing is to come of its condition.
    pub fn is_over(&self) -> bool {
        let is_still = matches!(self.condition, Condition::Well | Condition::Gone);
        is_still && self.engines.borrow().iter().all(|one| *one.life.borrow() == Life::Over)
    }

    /// Whether the agent can do something.
    pub fn runs(&self) -> bool {
        self.condition == Condition::Well
    }

    /// Whether workers can.
    pub fn workers_run(&self) -> bool {
        !matches!(self.condition, Condition::Frozen { with_workers: true, .. })
    }

    /// Lets the desk work; false when there is nothing to do.
    pub fn attend(&mut self) -> bool {
        let now = self.local();
        let has_news = self.engines.borrow().iter().any(|one| one.with(|one| !one.news.is_empty()));
        let is_over = self.desk.next_end().is_some_and(|end| end <= now);
        if !has_news && !is_over && !self.door.is_due(now) {
            return false;
        }
        self.door.attend(&mut self.desk, now);
        for (dial, lease) in self.desk.kept.drain(..) {
            self.door.dials.keep(dial, lease);
        }
        let is_finished = self.desk.hear(&mut self.door.dials, now);
        self.desk.end_over(&mut self.door.dials, now);
        if is_finished {
            self.desk.close(STOPPED);
            self.condition = Condition::Gone;
        }
        self.forget_dead();
        true
    }

    /// Forgets engines of which nothing is left.
    pub fn forget_dead(&self) {
        self.engines.borrow_mut().retain(|handle| *handle.life.borrow() != Life::Over);
    }

    /// When the desk has something to do, true time.
    pub fn next_wake(&self) -> Option<u64> {
        let wakes = self.door.next_wake().into_iter().chain(self.desk.next_end());
        wakes.filter(|&wake| wake != u64::MAX).map(|wake| self.clock.when(wake)).min()
    }

    /// Workers that are part of a lease.
    pub fn used_workers(&self) -> usize {
        let engines = self.engines.borrow();
        engines.iter().filter(|one| one.is_alive()).map(|one| one.workers).sum()
    }
}
