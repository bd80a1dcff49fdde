//! The table of peers.

use std::collections::BTreeMap;

use gristmill_wire::{ContextId, Epoch, PeerId, ResourceRequest, TaskId};

use super::floors::{PeerFloors, PriorityFloors};
use super::function_affinity::FunctionAffinity;
use super::health::PeerHealth;
use super::levels::{Level, PeerBuckets};
use super::shares::{Backlog, DirtyContexts};
use crate::demands::{PeerUsageByPriority, Search};
use crate::estimate::Cost;
use crate::floor::NO_FLOOR;
use crate::list::List;
use crate::task::State;
use crate::{Config, Core};

/// Capacity that a peer offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOffer {
    /// Tasks that the peer runs at the same time.
    pub workers: u32,
    /// Time from a message to its answer, nanoseconds: this much more work has to be in flight.
    pub round_trip_ns: u64,
    /// Time when the peer ends, monotonic nanoseconds; `u64::MAX` if that is unknown. A task that is not expected to end
    /// by then does not go there.
    pub ends_at_ns: u64,
    /// Bytes of memory that its tasks may request.
    pub memory: u64,
    /// GPUs that its tasks may request.
    pub gpus: u32,
}

impl PeerOffer {
    /// Returns an offer of workers and nothing else, without a known end.
    #[must_use]
    pub const fn of_workers(workers: u32) -> Self {
        Self { workers, round_trip_ns: 0, ends_at_ns: u64::MAX, memory: 0, gpus: 0 }
    }
}

/// Current state of one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerStats {
    /// The peer.
    pub peer: PeerId,
    /// Tasks that the peer runs at the same time.
    pub workers: u32,
    /// Tasks that were sent and not answered.
    pub in_flight: u32,
    /// Sum of the expected run times of these tasks, nanoseconds.
    pub backlog_ns: u64,
    /// True if the peer gets no more tasks.
    pub is_draining: bool,
    /// True if the peer gets no tasks for a while because its workers died repeatedly.
    pub is_distrusted: bool,
    /// True if the peer gets tasks as soon as it has room: it does not drain, its link has room, and it gives nothing
    /// back now.
    pub takes_tasks: bool,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub is_joined: bool,
    pub is_draining: bool,
    /// True if the link is full for now.
    pub is_congested: bool,
    /// True if the peer was asked to give tasks back and has not reported that it has.
    pub is_recalled: bool,
    /// Time until which the peer gets no replacements for the cancelled tasks that it gave back, since more tasks may be
    /// cancelled; 0 if there is no such pause.
    pub settles_at: u64,
    /// The highest priority of the cancelled tasks that it gave back: a task with a higher priority goes there.
    pub settles_for: i32,
    /// Number of tasks that it gave back during the pause.
    pub settled: u32,
    /// True if the peer has nothing to give back: from a recall until a task is sent there, answered there, or gets its
    /// inputs there.
    pub is_dry: bool,
    /// True if all tasks of the peer wait: it gave back a task that this engine did not ask back, and has since sent no
    /// answers but those of tasks that were asked back.
    pub is_stuck: bool,
    /// Epoch that distinguishes this peer from earlier ones at the same index.
    pub epoch: Epoch,
    /// Time when the peer joined, clock ticks.
    pub joined_ticks: u64,
    pub offer: PeerOffer,
    /// Tasks that were sent and not answered, in the order of sending.
    pub in_flight: List,
    pub backlog_ns: u64,
    /// Tasks in flight that wait for others there: no worker could run them.
    pub blocked: u32,
    /// Their part of `backlog_ns`.
    pub blocked_ns: u64,
    /// Tasks in flight by priority, except those of priority 0.
    pub priorities: BTreeMap<i32, u32>,
    /// Runnable tasks in flight that have a context, by context.
    pub contexts: BTreeMap<ContextId, Backlog>,
    /// Sum of `contexts`.
    pub in_contexts: Backlog,
    /// Resources of the peer that demanding tasks use.
    pub taken: PeerUsageByPriority,
    pub trust: PeerHealth,
    /// Tasks that wait here for room at this peer, which has all of their unfinished parents.
    pub followers: List,
    /// Tasks that have returned there and whose results are there.
    pub stayed: List,
    /// The peer's floors, and the tasks that compete there for workers.
    pub floors: PeerFloors,
}

impl Peer {
    const ABSENT: Self = Self {
        is_joined: false,
        is_draining: false,
        is_congested: false,
        is_recalled: false,
        settles_at: 0,
        settles_for: NO_FLOOR,
        settled: 0,
        is_dry: false,
        is_stuck: false,
        epoch: Epoch(0),
        joined_ticks: 0,
        offer: PeerOffer::of_workers(0),
        in_flight: List::EMPTY,
        backlog_ns: 0,
        blocked: 0,
        blocked_ns: 0,
        priorities: BTreeMap::new(),
        contexts: BTreeMap::new(),
        in_contexts: Backlog::NONE,
        taken: PeerUsageByPriority::NONE,
        trust: PeerHealth::WHOLE,
        followers: List::EMPTY,
        stayed: List::EMPTY,
        floors: PeerFloors::NONE,
    };

    /// Returns the peer's room for ready tasks. A task there that waits for another task occupies no worker.
    #[inline]
    pub fn level(&self, config: &Config) -> Level {
        self.level_beside(self.offer.workers, self.runnable_load(), config)
    }

    /// Returns true if the peer has room for a task that waits there for other tasks. All tasks there count, or tasks would
    /// be sent ahead without end.
    pub fn has_room_to_wait(&self, config: &Config) -> bool {
        let all = Backlog { count: self.in_flight.len, ns: self.backlog_ns };
        self.level_beside(self.offer.workers, all, config) != Level::Shut
    }

    /// Returns the room of `workers` of the peer's workers if `beside` is their load.
    #[inline]
    pub fn level_beside(&self, workers: u32, beside: Backlog, config: &Config) -> Level {
        let Backlog { count, ns: backlog_ns } = beside;
        if self.is_shut() {
            return Level::Shut;
        }
        if count < workers {
            return Level::Idle;
        }
        if self.gives_back() {
            // The tasks that it gives back, or those that are cancelled next, would go there again.
            return Level::Shut;
        }
        let window_ns = config.window_ns + self.offer.round_trip_ns;
        let has_window = backlog_ns < window_ns.saturating_mul(u64::from(workers));
        let is_shallow = count < config.depth_min.saturating_mul(workers);
        let is_deep = count >= config.depth_max.saturating_mul(workers);
        if is_shallow || (has_window && !is_deep) { Level::Open } else { Level::Shut }
    }

    /// Returns true if the peer gets no tasks, whatever its load.
    #[inline]
    pub const fn is_shut(&self) -> bool {
        !self.is_joined
            || self.is_draining
            || self.is_congested
            || self.trust.is_lost
            || self.is_stuck
    }

    /// Returns true if the peer gives tasks back, or has given back cancelled tasks, and gets no replacements.
    #[inline]
    pub const fn gives_back(&self) -> bool {
        self.is_recalled || self.settles_at > 0
    }

    /// Returns true if the peer has given back cancelled tasks, so that a task with this priority may be cancelled next.
    pub const fn is_settling(&self, priority: i32) -> bool {
        self.settles_at > 0 && priority <= self.settles_for
    }

    /// Counts a task by its priority when it enters or leaves the peer.
    pub fn count_priority(&mut self, priority: i32, enters: bool) {
        let count = self.priorities.entry(priority).or_insert(0);
        *count = if enters { *count + 1 } else { *count - 1 };
        if *count == 0 {
            self.priorities.remove(&priority);
        }
    }

    /// Returns the number of tasks there with at least this priority; `None` if the peer gets no tasks of any priority.
    pub fn ahead_of(&self, priority: i32) -> Option<u32> {
        if self.is_shut() {
            return None;
        }
        let lower: u32 = self.priorities.range(..priority).map(|(_, count)| count).sum();
        if priority <= 0 {
            return Some(self.in_flight.len - lower);
        }
        Some(self.priorities.range(priority..).map(|(_, count)| count).sum())
    }

    /// Returns the number of raised tasks of a context there with at least this priority; `None` if the peer gets no
    /// tasks.
    pub fn raised_in(&self, context: ContextId, priority: i32) -> Option<u32> {
        if self.is_shut() {
            return None;
        }
        let entry = self.floors.get(context);
        let raised = entry.map_or(0, |entry| entry.raised.range((priority, 0)..).count());
        u32::try_from(raised).ok()
    }

    /// Returns true if the peer has what a task needs, beside all demanding tasks there.
    pub fn has_left(&self, demand: &ResourceRequest) -> bool {
        self.offer.covers(demand, &self.taken.all())
    }

    /// Returns true if the peer has what a task needs, beside the demanding tasks with at least this priority.
    pub fn has_left_above(&self, demand: &ResourceRequest, priority: i32) -> bool {
        self.offer.covers(demand, &self.taken.above(priority))
    }

    /// Returns true if a task that runs for `run_ns` would end before the peer does, behind the tasks that are there.
    #[inline]
    pub fn has_time_for(&self, run_ns: u64, now: u64) -> bool {
        if self.offer.ends_at_ns == u64::MAX {
            return true;
        }
        let before = self.backlog_ns / u64::from(self.offer.workers.max(1));
        now.saturating_add(before).saturating_add(run_ns) <= self.offer.ends_at_ns
    }

    /// Returns the expected wait of a task there before it starts, nanoseconds.
    pub fn wait_ns(&self) -> u64 {
        let workers = u64::from(self.offer.workers.max(1));
        if self.idle_count() > 0 { 0 } else { self.runnable_ns() / workers }
    }

    /// Returns the number of tasks there that run, or wait for nothing but a worker.
    #[inline]
    pub const fn runnable(&self) -> u32 {
        self.in_flight.len - self.blocked
    }

    /// Returns the sum of the expected run times of the runnable tasks, nanoseconds.
    #[inline]
    pub const fn runnable_ns(&self) -> u64 {
        self.backlog_ns - self.blocked_ns
    }

    /// Returns the number of runnable tasks, and the sum of their expected run times.
    #[inline]
    pub const fn runnable_load(&self) -> Backlog {
        Backlog { count: self.runnable(), ns: self.runnable_ns() }
    }

    /// Counts a task that is there among those that wait for others.
    #[inline]
    pub const fn block(&mut self, cost: Cost) {
        self.blocked += 1;
        self.blocked_ns += cost.ns();
    }

    /// Removes a task that is there from the count of those that wait for others.
    #[inline]
    pub const fn unblock(&mut self, cost: Cost) {
        self.blocked -= 1;
        self.blocked_ns -= cost.ns();
    }

    /// Returns the number of idle workers.
    #[inline]
    pub const fn idle_count(&self) -> u32 {
        self.offer.workers.saturating_sub(self.runnable())
    }

    /// Returns true if this engine expects that a task waits there for a worker.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.runnable() > self.offer.workers && !self.is_dry
    }
}

/// All peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    entries: Vec<Peer>,
    pub levels: PeerBuckets,
    pub function_affinity: FunctionAffinity,
    /// Number of delegated tasks.
    pub delegated: u64,
    /// Delegated tasks that wait for others at their peers.
    pub blocked: u64,
    /// Search for peers with room when tasks of several contexts, and tasks without one, share the peers.
    pub search: Search,
    /// Contexts for which the engine must look for peers again.
    pub seekers: DirtyContexts,
    /// The first task without a context that waited for room when the engine last looked at peers.
    pub plain_head: Option<TaskId>,
    /// Number of times that the engine has looked for a peer for some context.
    pub share_looks: u64,
    /// Number of deaths of workers at peers.
    pub deaths: u64,
    /// Peers that get no tasks because their workers died.
    pub distrusted: u32,
    /// Peers that have given back cancelled tasks and get no replacements.
    pub settling: Vec<usize>,
    /// Time until which all these pauses last at least, because a task was cancelled here or at a peer.
    pub settling_until: u64,
    /// Time when a peer was last asked not to start a task.
    pub withdrawn_at: u64,
    /// Peers that have more tasks than their workers run.
    pub deep: u32,
    /// Sum of the costs of the tasks that were sent to peers since the best list was last rotated, nanoseconds.
    pub streak_ns: u64,
    /// Time when tasks were last recalled.
    pub recalled_at: u64,
    /// Tasks that were just sent and have dependants, which may follow.
    pub shipped: Vec<u32>,
    /// Tasks that have returned and whose results can no longer be requested.
    pub unwanted: Vec<TaskId>,
    /// Tasks that wait at peers with a higher priority than others have.
    pub raised: PriorityFloors,
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

    /// Returns the index past the last peer.
    #[inline]
    pub fn end(&self) -> usize {
        self.entries.len()
    }

    /// Moves a peer to the list that matches its room. Must be called after each change of its load.
    #[inline]
    pub fn settle(&mut self, place: usize, config: &Config) {
        let level = self.entries[place].level(config);
        self.levels.put(place, level);
    }

    /// Changes the load of a peer, and updates the totals of all peers.
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
    /// Returns the index of a peer that has joined.
    pub(crate) fn joined_peer(&self, peer: PeerId) -> Option<usize> {
        let place = usize::from(peer.0);
        (place < self.peers.end() && self.peers.get(place).is_joined).then_some(place)
    }

    /// Adds a peer that joins, or updates what a joined peer offers.
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
        self.peers.raised.note_stale();
        self.note_room(place);
    }

    /// Removes a peer that has nothing in flight any more.
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

    /// Returns the state of each peer that has joined.
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
                takes_tasks: !peer.is_shut() && !peer.gives_back(),
            })
        })
    }

    /// Asserts the invariants of peers between calls.
    pub(crate) fn audit_peers(&self) {
        let peers = (0..self.peers.end()).map(|place| self.peers.get(place));
        let delegated: u64 = peers.clone().map(|peer| u64::from(peer.in_flight.len)).sum();
        assert_eq!(delegated, self.peers.delegated, "delegated tasks");
        let blocked: u64 = peers.clone().map(|peer| u64::from(peer.blocked)).sum();
        assert_eq!(blocked, self.peers.blocked, "delegated tasks that wait for others");
        let stayed: u64 = peers.clone().map(|peer| u64::from(peer.stayed.len)).sum();
        let returned = |index: &u32| self.tasks[*index].state == State::Returned;
        let returned = (0..self.tasks.end()).filter(returned).count() as u64;
        assert_eq!(stayed, returned, "a returned result is at a peer");
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
        self.audit_shares();
        self.audit_raised();
    }
}

/// Returns the id of the peer at an index.
#[expect(clippy::cast_possible_truncation, reason = "indexes come from ids")]
pub(crate) const fn peer_id(place: usize) -> PeerId {
    PeerId(place as u16)
}
