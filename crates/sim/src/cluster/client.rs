//! The client: the program's engine, its door, and the order in which its threads do things.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_client::{LinkWork, Porter, Terms};
use gristmill_sync::random::Random as Leases;

use super::clock::Clock;
use super::doorway::Doorway;
use super::handle::Handle;
use super::network::Air;
use super::node::Condition;
use super::plan::ClusterPlan;
use super::shared::Shared;
use crate::plan::Plan;
use crate::random::Random;

/// The client's process.
pub(crate) struct Client {
    pub handle: Handle,
    pub porter: Porter<Handle>,
    pub door: Doorway,
    pub condition: Condition,
    /// The task of which the program waits to hear whether it is cancelled.
    pub asked: Option<usize>,
    /// Tasks that the program has submitted.
    pub submitted: u64,
    pub is_closed: bool,
    /// Before that time the program does not ask its nodes to last longer.
    pub extends_at: u64,
    /// It has no workers of its own.
    needs_nodes: bool,
    /// It has ended in order.
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
        let terms = Terms {
            ask: plan.ask.clone(),
            python: "3".to_owned(),
            engine: "sim".to_owned(),
            name: "client".to_owned(),
            ends_at_ns: u64::MAX,
            nodes_max: Some(plan.nodes.len()),
        };
        let porter = Porter::new(handle.clone(), terms, Leases::from_seed(seed));
        let nodes: Vec<usize> = (0..plan.nodes.len()).collect();
        let dialled = nodes.iter().copied().filter(|&node| !plan.joins[node]).collect();
        let door = Doorway::new(air, 0, nodes, dialled);
        let condition = Condition::Well;
        Self {
            handle,
            porter,
            door,
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

    /// Lets the door's thread work; false when there is nothing to do.
    pub fn attend_door(&mut self) -> bool {
        let now = self.handle.now();
        let has_news = self.handle.with(|engine| !engine.news.is_empty());
        if !has_news && !self.door.is_due(now) {
            return false;
        }
        self.door.attend(&mut self.porter, now);
        for (dial, lease) in self.porter.kept.drain(..) {
            self.door.dials.keep(dial, lease);
        }
        for news in self.handle.with(|engine| std::mem::take(&mut engine.news)) {
            if let Some((lease, redial)) = self.porter.hear(news, now) {
                self.door.dials.redial(lease, redial, now);
            }
        }
        if let Some(text) = self.porter.verdict(now).filter(|_| self.needs_nodes) {
            self.handle.give_up_workers(&text);
            self.porter.close(&text);
            self.door.dials.give_all_up();
        }
        true
    }

    /// Completes tasks, as a caller does or the attendant; false when there is nothing to do.
    pub fn lead(&mut self, air: &Air, plan: &Plan, random: &mut Random) -> bool {
        self.handle.with(|engine| {
            if !engine.is_due(air, true) {
                return false;
            }
            engine.drain_rings(plan, random);
            let count = engine.drain_links();
            engine.hear_large_news();
            engine.lanes.links.has_outgoing |= count > 0 || engine.lanes.links.waits_for_room;
            engine.poll_if_due();
            engine.settle_and_flush();
            true
        })
    }

    /// When something is due in this process, true time.
    pub fn next_wake(&self) -> Option<u64> {
        let wakes = [self.handle.with(|engine| engine.next_wake(true)), self.door.next_wake()];
        wakes.into_iter().flatten().map(|wake| self.handle.clock.when(wake)).min()
    }
}

impl Handle {
    /// Its clock.
    pub fn now(&self) -> u64 {
        self.clock.local(self.shared.borrow().now)
    }
}
