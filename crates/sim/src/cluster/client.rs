//! The client: the program's engine, its connection manager, and the steps of its threads.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_client::{LeaseNegotiator, LeaseTerms, LinkWork};
use gristmill_sync::random::Random as Leases;

use super::clock::Clock;
use super::connections::SimConnections;
use super::handle::Handle;
use super::network::Air;
use super::node::Condition;
use super::plan::ClusterPlan;
use super::shared::Shared;
use crate::plan::Plan;
use crate::random::SeededRandom;

/// The client's process.
pub(crate) struct Client {
    pub handle: Handle,
    pub negotiator: LeaseNegotiator<Handle>,
    pub connections: SimConnections,
    pub condition: Condition,
    /// Task whose cancellation the program awaits from a node.
    pub asked: Option<usize>,
    /// Number of tasks that the program has submitted.
    pub submitted: u64,
    pub is_closed: bool,
    /// Local time before which the program does not ask its nodes to extend their leases.
    pub extends_at: u64,
    /// True if the client has no workers of its own.
    needs_nodes: bool,
    /// True if the client has ended in order.
    pub has_left: bool,
}

impl Client {
    pub fn new(
        clock: Clock,
        shared: &Rc<RefCell<Shared>>,
        plan: &Rc<ClusterPlan>,
        air: &Air,
        seed: u64,
    ) -> Self {
        let config = plan.base.config.clone();
        let handle = Handle::new(shared, ("client".to_owned(), clock), config, (plan, air), None);
        let terms = LeaseTerms {
            request: plan.request.clone(),
            python: "3".to_owned(),
            engine: "sim".to_owned(),
            name: "client".to_owned(),
            ends_at_ns: u64::MAX,
            nodes_max: Some(plan.nodes.len()),
            message_max: plan.sizes.message as u64,
        };
        let negotiator = LeaseNegotiator::new(handle.clone(), terms, Leases::from_seed(seed));
        let nodes: Vec<usize> = (0..plan.nodes.len()).collect();
        let dialled = nodes.iter().copied().filter(|&node| !plan.joins[node]).collect();
        let connections = SimConnections::new(air, 0, nodes, dialled);
        let condition = Condition::Well;
        Self {
            handle,
            negotiator,
            connections,
            condition,
            asked: None,
            submitted: 0,
            is_closed: false,
            extends_at: 0,
            needs_nodes: plan.base.config.workers == 0,
            has_left: false,
        }
    }

    pub fn runs(&self) -> bool {
        self.condition == Condition::Well
    }

    /// Lets the connection manager's thread work; returns false if there is nothing to do.
    pub fn attend_door(&mut self) -> bool {
        let now = self.handle.now();
        let has_events = self.handle.with(|engine| !engine.events.is_empty());
        if !has_events && !self.connections.is_due(now) {
            return false;
        }
        self.connections.attend(&mut self.negotiator, now);
        for (dial, lease) in self.negotiator.kept.drain(..) {
            self.connections.dials.keep(dial, lease);
        }
        for events in self.handle.with(|engine| std::mem::take(&mut engine.events)) {
            if let Some((lease, redial)) = self.negotiator.hear(events, now) {
                self.connections.dials.redial(lease, redial, now);
            }
        }
        if let Some(text) = self.negotiator.verdict(now).filter(|_| self.needs_nodes) {
            self.handle.give_up_workers(&text);
            self.negotiator.close(&text);
            self.connections.dials.give_all_up();
        }
        true
    }

    /// Completes tasks, as a waiting caller or the client's background thread does; returns false if there is nothing to do.
    pub fn lead(&mut self, air: &Air, plan: &Plan, random: &mut SeededRandom) -> bool {
        self.handle.with(|engine| {
            if !engine.is_due(air, true) {
                return false;
            }
            engine.drain_rings(plan, random);
            let count = engine.drain_links();
            engine.take_large_events();
            engine.port.links.has_outgoing |= count > 0 || engine.port.links.waits_for_room;
            engine.poll_if_due();
            engine.settle_and_flush();
            true
        })
    }

    /// Returns the true time at which something is next due in this process.
    pub fn next_wake(&self) -> Option<u64> {
        let wakes =
            [self.handle.with(|engine| engine.next_wake(true)), self.connections.next_wake()];
        wakes.into_iter().flatten().map(|wake| self.handle.clock.when(wake)).min()
    }
}

impl Handle {
    /// Returns the local time of this process's clock.
    pub fn now(&self) -> u64 {
        self.clock.local(self.shared.borrow().now)
    }
}
