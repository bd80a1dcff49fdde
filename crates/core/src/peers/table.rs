//! What is known of each peer.

use gristmill_wire::{Epoch, PeerId, TaskId};

use super::homes::Homes;
use super::levels::{Level, Levels};
use super::trust::Trust;
use crate::demands::Taken;
use crate::estimate::Cost;
use crate::list::List;
use crate::task::State;
use crate::{Config, Core};

/// What a peer offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOffer {
    /// Tasks that it runs at the same time.
    pub workers: u32,
    /// From a message to its answer, nanoseconds: so much more work has to be under way.
    pub round_trip_ns: u64,
    /// When it is over, monotonic nanoseconds: what is not expected to be done by then does not go there. `u64::MAX` is
    /// not known.
    pub ends_at_ns: u64,
    /// Bytes of memory that its tasks may ask for.
    pub memory: u64,
    /// GPUs that its tasks may ask for.
    pub gpus: u32,
}

impl PeerOffer {
    /// Workers and nothing else, until further notice.
    #[must_use]
    pub const fn of_workers(workers: u32) -> Self {
        Self { workers, round_trip_ns: 0, ends_at_ns: u64::MAX, memory: 0, gpus: 0 }
    }
}

/// One peer, as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerStats {
    /// Which one.
    pub peer: PeerId,
    /// Tasks that it runs at the same time.
    pub workers: u32,
    /// Tasks sent and not answered.
    pub in_flight: u32,
    /// How long they are expected to take, nanoseconds, one after the other.
    pub backlog_ns: u64,
    /// It gets nothing more.
    pub is_draining: bool,
    /// Its workers died again and again: it gets nothing for a while.
    pub is_distrusted: bool,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub is_joined: bool,
    pub is_draining: bool,
    /// The link takes nothing more for now.
    pub is_congested: bool,
    /// It was asked to give tasks back and has not said that it has.
    pub is_recalled: bool,
    /// Nothing went there and nothing came back since it was asked: it has nothing to give.
    pub is_dry: bool,
    /// It has given a task back that nobody had asked for, and answered nothing since: all that it has waits.
    pub is_stuck: bool,
    /// Which of those that were this one's place.
    pub epoch: Epoch,
    /// When it joined, clock ticks.
    pub joined_ticks: u64,
    pub offer: PeerOffer,
    /// Tasks sent and not answered, in the order sent.
    pub in_flight: List,
    pub backlog_ns: u64,
    /// Of those in flight, the ones that wait for others there: no worker could run them.
    pub blocked: u32,
    /// Their part of the backlog.
    pub blocked_ns: u64,
    /// What demanding tasks have of it.
    pub taken: Taken,
    pub trust: Trust,
    /// Tasks whose unfinished parents it has, which wait for room.
    pub followers: List,
    /// Tasks that have returned there, and whose results are there.
    pub stayed: List,
}

impl Peer {
    const ABSENT: Self = Self {
        is_joined: false,
        is_draining: false,
        is_congested: false,
        is_recalled: false,
        is_dry: false,
        is_stuck: false,
        epoch: Epoch(0),
        joined_ticks: 0,
        offer: PeerOffer::of_workers(0),
        in_flight: List::EMPTY,
        backlog_ns: 0,
        blocked: 0,
        blocked_ns: 0,
        taken: Taken::NONE,
        trust: Trust::WHOLE,
        followers: List::EMPTY,
        stayed: List::EMPTY,
    };

    /// How much room it has for tasks that are ready: those that wait for others there keep no worker from them.
    #[inline]
    pub fn level(&self, config: &Config) -> Level {
        self.level_beside(self.runnable(), self.runnable_ns(), config)
    }

    /// Whether a task may wait there for others. It counts all that is there, or tasks would go ahead without end.
    pub fn has_room_to_wait(&self, config: &Config) -> bool {
        self.level_beside(self.in_flight.len, self.backlog_ns, config) != Level::Shut
    }

    /// How much room it has beside so many tasks, which take so long one after the other.
    #[inline]
    fn level_beside(&self, count: u32, backlog_ns: u64, config: &Config) -> Level {
        if !self.is_joined || self.is_draining || self.is_congested || self.trust.is_lost {
            return Level::Shut;
        }
        if self.is_stuck {
            return Level::Shut;
        }
        let workers = self.offer.workers;
        if count < workers {
            return Level::Idle;
        }
        if self.is_recalled {
            // What it gives back would go there again.
            return Level::Shut;
        }
        let window_ns = config.window_ns + self.offer.round_trip_ns;
        let has_window = backlog_ns < window_ns.saturating_mul(u64::from(workers));
        let is_shallow = count < config.depth_min.saturating_mul(workers);
        let is_deep = count >= config.depth_max.saturating_mul(workers);
        if is_shallow || (has_window && !is_deep) { Level::Open } else { Level::Shut }
    }

    /// Whether it has what a task needs, beside the others that need something.
    pub fn has_left(&self, demand: &gristmill_wire::Demand) -> bool {
        self.offer.covers(demand, &self.taken)
    }

    /// Whether a task that runs for so long is done before it is over, behind what it has.
    #[inline]
    pub fn has_time_for(&self, run_ns: u64, now: u64) -> bool {
        if self.offer.ends_at_ns == u64::MAX {
            return true;
        }
        let before = self.backlog_ns / u64::from(self.offer.workers.max(1));
        now.saturating_add(before).saturating_add(run_ns) <= self.offer.ends_at_ns
    }

    /// How long a task waits there before it begins, as far as is known.
    pub fn wait_ns(&self) -> u64 {
        let workers = u64::from(self.offer.workers.max(1));
        if self.idle_count() > 0 { 0 } else { self.runnable_ns() / workers }
    }

    /// Tasks there that run, or wait for nothing but a worker.
    #[inline]
    pub const fn runnable(&self) -> u32 {
        self.in_flight.len - self.blocked
    }

    /// How long these are expected to take, nanoseconds, one after the other.
    #[inline]
    pub const fn runnable_ns(&self) -> u64 {
        self.backlog_ns - self.blocked_ns
    }

    /// Counts a task that is there among those that wait for others.
    #[inline]
    pub const fn block(&mut self, cost: Cost) {
        self.blocked += 1;
        self.blocked_ns += cost.ns();
    }

    /// Counts it among those no more.
    #[inline]
    pub const fn unblock(&mut self, cost: Cost) {
        self.blocked -= 1;
        self.blocked_ns -= cost.ns();
    }

    /// Workers that have nothing to do.
    #[inline]
    pub const fn idle_count(&self) -> u32 {
        self.offer.workers.saturating_sub(self.runnable())
    }

    /// Whether something waits there for a worker, as far as is known.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.runnable() > self.offer.workers && !self.is_dry
    }
}

/// All peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    entries: Vec<Peer>,
    pub levels: Levels,
    pub homes: Homes,
    /// Tasks that are away.
    pub away: u64,
    /// Workers of peers that died.
    pub deaths: u64,
    /// Peers that get nothing because of that.
    pub distrusted: u32,
    /// Peers that have more than their workers run.
    pub deep: u32,
    /// Cost of what went to the first of the best list in a row.
    pub streak_ns: u64,
    /// When tasks were asked back last.
    pub recalled_at: u64,
    /// Tasks that were sent just now and have dependants, which may follow.
    pub shipped: Vec<u32>,
    /// Tasks that have returned, and whose results nobody can ask for any more.
    pub unwanted: Vec<TaskId>,
}

impl Peers {
    #[inline]
    pub fn get(&self, place: usize) -> &Peer {
        &self.entries[place]
    }

    #[inline]
    pub fn get_mut(&mut self, place: usize) -> &mut Peer {
        &mut self.entries[place]
    }

    /// One past the last place.
    #[inline]
    pub fn end(&self) -> usize {
        self.entries.len()
    }

    /// Puts a peer into the list that it belongs to now. Due after each change of its load.
    #[inline]
    pub fn settle(&mut self, place: usize, config: &Config) {
        let level = self.entries[place].level(config);
        self.levels.put(place, level);
    }

    /// Changes what a peer has to do, and with it what is known of all of them.
    #[inline]
    pub fn change(&mut self, place: usize, config: &Config, change: impl FnOnce(&mut Peer)) {
        let peer = &mut self.entries[place];
        let was_deep = peer.has_more();
        change(peer);
        let is_deep = peer.has_more();
        self.deep += u32::from(is_deep && !was_deep);
        self.deep -= u32::from(was_deep && !is_deep);
        self.settle(place, config);
    }

    fn extend_to(&mut self, place: usize) {
        while self.entries.len() <= place {
            self.entries.push(Peer::ABSENT);
            self.levels.extend();
        }
    }
}

impl Core {
    /// The place of a peer that is joined.
    pub(crate) fn joined_peer(&self, peer: PeerId) -> Option<usize> {
        let place = usize::from(peer.0);
        (place < self.peers.end() && self.peers.get(place).is_joined).then_some(place)
    }

    /// Makes a place for a peer that joins, or says anew what one offers.
    pub(crate) fn set_offer(&mut self, peer: PeerId, epoch: Epoch, offer: PeerOffer, ticks: u64) {
        let place = usize::from(peer.0);
        self.peers.extend_to(place);
        self.peers.change(place, &self.config, |entry| {
            if !entry.is_joined {
                entry.joined_ticks = ticks;
            }
            entry.is_joined = true;
            entry.is_stuck = false;
            entry.epoch = epoch;
            entry.offer = offer;
        });
        self.demands.search.grow(place);
    }

    /// Forgets a peer that has nothing in flight any more.
    pub(crate) fn forget_peer(&mut self, place: usize) {
        let peer = self.peers.get(place);
        let has_tasks = peer.in_flight.len > 0 || peer.stayed.len > 0;
        debug_assert!(!has_tasks, "its tasks were taken care of");
        while self.peers.get(place).followers.len > 0 {
            self.cease_to_follow(self.peers.get(place).followers.head);
        }
        self.peers.distrusted -= u32::from(self.peers.get(place).trust.is_lost);
        *self.peers.get_mut(place) = Peer::ABSENT;
        self.peers.settle(place, &self.config);
        self.regain_trust();
    }

    /// The peers that are joined.
    pub fn peer_stats(&self) -> impl Iterator<Item = PeerStats> + '_ {
        (0..self.peers.end()).filter_map(|place| {
            let peer = self.peers.get(place);
            peer.is_joined.then(|| PeerStats {
                peer: peer_id(place),
                workers: peer.offer.workers,
                in_flight: peer.in_flight.len,
                backlog_ns: peer.backlog_ns,
                is_draining: peer.is_draining,
                is_distrusted: peer.trust.is_lost,
            })
        })
    }

    /// Asserts what must hold of peers between calls.
    pub(crate) fn audit_peers(&self) {
        let peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        let away: u64 = peers.clone().map(|peer| u64::from(peer.in_flight.len)).sum();
        assert_eq!(away, self.peers.away, "tasks away");
        let stayed: u64 = peers.clone().map(|peer| u64::from(peer.stayed.len)).sum();
        let returned = |index: &u32| self.tasks[*index].state == State::Returned;
        let returned = (0..self.tasks.end()).filter(returned).count() as u64;
        assert_eq!(stayed, returned, "what has returned is somewhere");
        let deep = peers.filter(|peer| peer.has_more()).count();
        assert_eq!(deep, self.peers.deep as usize, "deep peers");
        for place in 0..self.peers.end() {
            let peer = self.peers.get(place);
            assert_eq!(self.peers.levels.of(place), peer.level(&self.config), "levels are kept");
            assert!(peer.in_flight.len > 0 || peer.backlog_ns == 0, "nothing is no backlog");
            let there = List::from(&self.tasks, peer.in_flight.head);
            let blocked = there.map(|index| &self.tasks[index]).filter(|task| task.sequence > 0);
            let costs: Vec<u64> = blocked.map(|task| task.cost.ns()).collect();
            let load = (costs.len(), costs.iter().sum());
            assert_eq!(
                (peer.blocked as usize, peer.blocked_ns),
                load,
                "what waits there is counted"
            );
        }
        let lasts = |place: usize| self.peers.get(place).offer.ends_at_ns == u64::MAX;
        let shares = !self.config.shares_nested_only;
        let best = self.peers.levels.first().filter(|&place| shares && lasts(place));
        assert!(self.ready.is_empty() || best.is_none(), "nothing waits beside a peer with room");
    }
}

/// The id of the peer at a place.
#[expect(clippy::cast_possible_truncation, reason = "places come from ids")]
pub(crate) const fn peer_id(place: usize) -> PeerId {
    PeerId(place as u16)
}
