//! The client: the program's engine, its door, and the order in which its threads do things.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_client::{LinkWork, Porter, Terms};
use gristmill_sync::random::Random as Leases;

use super::clock::Clock;
use super::doorway::Doorway;
use super::engine::Engine;
use super::handle::{Handle, Shared};
use super::network::{Air, look};
use super::node::Condition;
use super::plan::ClusterPlan;
use crate::drive::Drive;
use crate::plan::Plan;
use crate::random::Random;

/// The client's process.
pub(crate) struct Client {
    pub handle: Handle,
    pub porter: Porter<Handle>,
    pub door: Doorway,
    pub condition: Condition,
    /// Tasks that the program has submitted.
    pub submitted: u64,
    pub is_closed: bool,
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
        let handle = Handle::new(shared, ("client".to_owned(), clock), config, (plan, air), true);
        let terms = Terms {
            ask: plan.ask.clone(),
            python: "3".to_owned(),
            engine: "sim".to_owned(),
            name: "client".to_owned(),
        };
        let porter = Porter::new(handle.clone(), terms, Leases::from_seed(seed));
        let nodes: Vec<usize> = (0..plan.nodes.len()).collect();
        let dialled = nodes.iter().copied().filter(|&node| !plan.joins[node]).collect();
        let door = Doorway::new(air, 0, nodes, dialled);
        let condition = Condition::Well;
        Self { handle, porter, door, condition, submitted: 0, is_closed: false, has_left: false }
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
            if let Some((lease, is_over)) = self.porter.hear(news) {
                self.door.dials.redial(lease, is_over, now);
            }
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

impl Engine {
    /// Whether something has come over links, or there is room again for what waits.
    pub fn has_arrived(&self, air: &Air) -> bool {
        let air = look(air);
        self.lanes.links.peers().any(|peer| {
            let Some(link) = self.lanes.links.get(peer) else { return false };
            let Some(channel) = link.channel() else { return false };
            let (line, side) = super::channel::SimChannel::end_of(channel.peer());
            air.is_readable(line, side) || (link.waits_for_room && air.is_writable(line, side))
        })
    }

    /// Whether whoever completes tasks has something to do; whether that is links too.
    pub fn is_due(&self, air: &Air, with_links: bool) -> bool {
        let now = self.lanes.world.now;
        let is_published = self.lanes.world.workers.iter().any(|worker| worker.published > 0);
        is_published
            || self.lanes.links.has_outgoing
            || self.next_wake(with_links).is_some_and(|wake| wake <= now)
            || (with_links && self.has_arrived(air))
    }

    /// When something is due whatever comes; whether that is links too.
    pub fn next_wake(&self, with_links: bool) -> Option<u64> {
        let wake = self.core.next_wake(self.lanes.world.now);
        assert!(wake.is_none() || self.core.has_obligations(), "a wake-up that nobody owes");
        let link_wake = if with_links { self.next_link_wake() } else { None };
        wake.into_iter().chain(link_wake).min()
    }

    /// Takes in what workers wrote, some of it.
    pub fn drain_rings(&mut self, plan: &Plan, random: &mut Random) {
        let count = self.lanes.world.workers.len();
        if count > 0 {
            let place = random.index(count);
            self.drive(plan, random).drain_some(place);
        }
    }

    pub fn drive<'a>(
        &'a mut self,
        plan: &'a Plan,
        random: &'a mut Random,
    ) -> Drive<'a, super::engine::Lanes> {
        Drive { core: &mut self.core, port: &mut self.lanes, plan, random }
    }

    pub fn poll_if_due(&mut self) {
        let now = self.lanes.world.now;
        if self.core.next_wake(now).is_some_and(|wake| wake <= now) {
            self.core.poll(now, &mut self.lanes);
        }
    }

    /// Does what the graph decided, and hands over what is to leave because of it.
    pub fn settle_and_flush(&mut self) {
        gristmill_client::LinkHome::settle(self);
        if self.lanes.links.has_outgoing {
            let now = self.lanes.world.now;
            self.flush_links(now);
        }
    }
}
