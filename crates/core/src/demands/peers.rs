//! Demanding tasks that go to peers: to one that has what they need, and that nobody else needs it of. What a context's
//! workers are to have is not taken from others there: tasks in it go to any peer that has as much, and has room.

use gristmill_wire::{Demand, WHOLE_GPU};

use super::search::Search;
use super::{Kinds, LOOKS_MAX};
use crate::Core;
use crate::contexts::PLAIN;
use crate::peers::Level;
use crate::place::Placed;
use crate::port::Port;
use crate::task::State;

/// What demanding tasks have of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    places: u64,
    /// Thousandths.
    gpus: u64,
    memory: u64,
}

impl Taken {
    pub const NONE: Self = Self { places: 0, gpus: 0, memory: 0 };

    pub fn add(&mut self, demand: &Demand) {
        self.places += u64::from(demand.places());
        self.gpus += u64::from(demand.gpus);
        self.memory = self.memory.saturating_add(demand.memory);
    }

    pub fn remove(&mut self, demand: &Demand) {
        self.places -= u64::from(demand.places());
        self.gpus -= u64::from(demand.gpus);
        self.memory = self.memory.saturating_sub(demand.memory);
    }
}

impl Core {
    /// Sends what some peer has everything for, as far as a look at a few of them shows.
    pub(super) fn send_demanding(&mut self, port: &mut impl Port) {
        let end = self.peers.end();
        if self.demands.search.is_due() {
            while self.send_one_demanding(|search| search.places(end), port) {}
            self.demands.search.go_on(end);
        }
    }

    /// Looks at all peers, if a few were not enough.
    pub(crate) fn search_all_peers(&mut self, port: &mut impl Port) {
        let end = self.peers.end();
        if self.next_search().is_some() {
            while self.send_one_demanding(|_| 0..end, port) {}
            self.demands.search.end();
        }
    }

    /// When [`Core::poll`] should look at all peers, if it should.
    pub(crate) fn next_search(&self) -> Option<u64> {
        let waits = self.demands.len() > 0 && self.config.workers == 0;
        let is_due = waits && self.demands.search.is_due();
        is_due.then(|| self.polled_at.saturating_add(self.config.recheck_ns))
    }

    /// Sends the first of the queue that one of some peers has everything for; false: there is none.
    fn send_one_demanding<P: Iterator<Item = usize>>(
        &mut self,
        places: impl Fn(&Search) -> P,
        port: &mut impl Port,
    ) -> bool {
        let among = || places(&self.demands.search);
        let Some((index, first)) = self.first_with_peer(among) else { return false };
        let first = self.equipped_home(index).unwrap_or(first);
        let place = self.prefer_holder(index, first, port, |place| self.has_all_for(index, place));
        self.dequeue_demanding(index);
        self.tasks[index].state = State::Loose;
        if self.send_away(place, index, port) == Placed::Full {
            self.queue_demanding(index, true);
        }
        true
    }

    /// The first task for which there is a peer, and that peer. What is short of one thing holds up those that need it too.
    fn first_with_peer<P: Iterator<Item = usize>>(
        &self,
        places: impl Fn() -> P,
    ) -> Option<(u32, usize)> {
        let mut short = Kinds::default();
        for index in self.demands.queue.iter(&self.tasks).take(LOOKS_MAX) {
            let kinds = Kinds::of(&self.needs(index));
            if short.meets(kinds) {
                continue;
            }
            if let Some(place) = self.choose_peer_with(index, places()) {
                return Some((index, place));
            }
            short.add(kinds);
            if self.demands.kinds.all_meet(short) {
                break;
            }
        }
        None
    }

    /// Of the peers that have what a task needs the one of whose workers the fewest are taken so.
    fn choose_peer_with(&self, index: u32, places: impl Iterator<Item = usize>) -> Option<usize> {
        places.filter(|&place| self.has_all_for(index, place)).min_by_key(|&place| {
            let peer = self.peers.get(place);
            let workers = u64::from(peer.offer.workers.max(1));
            (peer.taken.places * 1000 / workers, peer.backlog_ns / workers)
        })
    }

    /// Whether a peer has what a task needs now.
    fn has_all_for(&self, index: u32, place: usize) -> bool {
        let run_ns = self.functions[self.tasks[index].function.0 as usize].mean_ns();
        let peer = self.peers.get(place);
        peer.is_joined
            && !peer.is_draining
            && !peer.is_congested
            && !peer.trust.is_lost
            && self.has_left_for(index, place)
            && peer.has_time_for(run_ns, self.now)
    }

    /// Whether a peer has what a task needs that goes there with it; or room, and as much as its context needs.
    fn has_left_for(&self, index: u32, place: usize) -> bool {
        let (demand, peer) = (self.demand(index), self.peers.get(place));
        if !demand.is_none() {
            return peer.has_left(&demand);
        }
        let has_room = self.peers.levels.of(place) != Level::Shut;
        has_room && peer.offer.covers(&self.needs(index), &Taken::NONE)
    }

    /// The peer where a task's context is at home, if it has what that needs and a worker there has nothing to do.
    fn equipped_home(&self, index: u32) -> Option<usize> {
        let context = self.extras[self.tasks[index].extra].context;
        if context == PLAIN {
            return None;
        }
        let home = self.peers.homes.find_context(context, self.peers.end());
        let is_idle = self.peers.levels.of(home) == Level::Idle;
        (is_idle && self.has_all_for(index, home)).then_some(home)
    }

    /// Asserts that what nobody looks for is nowhere.
    pub(super) fn audit_search(&self) {
        if self.config.workers > 0 || self.demands.search.is_due() {
            return;
        }
        let lasts = |place: &usize| self.peers.get(*place).offer.ends_at_ns == u64::MAX;
        let found = self.first_with_peer(|| (0..self.peers.end()).filter(lasts));
        assert_eq!(found, None, "nothing waits beside a peer that has what it needs");
    }

    /// Whether some peer could run a task if it had nothing else to do.
    pub(crate) fn has_able_peer(&self, demand: &Demand) -> bool {
        let peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        peers.filter(|peer| peer.is_joined).any(|peer| peer.offer.covers(demand, &Taken::NONE))
    }
}

impl crate::PeerOffer {
    /// Whether there is enough for one more task.
    pub(crate) fn covers(&self, demand: &Demand, taken: &Taken) -> bool {
        taken.places + u64::from(demand.places()) <= u64::from(self.workers)
            && taken.memory.saturating_add(demand.memory) <= self.memory
            && taken.gpus + u64::from(demand.gpus) <= u64::from(self.gpus) * u64::from(WHOLE_GPU)
    }
}
