//! Placement of tasks at peers.

use gristmill_wire::{Attempt, PeerId, ResourceRequest, TaskId};

use super::balance::LOOKS_MAX;
use super::levels::Level;
use super::table::peer_id;
use crate::contexts::PLAIN;
use crate::options::NO_PEER;
use crate::place::Placed;
use crate::port::{Dispatch, ParentOutcomes, Port, Sent};
use crate::task::State;
use crate::{Config, Core, NONE, Payload, Status, TaskContent};

/// One task on its way to a peer. The peer itself enforces the task's deadline and timeout.
#[derive(Debug)]
pub struct RemoteDispatch<'a> {
    /// The task; [`RemoteDispatch::parents`] holds its parents.
    pub task: Dispatch<'a>,
    /// The results that the task's arguments name.
    pub parents: RemoteParents<'a>,
    /// Monotonic time in nanoseconds after which the task must not start.
    pub deadline_ns: Option<u64>,
    /// Longest run time from the start of the task, nanoseconds.
    pub timeout_ns: Option<u64>,
    /// Time from an interrupt to the kill, nanoseconds.
    pub grace_ns: u64,
    /// Resources that the task needs besides a worker.
    pub demand: ResourceRequest,
    /// True if the result may stay with the peer until it is requested.
    pub may_stay: bool,
    /// The peer from which the task came; `None` if it is this engine's own.
    pub from: Option<PeerId>,
}

/// The results that a task's arguments name, in order. A value is `None` if the peer itself will have it.
#[derive(Debug, Clone)]
pub struct RemoteParents<'a> {
    core: &'a Core,
    next: u32,
}

impl<'a> Iterator for RemoteParents<'a> {
    type Item = (TaskId, Attempt, Option<&'a Payload>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == NONE {
            return None;
        }
        let edge = &self.core.edges[self.next];
        self.next = edge.next_parent;
        let parent = &self.core.tasks[edge.parent];
        let value = self.core.result_of(edge.parent);
        Some((self.core.tasks.id(edge.parent), parent.attempt, value))
    }
}

impl Core {
    /// Sends ready tasks to peers while these have room.
    pub(crate) fn pump_peers(&mut self, port: &mut impl Port) {
        if self.config.shares_nested_only {
            return;
        }
        if self.peers.end() == 0 {
            // The last peer may have left a floor to the workers of this engine.
            return self.settle_floors_left(port);
        }
        if self.shares_peers() {
            self.pump_shares(port);
        } else {
            self.pump_plain_to_peers(port);
        }
        if !self.peers.shipped.is_empty() {
            self.follow_shipped(port);
        }
        if self.priorities.is_used() || !self.peers.raised.is_unused() {
            self.settle_peer_floors(port);
        }
    }

    fn pump_plain_to_peers(&mut self, port: &mut impl Port) {
        while let Some(first) = self.ready.first(&self.tasks)
            && self.batch(first).is_none()
        {
            let Some(place) = self.choose_peer_by_priority(first, port) else {
                if self.give_back(first, port) {
                    continue;
                }
                break;
            };
            let index = self.pop_ready(PLAIN);
            if self.delegate(place, index, port) == Placed::Full {
                self.queue_ready(index, true);
            }
        }
    }

    /// Chooses the peer for a task: its home, the peer that tasks of its function (or of its context) go to first, while a
    /// worker there is idle; otherwise the first peer of the best list. That peer stays the first until the tasks that were
    /// sent in a row would keep its workers busy for `sticky_backlog_ns`.
    #[inline]
    pub(crate) fn choose_peer(&mut self, index: u32, port: &impl Port) -> Option<usize> {
        let mut first = self.peers.levels.first()?;
        let workers = u64::from(self.peers.get(first).offer.workers);
        if self.peers.streak_ns >= self.config.sticky_backlog_ns.saturating_mul(workers) {
            self.peers.streak_ns = 0;
            self.peers.levels.rotate(first);
            first = self.peers.levels.first()?;
        }
        let is_idle = self.peers.levels.of(first) == Level::Idle;
        let best = is_idle.then(|| self.home_of(index)).flatten().unwrap_or(first);
        let task = &self.tasks[index];
        let is_plain = task.extra == NONE && task.first_parent == NONE;
        if is_plain && self.lasts_for(index, best) {
            return Some(best);
        }
        self.choose_fit_peer(index, (best, first), port)
    }

    /// Chooses the peer for a task. If the task competes with others, prefers a peer that will start it now, then the
    /// peer with the fewest tasks ahead of it.
    #[inline]
    pub(super) fn choose_peer_by_priority(
        &mut self,
        index: u32,
        port: &impl Port,
    ) -> Option<usize> {
        if !self.priorities.is_used() || !self.competes(self.priority(index)) {
            return self.choose_peer(index, port);
        }
        if let Some(place) = self.choose_vacant_peer(index) {
            return Some(place);
        }
        if self.peers.levels.has_idle()
            && let Some(place) = self.choose_peer(index, port)
        {
            return Some(place);
        }
        self.choose_peer_above(index).or_else(|| self.choose_peer(index, port))
    }

    /// Chooses the peer for a task that competes with others when all peers have enough to do: the one with the fewest
    /// tasks of the same or a higher priority per worker. Of tasks with a context, only the raised ones of the same context
    /// count. The peer's engine runs those tasks first, and the peer with the fewest of them is the first to run tasks of a
    /// lower priority: it needs the task most.
    fn choose_peer_above(&self, index: u32) -> Option<usize> {
        let priority = self.priority(index);
        let context = self.context_of(index);
        let load = |place: usize| {
            let peer = self.peers.get(place);
            let workers = peer.offer.workers;
            let ahead = match context {
                PLAIN => peer.ahead_of(priority)?,
                context => peer.raised_in(context, priority)?,
            };
            let has_room = ahead < workers.saturating_mul(self.config.depth_max)
                && !peer.is_settling(priority);
            let is_fit = has_room && self.is_fit(index, place);
            is_fit.then(|| (u64::from(ahead) * 1_000 / u64::from(workers.max(1)), place))
        };
        (0..self.peers.end()).filter_map(load).min().map(|(_, place)| place)
    }

    /// Returns the home of a task's function or context, if a worker there is idle.
    #[inline]
    fn home_of(&mut self, index: u32) -> Option<usize> {
        let end = self.peers.end();
        let task = &self.tasks[index];
        let (function, extra) = (task.function, task.extra);
        let context = if extra == NONE { PLAIN } else { self.extras[extra].context };
        let home = match context {
            PLAIN => self.peers.function_affinity.find(function, end),
            context => self.peers.function_affinity.find_context(context, end),
        };
        (self.peers.levels.of(home) == Level::Idle).then_some(home)
    }

    /// Chooses `best`, or the first of the next few peers with room to which the task can go. Prefers the peer that has
    /// the task's large arguments.
    #[cold]
    fn choose_fit_peer(
        &self,
        index: u32,
        (best, first): (usize, usize),
        port: &impl Port,
    ) -> Option<usize> {
        let others = std::iter::successors(Some(first), |&place| self.peers.levels.next(place));
        let mut few = std::iter::once(best).chain(others.take(LOOKS_MAX));
        let best = few.find(|&place| self.is_fit(index, place))?;
        let is_open =
            |place| self.peers.levels.of(place) != Level::Shut && self.is_fit(index, place);
        Some(self.prefer_holder(index, best, port, is_open))
    }

    /// Returns true if a peer lasts long enough for a task, did not send the task, and has what the task's context needs.
    pub(super) fn is_fit(&self, index: u32, place: usize) -> bool {
        self.lasts_for(index, place)
            && !self.comes_from(index, place)
            && self.has_needs(index, place)
    }

    #[inline]
    fn lasts_for(&self, index: u32, place: usize) -> bool {
        let run_ns = self.functions[self.tasks[index].function.0 as usize].mean_ns();
        self.peers.get(place).has_time_for(run_ns, self.now)
    }

    /// Returns true if a task came from this peer.
    fn comes_from(&self, index: u32, place: usize) -> bool {
        let extra = self.tasks[index].extra;
        extra != NONE && usize::from(self.extras[extra].from) == place
    }

    /// Gives a ready task back to the peer from which it came, if that peer is the first one with room. Returns false if
    /// it is not. The task ends here as cancelled, which that peer takes as not started. The caller has found no other peer
    /// with room. At its own peer the task is a child, which a waiting parent's worker can run; delegated to that peer it
    /// would be an unrelated task, and could wait for that worker forever.
    pub(super) fn give_back(&mut self, index: u32, port: &mut impl Port) -> bool {
        let is_best = self.peers.levels.first().is_some_and(|first| self.comes_from(index, first));
        if is_best {
            self.unlist(index);
            self.finish(index, Status::Cancelled, TaskContent::Empty, port);
        }
        is_best
    }

    /// Sends a task to a peer. The task is in no list and waits for no other task.
    #[inline]
    pub(crate) fn delegate(&mut self, place: usize, index: u32, port: &mut impl Port) -> Placed {
        // Its earlier position in a ring means nothing at a peer.
        self.tasks[index].sequence = 0;
        self.send_ahead(place, index, port)
    }

    /// Sends a task that is in no list to a peer. Here, the task's `sequence` is no position in a ring, but the number of its
    /// parents that have not ended.
    #[inline]
    pub(super) fn send_ahead(&mut self, place: usize, index: u32, port: &mut impl Port) -> Placed {
        if !self.peers.raised.is_unused() {
            self.bring_floor(place, index, port);
        }
        let sent = port.send_to_peer(peer_id(place), self.remote_dispatch(index));
        match sent {
            Sent::Written(_) => {
                self.enter_peer(place, index, port.ticks());
                Placed::Done
            }
            Sent::Full => {
                self.peers.get_mut(place).is_congested = true;
                self.peers.settle(place, &self.config);
                Placed::Full
            }
            // `raised` is the exception that the task ends with.
            Sent::Failed(raised) => {
                self.finish(index, Status::Failed, TaskContent::Payload(raised), port);
                Placed::Done
            }
        }
    }

    fn remote_dispatch(&self, index: u32) -> RemoteDispatch<'_> {
        let task = &self.tasks[index];
        let dispatch = Dispatch {
            id: self.tasks.id(index),
            function: task.function,
            attempt: task.attempt,
            flags: gristmill_wire::TaskFlags::default(),
            parents: ParentOutcomes::new(&self.tasks, &self.edges, NONE),
            payload: task.payload(),
            extension: None,
            places: &[],
        };
        let (grace_ns, may_stay) = (self.config.grace_ns, self.could_stay(index));
        let parents = RemoteParents { core: self, next: task.first_parent };
        if task.extra == NONE {
            return RemoteDispatch {
                task: dispatch,
                parents,
                deadline_ns: None,
                timeout_ns: None,
                grace_ns,
                demand: ResourceRequest::NONE,
                may_stay,
                from: None,
            };
        }
        let (extension, flags) = self.extension(usize::MAX, task.extra);
        let extra = &self.extras[task.extra];
        let set = |ns: u64| (ns != u64::MAX).then_some(ns);
        RemoteDispatch {
            task: Dispatch { flags, extension, ..dispatch },
            parents,
            deadline_ns: set(extra.deadline_ns),
            timeout_ns: set(extra.timeout_ns),
            grace_ns: extra.grace_ns,
            demand: extra.demand,
            may_stay,
            from: (extra.from != NO_PEER).then_some(PeerId(extra.from)),
        }
    }

    #[inline]
    fn enter_peer(&mut self, place: usize, index: u32, ticks: u64) {
        let task = &mut self.tasks[index];
        let cost = self.functions[task.function.0 as usize].cost();
        task.state = State::Delegated;
        task.slot = peer_id(place).0;
        task.cost = cost;
        if crate::HAS_TAGS {
            let waited = ticks.saturating_sub(task.submitted_ticks);
            task.written = gristmill_wire::Span::from_ticks(waited).bits();
        }
        let (extra, is_blocked) = (task.extra, task.sequence > 0);
        self.peers.change(place, &self.config, |peer| {
            peer.in_flight.push_back(&mut self.tasks, index);
            peer.backlog_ns += cost.ns();
            if is_blocked {
                peer.block(cost);
            }
            peer.is_dry = false;
        });
        self.peers.delegated += 1;
        self.peers.blocked += u64::from(is_blocked);
        self.peers.streak_ns += cost.ns();
        if extra != NONE {
            self.count_at_peer(place, index, true);
            self.arm(index);
        }
        if self.tasks[index].first_dependant != NONE {
            self.peers.shipped.push(index);
        }
        if self.priorities.is_used() || !self.peers.raised.is_unused() {
            self.raise(place, index);
        }
    }

    /// Removes a task from its peer's list. The caller sets its next state.
    #[inline]
    pub(crate) fn leave_peer(&mut self, index: u32) {
        let task = &mut self.tasks[index];
        debug_assert!(task.state == State::Delegated, "only a delegated task is with a peer");
        task.state = State::Loose;
        let (place, cost, is_blocked) = (usize::from(task.slot), task.cost, task.sequence > 0);
        task.slot = u16::MAX;
        let (groups, was_stuck) = (self.peers.get(place).groups(), self.peers.get(place).is_stuck);
        if task.extra != NONE {
            self.count_at_peer(place, index, false);
        }
        if !self.peers.raised.is_unused() {
            self.cease_to_raise(place, index);
        }
        self.peers.change(place, &self.config, |peer| {
            peer.in_flight.remove(&mut self.tasks, index);
            peer.backlog_ns -= cost.ns();
            if is_blocked {
                peer.unblock(cost);
            }
            peer.is_dry = false;
            // A peer without tasks sends no answer that would clear this.
            peer.is_stuck &= peer.in_flight.len > 0;
        });
        self.peers.delegated -= 1;
        self.peers.blocked -= u64::from(is_blocked);
        self.note_room_after(place, groups);
        if was_stuck && !self.peers.get(place).is_stuck {
            self.note_room(place);
        }
    }

    /// Counts a task with a side record in the peer's priorities, resources and contexts, or removes it from these counts.
    #[cold]
    fn count_at_peer(&mut self, place: usize, index: u32, enters: bool) {
        let (demand, priority) = (self.demand(index), self.priority(index));
        let peer = self.peers.get_mut(place);
        if priority != 0 {
            peer.count_priority(priority, enters);
        }
        if !demand.is_none() {
            peer.taken.count(&demand, priority, enters);
            self.peers.raised.note_taken(enters);
        }
        if self.tasks[index].sequence == 0 {
            self.count_share(place, index, enters);
        }
    }

    /// Returns the peer that has a task.
    pub(crate) fn peer_of(&self, index: u32) -> PeerId {
        PeerId(self.tasks[index].slot)
    }
}

/// Returns the pause between two recalls: longer than an answer takes on any usable network.
pub(crate) const fn recall_pause_ns(config: &Config, round_trip_ns: u64) -> u64 {
    config.steal_after_ns.saturating_add(round_trip_ns.saturating_mul(2))
}
