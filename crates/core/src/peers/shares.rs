//! Shares of peers: room at peers for each context, and for the tasks without a context.
//!
//! The tasks of one context are a *group*, and so are all tasks without a context. A peer divides its own workers between
//! the groups that have runnable tasks there. Each group therefore needs tasks there, whatever else fills the peer. For
//! its share of the workers, a group gets as much room as a peer with that many workers and no other tasks would have.
//! Room that is in no share goes to the group with the fewest delegated tasks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gristmill_wire::ContextId;

use super::balance::LOOKS_MAX;
use super::levels::Level;
use super::table::Peer;
use crate::contexts::{ContextRank, PLAIN};
use crate::demands::PeerUsage;
use crate::estimate::Cost;
use crate::list::List;
use crate::place::Placed;
use crate::port::Port;
use crate::{Config, Core};

/// Number of runnable tasks, and the sum of their expected run times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub count: u32,
    pub ns: u64,
}

impl Backlog {
    pub const NONE: Self = Self { count: 0, ns: 0 };

    const fn change(&mut self, cost: Cost, enters: bool) {
        if enters {
            self.count += 1;
            self.ns += cost.ns();
        } else {
            self.count -= 1;
            self.ns -= cost.ns();
        }
    }
}

/// Contexts for which the engine must look again for a peer that has room beside tasks of others. `ContextTable::fresh`
/// has more of them.
#[derive(Debug, Default)]
pub(crate) struct DirtyContexts {
    /// True if that is every context, since a peer has more room.
    pub is_all: bool,
    /// True if the engine looked at some peers for every context, and not at others.
    is_all_left: bool,
    /// Contexts for which the engine looked at some peers, and not at others.
    left: BTreeSet<ContextId>,
}

impl Peer {
    /// Counts a task in a context that becomes runnable at the peer, or no longer is.
    fn count_in_context(&mut self, context: ContextId, cost: Cost, enters: bool) {
        self.in_contexts.change(cost, enters);
        let load = self.contexts.entry(context).or_default();
        load.change(cost, enters);
        if load.count == 0 {
            self.contexts.remove(&context);
        }
    }

    /// Returns the runnable tasks at the peer of a context, or of no context (`PLAIN`).
    pub(super) fn load_of(&self, context: ContextId) -> Backlog {
        if context == PLAIN {
            return Backlog {
                count: self.runnable() - self.in_contexts.count,
                ns: self.runnable_ns() - self.in_contexts.ns,
            };
        }
        self.contexts.get(&context).copied().unwrap_or_default()
    }

    /// Returns the number of groups that have runnable tasks at the peer.
    #[inline]
    pub(super) fn groups(&self) -> u32 {
        let contexts = u32::try_from(self.contexts.len()).unwrap_or(u32::MAX - 1);
        contexts + u32::from(self.runnable() > self.in_contexts.count)
    }

    /// Returns the number of workers in a group's share; `None` if no other group has a task at the peer.
    fn share_of(&self, context: ContextId) -> Option<u32> {
        let others = self.groups() - u32::from(self.load_of(context).count > 0);
        (others > 0).then(|| self.offer.workers.div_ceil(others.saturating_add(1)))
    }

    /// Returns true if the peer has room for one more task of a group, beside the tasks of other groups that fill it.
    fn has_room_beside(&self, context: ContextId, config: &Config) -> bool {
        let share = self.share_of(context).filter(|_| !self.gives_back());
        let Some(share) = share else { return false };
        self.level_beside(share, self.load_of(context), config) != Level::Shut
    }
}

impl Core {
    /// Records that a peer may have more room for every context.
    #[inline]
    pub(crate) const fn note_room(&mut self, place: usize) {
        self.demands.search.grow(place);
        self.peers.search.grow(place);
        self.peers.seekers.is_all = true;
    }

    /// Records that a task has left a peer that had runnable tasks of `groups` groups. The other groups have more room
    /// beside those only if their shares are larger now. The counts of tasks record any other gain of room.
    #[inline]
    pub(super) fn note_room_after(&mut self, place: usize, groups: u32) {
        let peer = self.peers.get(place);
        let is_larger = peer.groups() != groups && groups <= peer.offer.workers.saturating_add(1);
        let has_end = peer.offer.ends_at_ns != u64::MAX;
        self.demands.search.grow(place);
        self.peers.search.grow(place);
        // A task that the peer would have ended too late may be in time now. Tasks of a higher priority ignore shares.
        self.peers.seekers.is_all_left |= has_end;
        self.peers.seekers.is_all |= is_larger || self.priorities.is_used();
    }

    /// Counts a task with a side record that becomes runnable at a peer, or no longer is.
    pub(super) fn count_share(&mut self, place: usize, index: u32, enters: bool) {
        let (context, cost) = (self.context_of(index), self.tasks[index].cost);
        if context == PLAIN {
            return;
        }
        self.contexts.count_delegated(context, enters);
        let peer = self.peers.get_mut(place);
        peer.count_in_context(context, cost, enters);
        if enters && peer.load_of(context).count == 1 {
            self.peers.raised.note_stale_in(context);
        }
    }

    /// Returns true if contexts, and tasks without one, share peers now.
    pub(super) fn shares_peers(&self) -> bool {
        self.contexts.delegated() > 0 || (self.config.workers == 0 && self.contexts.waiting() > 0)
    }

    /// Returns true if a task waits that some peer could run as soon as it has room.
    pub(crate) fn waits_for_room(&self) -> bool {
        !self.ready.is_empty() || (self.config.workers == 0 && self.contexts.wait_for_workers())
    }

    /// Returns the first task without a context that waits for a peer.
    fn plain_head(&self) -> Option<u32> {
        self.ready.first(&self.tasks).filter(|&first| self.batch(first).is_none())
    }

    /// Returns true if tasks wait for peers.
    fn has_heads(&self) -> bool {
        !self.contexts.turns().is_empty() || self.plain_head().is_some()
    }

    /// Returns the rank of a context, or of the tasks without one (`PLAIN`); `None` if none of its tasks waits for a
    /// peer.
    fn turn_of(&self, context: ContextId) -> Option<ContextRank> {
        if context != PLAIN {
            return self.contexts.turn(context);
        }
        let first = self.plain_head()?;
        Some((Reverse(self.priority(first)), self.delegated_in(PLAIN), PLAIN))
    }

    /// Returns true if the engine must look for peers for some context.
    fn seeks(&self) -> bool {
        self.peers.search.is_due() || !self.contexts.fresh.is_empty()
    }

    /// Sends ready tasks with and without contexts to peers with room, in the order of their ranks.
    #[cold]
    pub(super) fn pump_shares(&mut self, port: &mut impl Port) {
        let plain = self.plain_head().map(|first| self.tasks.id(first));
        if !self.contexts.fresh.is_empty() || plain != self.peers.plain_head {
            self.peers.search.repeat();
        }
        let end = self.peers.end();
        let is_due = self.peers.search.is_due();
        let places = if is_due { self.peers.search.places(end).collect() } else { Vec::new() };
        let fresh = std::mem::take(&mut self.contexts.fresh);
        let is_all = std::mem::take(&mut self.peers.seekers.is_all);
        let is_done = self.send_shares((is_all, &fresh), &places, LOOKS_MAX, port);
        if is_due {
            self.peers.search.go_on(end);
        }
        if !is_done || (self.peers.seekers.is_all_left && !is_all) {
            // The next full search covers all contexts.
            self.peers.search.repeat();
            self.peers.seekers.is_all_left = true;
        }
        if self.peers.search.is_due() {
            self.peers.seekers.is_all_left |= is_all;
            self.peers.seekers.left.extend(fresh);
        } else {
            self.peers.seekers = DirtyContexts::default();
        }
        self.peers.plain_head = self.plain_head().map(|first| self.tasks.id(first));
    }

    /// Looks at all peers for room beside tasks of others, and sends the waiting tasks for which there is some. Does
    /// nothing if no such search is due.
    pub(crate) fn search_shares(&mut self, port: &mut impl Port) {
        if self.next_share_search().is_some() {
            let places: Vec<usize> = (0..self.peers.end()).collect();
            let mut seekers = std::mem::take(&mut self.peers.seekers);
            seekers.left.append(&mut self.contexts.fresh);
            let is_all = seekers.is_all || seekers.is_all_left;
            self.send_shares((is_all, &seekers.left), &places, usize::MAX, port);
            self.peers.search.end();
            self.peers.plain_head = self.plain_head().map(|first| self.tasks.id(first));
        }
    }

    /// Returns when [`Core::poll`] should look at all peers for room beside tasks of others; `None` if it should not.
    pub(crate) fn next_share_search(&self) -> Option<u64> {
        let is_due = self.seeks() && !self.config.shares_nested_only;
        let waits = is_due && self.shares_peers() && self.has_heads();
        waits.then(|| self.polled_at.saturating_add(self.config.recheck_ns))
    }

    /// Sends tasks while one finds a peer: first those with the highest priority, and of these first those of the group
    /// with the fewest delegated tasks. A task goes to a peer with room for any task. A task of a context in `some`, of
    /// any context if `is_all` is set, or without a context may also go to one of `places` that has room beside tasks of
    /// others.
    ///
    /// Once `tries` groups have found no peer, the rest is no longer tried at the peers with room for any task. Returns
    /// false if this limit was reached and there are such peers.
    fn send_shares(
        &mut self,
        (is_all, some): (bool, &BTreeSet<ContextId>),
        places: &[usize],
        tries: usize,
        port: &mut impl Port,
    ) -> bool {
        let mut seekers: BTreeSet<ContextRank> = match is_all {
            true => self.contexts.turns().clone(),
            false => some.iter().filter_map(|&context| self.contexts.turn(context)).collect(),
        };
        let mut failed = BTreeSet::<ContextId>::new();
        let mut plain = self.turn_of(PLAIN);
        loop {
            let is_open = self.peers.levels.first().is_some() && failed.len() < tries;
            let among = if is_open { self.contexts.turns() } else { &seekers };
            let first = among.iter().find(|(.., context)| !is_open || !failed.contains(context));
            let Some(turn) = first.copied().into_iter().chain(plain).min() else { break };
            let context = turn.2;
            let is_seeker = context == PLAIN || seekers.remove(&turn);
            let looked_at = if is_seeker { places } else { &[] };
            self.peers.share_looks += 1;
            let is_sent = self.send_share(context, looked_at, port);
            let next = if is_sent { self.turn_of(context) } else { None };
            if !is_sent {
                failed.insert(context);
            }
            if context == PLAIN {
                plain = next;
            } else if is_seeker {
                seekers.extend(next);
            }
        }
        failed.len() < tries || self.peers.levels.first().is_none()
    }

    /// Returns how often the engine has looked for a peer for some context. Tests bound the cost of decisions by it.
    #[doc(hidden)]
    #[must_use]
    pub const fn share_looks(&self) -> u64 {
        self.peers.share_looks
    }

    /// Sends the first task of a context, or of no context, to a peer. Returns false if there is no peer or no task.
    fn send_share(&mut self, context: ContextId, places: &[usize], port: &mut impl Port) -> bool {
        let Some(first) = self.first_in(context).filter(|&first| self.batch(first).is_none())
        else {
            return false;
        };
        let place = self
            .choose_peer_by_priority(first, port)
            .or_else(|| self.choose_peer_beside(first, places, port));
        let Some(place) = place else { return self.give_back(first, port) };
        let index = self.pop_ready(context);
        if self.delegate(place, index, port) == Placed::Full {
            self.queue_ready(index, true);
        }
        true
    }

    /// Returns the first waiting task of a context, or of no context.
    fn first_in(&self, context: ContextId) -> Option<u32> {
        match context {
            PLAIN => self.ready.first(&self.tasks),
            context => self.contexts.first(&self.tasks, context),
        }
    }

    /// Returns the number of tasks of a context, or of no context, that are runnable at peers.
    fn delegated_in(&self, context: ContextId) -> u64 {
        match context {
            PLAIN => self.peers.delegated - self.peers.blocked - self.contexts.delegated(),
            context => self.contexts.delegated_in(context),
        }
    }

    /// Chooses the peer for a new task without a context, if tasks in contexts fill the peers that are looked at.
    #[cold]
    pub(crate) fn choose_peer_for_new(&mut self, index: u32, port: &impl Port) -> Option<usize> {
        if self.contexts.delegated() == 0 {
            return None;
        }
        let (was_due, end) = (self.peers.search.is_due(), self.peers.end());
        self.peers.search.repeat();
        let places: Vec<usize> = self.peers.search.places(end).collect();
        let place = self.choose_peer_beside(index, &places, port);
        if !was_due {
            self.peers.search.go_on(end);
        }
        place
    }

    /// Chooses the peer for a task when tasks of others fill all peers. Prefers the home of the task's context while it
    /// has fewer tasks of the context than the context's share of its workers. Otherwise chooses from `places` the peer
    /// with the fewest tasks of the context for each worker. The peer's engine divides its workers; without a task of
    /// this context it would give all of them to others.
    fn choose_peer_beside(&self, index: u32, places: &[usize], port: &impl Port) -> Option<usize> {
        if places.is_empty() {
            return None;
        }
        let context = self.context_of(index);
        let is_context = context != PLAIN;
        let home = is_context
            .then(|| self.peers.function_affinity.find_context(context, self.peers.end()));
        let rank = |place: usize| {
            let peer = self.peers.get(place);
            let (load, workers) = (peer.load_of(context), u64::from(peer.offer.workers.max(1)));
            let is_due = peer.share_of(context).is_none_or(|share| load.count < share);
            let of = |count: u32| u64::from(count) * 1_000 / workers;
            let is_home = home == Some(place) && is_due;
            (!is_home, of(load.count), of(peer.runnable()), place)
        };
        let among = home.into_iter().chain(places.iter().copied());
        let best =
            among.filter(|&place| self.is_open_beside(index, place)).min_by_key(|&one| rank(one));
        Some(self.prefer_holder(index, best?, port, |place| self.is_open_beside(index, place)))
    }

    /// Returns true if a peer has room for a task, even if only beside tasks of others that fill the peer.
    fn is_open_beside(&self, index: u32, place: usize) -> bool {
        let has_room = self.peers.levels.of(place) != Level::Shut
            || self.peers.get(place).has_room_beside(self.context_of(index), &self.config);
        has_room && self.is_fit(index, place)
    }

    /// Returns true if a peer has the resources that each worker of a task's context needs. Always returns true if this
    /// engine has workers of its own.
    pub(super) fn has_needs(&self, index: u32, place: usize) -> bool {
        let context = self.context_of(index);
        if context == PLAIN || self.config.workers > 0 {
            return true;
        }
        let needs = self.needs_of_context(context);
        needs.is_none_or(|needs| self.peers.get(place).offer.covers(&needs, &PeerUsage::NONE))
    }

    /// Asserts the invariants of shares between calls.
    pub(super) fn audit_shares(&self) {
        let mut all = BTreeMap::<ContextId, u64>::new();
        for place in 0..self.peers.end() {
            let peer = self.peers.get(place);
            let mut found = BTreeMap::<ContextId, Backlog>::new();
            for index in List::from(&self.tasks, peer.in_flight.head) {
                let context = self.context_of(index);
                if context != PLAIN && self.tasks[index].sequence == 0 {
                    found.entry(context).or_default().change(self.tasks[index].cost, true);
                    *all.entry(context).or_default() += 1;
                }
            }
            let sum = |of: fn(&Backlog) -> u64| found.values().map(of).sum::<u64>();
            let total = (u64::from(peer.in_contexts.count), peer.in_contexts.ns);
            assert_eq!((sum(|load| load.count.into()), sum(|load| load.ns)), total);
            assert_eq!(found, peer.contexts, "what each context has there is counted");
        }
        assert_eq!(
            all.values().sum::<u64>(),
            self.contexts.delegated(),
            "delegated tasks in contexts"
        );
        for (&context, &count) in &all {
            assert_eq!(count, self.contexts.delegated_in(context), "delegated tasks in one");
        }
        if self.config.shares_nested_only || !self.shares_peers() || self.seeks() {
            return;
        }
        let lasts = |place: usize| self.peers.get(place).offer.ends_at_ns == u64::MAX;
        let waiting = self.contexts.turns().iter().map(|&(.., context)| context);
        for context in waiting.chain(self.turn_of(PLAIN).map(|_| PLAIN)) {
            let Some(index) = self.first_in(context) else { continue };
            let mut places = (0..self.peers.end()).filter(|&place| lasts(place));
            let open = places.find(|&place| self.is_open_beside(index, place));
            assert_eq!(open, None, "a task of {context} waits beside a peer with room for it");
        }
    }
}
