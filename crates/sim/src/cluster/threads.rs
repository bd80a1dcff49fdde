//! What the threads of a process do with its engine, a step at a time.

use gristmill_client::{LinkHome, LinkWork};

use super::channel::SimChannel;
use super::engine::Engine;
use super::handle::Handle;
use super::lanes::Lanes;
use super::network::{Air, look};
use crate::drive::Drive;
use crate::plan::Plan;
use crate::random::Random;

impl Handle {
    /// Gives the news of births and deaths, and may kill.
    pub fn tend(&self, plan: &Plan, random: &mut Random, kills: bool) -> bool {
        self.with(|engine| {
            let count = engine.lanes.world.workers.len();
            if count == 0 {
                return false;
            }
            let place = random.index(count);
            let mut drive = engine.drive(plan, random);
            let has_moved =
                drive.notice(place) || (kills && drive.random.chance(5) && drive.fault(place));
            if has_moved {
                engine.settle_and_flush();
            }
            has_moved
        })
    }

    /// Lets one worker do one thing.
    pub fn work(&self, plan: &Plan, random: &mut Random) -> bool {
        self.with(|engine| {
            let count = engine.lanes.world.workers.len();
            let first = if count == 0 { 0 } else { random.index(count) };
            (0..count).any(|step| engine.lanes.world.work((first + step) % count, plan, random))
        })
    }

    /// What the thread does that looks after the links of a node's engine.
    pub fn carry(&self, air: &Air) -> bool {
        self.with(|engine| {
            let now = engine.lanes.world.now;
            let is_due = engine.next_link_wake().is_some_and(|wake| wake <= now);
            if !is_due && !engine.has_arrived(air) {
                return false;
            }
            engine.drain_links();
            engine.settle();
            engine.flush_links(now);
            true
        })
    }

    /// What the thread does that completes the tasks of a node's engine.
    pub fn complete(&self, air: &Air, plan: &Plan, random: &mut Random) -> bool {
        self.with(|engine| {
            if !engine.is_due(air, false) {
                return false;
            }
            engine.drain_rings(plan, random);
            engine.hear_large_news();
            engine.poll_if_due();
            engine.settle_and_flush();
            true
        })
    }
}

impl Engine {
    /// Whether something has come over links, or there is room again for what waits.
    pub fn has_arrived(&self, air: &Air) -> bool {
        let air = look(air);
        self.lanes.links.peers().any(|peer| {
            let Some(link) = self.lanes.links.get(peer) else { return false };
            let Some(channel) = link.channel() else { return false };
            let (line, side) = SimChannel::end_of(channel.peer());
            air.is_readable(line, side) || (link.waits_for_room && air.is_writable(line, side))
        })
    }

    /// Whether whoever completes tasks has something to do; whether that is links too.
    pub fn is_due(&self, air: &Air, with_links: bool) -> bool {
        let now = self.lanes.world.now;
        let is_published = self.lanes.world.workers.iter().any(|worker| worker.published > 0);
        is_published
            || self.lanes.links.has_outgoing
            || self.has_large_news()
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

    pub fn drive<'a>(&'a mut self, plan: &'a Plan, random: &'a mut Random) -> Drive<'a, Lanes> {
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
        self.settle();
        if self.lanes.links.has_outgoing {
            let now = self.lanes.world.now;
            self.flush_links(now);
        }
    }
}
