//! Placement of demanding tasks at peers: a task goes to a peer that has what it needs, beside the other demanding tasks
//! there.

use std::collections::BTreeMap;

use gristmill_wire::{ResourceRequest, WHOLE_GPU};

use super::search::Search;
use super::{Kinds, LOOKS_MAX};
use crate::Core;
use crate::place::Placed;
use crate::port::Port;
use crate::task::State;

/// Resources of a peer that demanding tasks use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerUsage {
    places: u64,
    /// Thousandths of a GPU.
    gpus: u64,
    memory: u64,
}

impl PeerUsage {
    pub const NONE: Self = Self { places: 0, gpus: 0, memory: 0 };

    pub fn add(&mut self, demand: &ResourceRequest) {
        self.places += u64::from(demand.places());
        self.gpus += u64::from(demand.gpus);
        self.memory = self.memory.saturating_add(demand.memory);
    }

    pub fn remove(&mut self, demand: &ResourceRequest) {
        self.places -= u64::from(demand.places());
        self.gpus -= u64::from(demand.gpus);
        self.memory = self.memory.saturating_sub(demand.memory);
    }

    fn add_all(&mut self, other: &Self) {
        self.places += other.places;
        self.gpus += other.gpus;
        self.memory = self.memory.saturating_add(other.memory);
    }
}

/// Resources of a peer that demanding tasks use, by their priorities.
#[derive(Debug)]
pub(crate) struct PeerUsageByPriority {
    all: PeerUsage,
    /// Number of tasks of each priority, and the resources that they use.
    by_priority: BTreeMap<i32, (u32, PeerUsage)>,
}

impl PeerUsageByPriority {
    pub const NONE: Self = Self { all: PeerUsage::NONE, by_priority: BTreeMap::new() };

    /// Returns the resources that all of these tasks use.
    pub const fn all(&self) -> PeerUsage {
        self.all
    }

    /// Returns the resources that the tasks with at least this priority use.
    pub fn above(&self, priority: i32) -> PeerUsage {
        let mut sum = PeerUsage::NONE;
        self.by_priority.range(priority..).for_each(|(_, (_, taken))| sum.add_all(taken));
        sum
    }

    /// Returns the number of CPU slots that these tasks fill beyond one each.
    pub fn places_beside(&self) -> u64 {
        let count: u32 = self.by_priority.values().map(|(count, _)| count).sum();
        self.all.places - u64::from(count)
    }

    /// Adds a task to the sums, or removes it.
    pub fn count(&mut self, demand: &ResourceRequest, priority: i32, enters: bool) {
        let (count, taken) = self.by_priority.entry(priority).or_insert((0, PeerUsage::NONE));
        if enters {
            *count += 1;
            taken.add(demand);
            self.all.add(demand);
        } else {
            *count -= 1;
            taken.remove(demand);
            self.all.remove(demand);
        }
        if *count == 0 {
            self.by_priority.remove(&priority);
        }
    }
}

impl Core {
    /// Sends the tasks for which some peer has everything, if a look at a few peers finds it.
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

    /// Returns when [`Core::poll`] should look at all peers; `None` if it should not.
    pub(crate) fn next_search(&self) -> Option<u64> {
        let waits = self.demands.len() > 0 && self.config.workers == 0;
        let is_due = waits && self.demands.search.is_due();
        is_due.then(|| self.polled_at.saturating_add(self.config.recheck_ns))
    }

    /// Sends the first queued task for which one of some peers has everything. Returns false if there is no such task.
    fn send_one_demanding<P: Iterator<Item = usize>>(
        &mut self,
        places: impl Fn(&Search) -> P,
        port: &mut impl Port,
    ) -> bool {
        let among = || places(&self.demands.search);
        let Some((index, first)) = self.first_with_peer(among) else { return false };
        let place = self.prefer_holder(index, first, port, |place| self.has_all_for(index, place));
        self.dequeue_demanding(index);
        self.tasks[index].state = State::Loose;
        if self.delegate(place, index, port) == Placed::Full {
            self.queue_demanding(index, true);
        }
        true
    }

    /// Returns the first task for which there is a peer, and that peer. A task that lacks a resource holds up the tasks
    /// behind it that need the same kind.
    fn first_with_peer<P: Iterator<Item = usize>>(
        &self,
        places: impl Fn() -> P,
    ) -> Option<(u32, usize)> {
        let mut short = Kinds::default();
        for index in self.demands.queue.iter(&self.tasks).take(LOOKS_MAX) {
            let kinds = Kinds::of(&self.demand(index));
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

    /// Chooses among the peers that have what a task needs: first one whose floor keeps enough workers idle, then the one
    /// with the smallest part of its workers taken by demanding tasks.
    fn choose_peer_with(&self, index: u32, places: impl Iterator<Item = usize>) -> Option<usize> {
        places.filter(|&place| self.has_all_for(index, place)).min_by_key(|&place| {
            let peer = self.peers.get(place);
            let workers = u64::from(peer.offer.workers.max(1));
            (
                !self.is_vacant_for(index, place),
                peer.taken.all().places * 1000 / workers,
                peer.backlog_ns / workers,
            )
        })
    }

    /// Returns true if a peer has what a task needs now. If the task competes, the resources of tasks with a lower
    /// priority there do not count: the peer's engine runs those tasks later.
    fn has_all_for(&self, index: u32, place: usize) -> bool {
        let run_ns = self.functions[self.tasks[index].function.0 as usize].mean_ns();
        let peer = self.peers.get(place);
        let is_settling =
            peer.is_settling(self.priority(index)) && peer.runnable() >= peer.offer.workers;
        let (demand, priority) = (self.demand(index), self.priority(index));
        let has_left = match self.priorities.is_used() && self.competes(priority) {
            true => peer.has_left_above(&demand, priority),
            false => peer.has_left(&demand),
        };
        peer.is_joined
            && !peer.is_draining
            && !peer.is_congested
            && !is_settling
            && !peer.trust.is_lost
            && has_left
            && peer.has_time_for(run_ns, self.now)
    }

    /// Asserts that no peer has what a waiting task needs while no search is due.
    pub(super) fn audit_search(&self) {
        if self.config.workers > 0 || self.demands.search.is_due() {
            return;
        }
        let lasts = |place: &usize| self.peers.get(*place).offer.ends_at_ns == u64::MAX;
        let found = self.first_with_peer(|| (0..self.peers.end()).filter(lasts));
        assert_eq!(found, None, "no task waits beside a peer that has its resources");
    }

    /// Returns true if some peer could run a task if it had no other tasks.
    pub(crate) fn has_able_peer(&self, demand: &ResourceRequest) -> bool {
        let peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        peers.filter(|peer| peer.is_joined).any(|peer| peer.offer.covers(demand, &PeerUsage::NONE))
    }
}

impl crate::PeerOffer {
    /// Returns true if the peer has enough for one more task.
    pub(crate) fn covers(&self, demand: &ResourceRequest, taken: &PeerUsage) -> bool {
        self.covers_places(demand, taken) && self.covers_rest(demand, taken)
    }

    /// Returns true if the peer has enough CPU slots for one more task.
    pub(crate) fn covers_places(&self, demand: &ResourceRequest, taken: &PeerUsage) -> bool {
        taken.places + u64::from(demand.places()) <= u64::from(self.workers)
    }

    /// Returns true if the peer has enough memory and GPUs for one more task.
    pub(crate) fn covers_rest(&self, demand: &ResourceRequest, taken: &PeerUsage) -> bool {
        taken.memory.saturating_add(demand.memory) <= self.memory
            && taken.gpus + u64::from(demand.gpus) <= u64::from(self.gpus) * u64::from(WHOLE_GPU)
    }
}
