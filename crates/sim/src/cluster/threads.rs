//! Steps of the threads of a process with its engine.

use gristmill_client::{LinkHome, LinkWork};

use super::channel::SimChannel;
use super::engine::Engine;
use super::handle::Handle;
use super::network::{Air, look};
use super::sim_port::SimPort;
use crate::drive::Drive;
use crate::plan::Plan;
use crate::random::SeededRandom;

impl Handle {
    /// Reports starts and deaths of workers, and may kill one; returns whether anything happened.
    pub fn tend(&self, plan: &Plan, random: &mut SeededRandom, kills: bool) -> bool {
        self.with(|engine| {
            let count = engine.port.world.workers.len();
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
    pub fn work(&self, plan: &Plan, random: &mut SeededRandom) -> bool {
        self.with(|engine| {
            let count = engine.port.world.workers.len();
            let first = if count == 0 { 0 } else { random.index(count) };
            (0..count).any(|step| engine.port.world.work((first + step) % count, plan, random))
        })
    }

    /// Does a step of the thread that serves the links of a node's engine.
    pub fn carry(&self, air: &Air) -> bool {
        self.with(|engine| {
            let now = engine.port.world.now;
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

    /// Does a step of the thread that completes the tasks of a node's engine.
    pub fn complete(&self, air: &Air, plan: &Plan, random: &mut SeededRandom) -> bool {
        self.with(|engine| {
            if !engine.is_due(air, false) {
                return false;
            }
            engine.drain_rings(plan, random);
            engine.take_large_events();
            engine.poll_if_due();
            engine.settle_and_flush();
            true
        })
    }
}

impl Engine {
    /// Returns whether messages have come over links, or a link has room again for what waits.
    pub fn has_arrived(&self, air: &Air) -> bool {
        let air = look(air);
        self.port.links.peers().any(|peer| {
            let Some(link) = self.port.links.get(peer) else { return false };
            let Some(channel) = link.channel() else { return false };
            let (line, side) = SimChannel::end_of(channel.peer());
            air.is_readable(line, side) || (link.waits_for_room && air.is_writable(line, side))
        })
    }

    /// Returns whether the thread that completes tasks has something to do; `with_links` if it serves the links too.
    pub fn is_due(&self, air: &Air, with_links: bool) -> bool {
        let now = self.port.world.now;
        let is_published = self.port.world.workers.iter().any(|worker| worker.published > 0);
        is_published
            || self.port.links.has_outgoing
            || self.has_large_events()
            || self.next_wake(with_links).is_some_and(|wake| wake <= now)
            || (with_links && self.has_arrived(air))
    }

    /// Returns the time at which something is due even if no message comes; `with_links` if the links count too.
    pub fn next_wake(&self, with_links: bool) -> Option<u64> {
        let wake = self.core.next_wake(self.port.world.now);
        assert!(wake.is_none() || self.core.has_obligations(), "a wake-up that no thread owes");
        let link_wake = if with_links { self.next_link_wake() } else { None };
        wake.into_iter().chain(link_wake).min()
    }

    /// Processes some of the records that workers have published.
    pub fn drain_rings(&mut self, plan: &Plan, random: &mut SeededRandom) {
        let count = self.port.world.workers.len();
        if count > 0 {
            let place = random.index(count);
            self.drive(plan, random).drain_some(place);
        }
    }

    pub fn drive<'a>(
        &'a mut self,
        plan: &'a Plan,
        random: &'a mut SeededRandom,
    ) -> Drive<'a, SimPort> {
        Drive { core: &mut self.core, port: &mut self.port, plan, random }
    }

    pub fn poll_if_due(&mut self) {
        let now = self.port.world.now;
        if self.core.next_wake(now).is_some_and(|wake| wake <= now) {
            self.core.poll(now, &mut self.port);
        }
    }

    /// Carries out the decisions of the graph and sends the resulting messages.
    pub fn settle_and_flush(&mut self) {
        self.settle();
        if self.port.links.has_outgoing {
            let now = self.port.world.now;
            self.flush_links(now);
        }
    }
}
