//! Placement with peers.

use gristmill_wire::{Attempt, Demand, PeerId, TaskId};

use super::balance::LOOKS_MAX;
use super::levels::Level;
use super::table::peer_id;
use crate::contexts::PLAIN;
use crate::options::NO_PEER;
use crate::place::Placed;
use crate::port::{Dispatch, Parents, Port, Sent};
use crate::task::State;
use crate::{Config, Content, Core, NONE, Payload, Status};

/// One task on its way to a peer, which keeps its times itself.
#[derive(Debug)]
pub struct Errand<'a> {
    /// The task; its parents are those of the errand.
    pub task: Dispatch<'a>,
    /// The results that its arguments name.
    pub parents: ErrandParents<'a>,
    /// Monotonic time after which it must not start any more.
    pub deadline_ns: Option<u64>,
    /// Longest run, from its start.
    pub timeout_ns: Option<u64>,
    /// From an interrupt to the kill.
    pub grace_ns: u64,
    /// What it needs besides a worker.
    pub demand: Demand,
    /// Its result may stay with the peer until it is asked for.
    pub may_stay: bool,
    /// The peer whose task it is; none: it is this engine's own.
    pub from: Option<PeerId>,
}

/// The results that a task's arguments name, in order: their values, or `None` for one that the peer itself will have.
#[derive(Debug, Clone)]
pub struct ErrandParents<'a> {
    core: &'a Core,
    next: u32,
}

impl<'a> Iterator for ErrandParents<'a> {
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
    /// Sends what is ready to peers, as far as there is room.
    pub(crate) fn pump_peers(&mut self, port: &mut impl Port) {
        if self.config.shares_nested_only {
            return;
        }
        while let Some(first) = self.ready.first()
            && self.batch(first).is_none()
        {
            let Some(place) = self.choose_peer(first, port) else {
                if self.give_back(first, port) {
                    continue;
                }
                break;
            };
            let index = self.ready.pop_front(&mut self.tasks).expect("the queue is not empty");
            self.tasks[index].state = State::Loose;
            if self.send_away(place, index, port) == Placed::Full {
                self.tasks[index].state = State::Ready;
                let priority = self.priority(index);
                self.ready.push_front(&mut self.tasks, priority, index);
            }
        }
        if !self.peers.shipped.is_empty() {
            self.follow_shipped(port);
        }
    }

    /// The peer for a task: its function's home while a worker there has nothing to do; else the first of those with most
    /// room, for as long as what it got in a row is less than another one would need to begin.
    #[inline]
    pub(crate) fn choose_peer(&mut self, index: u32, port: &impl Port) -> Option<usize> {
        let mut first = self.peers.levels.first()?;
        let workers = u64::from(self.peers.get(first).offer.workers);
        if self.peers.streak_ns >= self.config.cling_ns.saturating_mul(workers) {
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

    /// The peer where a task's function or its context is at home, if a worker there has nothing to do.
    #[inline]
    fn home_of(&mut self, index: u32) -> Option<usize> {
        let end = self.peers.end();
        let task = &self.tasks[index];
        let (function, extra) = (task.function, task.extra);
        let context = if extra == NONE { PLAIN } else { self.extras[extra].context };
        let home = match context {
            PLAIN => self.peers.homes.find(function, end),
            context => self.peers.homes.find_context(context, end),
        };
        (self.peers.levels.of(home) == Level::Idle).then_some(home)
    }

    /// The best one, or of the next few with room the first one that the task can go to; or the one that has its large
    /// arguments.
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

    /// Whether a peer lasts long enough for a task, which does not come from there.
    pub(super) fn is_fit(&self, index: u32, place: usize) -> bool {
        self.lasts_for(index, place) && !self.comes_from(index, place)
    }

    #[inline]
    fn lasts_for(&self, index: u32, place: usize) -> bool {
        let run_ns = self.functions[self.tasks[index].function.0 as usize].mean_ns();
        self.peers.get(place).has_time_for(run_ns, self.now)
    }

    /// Whether a task is that of this peer.
    fn comes_from(&self, index: u32, place: usize) -> bool {
        let extra = self.tasks[index].extra;
        extra != NONE && usize::from(self.extras[extra].from) == place
    }

    /// Gives a ready task back to the peer that it came from, which has room for it while nobody else has; false: it is
    /// not such a one. There it is a child that a waiting parent's worker can run; sent back it would be a stranger, and
    /// could wait for that worker for ever.
    fn give_back(&mut self, index: u32, port: &mut impl Port) -> bool {
        let is_best = self.peers.levels.first().is_some_and(|first| self.comes_from(index, first));
        if is_best {
            self.unlist(index);
            self.finish(index, Status::Cancelled, Content::Empty, port);
        }
        is_best
    }

    /// Sends a task that is in no list and waits for nobody.
    #[inline]
    pub(crate) fn send_away(&mut self, place: usize, index: u32, port: &mut impl Port) -> Placed {
        // Where it stood in a ring before says nothing here.
        self.tasks[index].sequence = 0;
        self.send_ahead(place, index, port)
    }

    /// Sends a task that is in no list, before as many of its parents have ended as its `sequence` says.
    #[inline]
    pub(super) fn send_ahead(&mut self, place: usize, index: u32, port: &mut impl Port) -> Placed {
        let sent = port.send_to_peer(peer_id(place), self.errand(index));
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
            Sent::Failed(raised) => {
                self.finish(index, Status::Failed, Content::Payload(raised), port);
                Placed::Done
            }
        }
    }

    fn errand(&self, index: u32) -> Errand<'_> {
        let task = &self.tasks[index];
        let dispatch = Dispatch {
            id: self.tasks.id(index),
            function: task.function,
            attempt: task.attempt,
            flags: gristmill_wire::TaskFlags::default(),
            parents: Parents::new(&self.tasks, &self.edges, NONE),
            payload: task.payload(),
            extension: None,
            places: &[],
        };
        let (grace_ns, may_stay) = (self.config.grace_ns, self.could_stay(index));
        let parents = ErrandParents { core: self, next: task.first_parent };
        if task.extra == NONE {
            return Errand {
                task: dispatch,
                parents,
                deadline_ns: None,
                timeout_ns: None,
                grace_ns,
                demand: Demand::NONE,
                may_stay,
                from: None,
            };
        }
        let (extension, flags) = self.extension(usize::MAX, task.extra);
        let extra = &self.extras[task.extra];
        let set = |ns: u64| (ns != u64::MAX).then_some(ns);
        Errand {
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
        task.state = State::Away;
        task.slot = peer_id(place).0;
        task.cost = cost;
        if crate::HAS_TAGS {
            let waited = ticks.saturating_sub(task.submitted_ticks);
            task.written = gristmill_wire::Span::from_ticks(waited).bits();
        }
        let (extra, is_blocked) = (task.extra, task.sequence > 0);
        let demand = self.demand(index);
        self.peers.change(place, &self.config, |peer| {
            if !demand.is_none() {
                peer.taken.add(&demand);
            }
            peer.in_flight.push_back(&mut self.tasks, index);
            peer.backlog_ns += cost.ns();
            if is_blocked {
                peer.block(cost);
            }
            peer.is_dry = false;
        });
        self.peers.away += 1;
        self.peers.streak_ns += cost.ns();
        if extra != NONE {
            self.arm(index);
        }
        if self.tasks[index].first_dependant != NONE {
            self.peers.shipped.push(index);
        }
    }

    /// Takes a task out of its peer's list; the caller says what it is next.
    #[inline]
    pub(crate) fn leave_peer(&mut self, index: u32) {
        let task = &mut self.tasks[index];
        debug_assert!(task.state == State::Away, "only a task that is away is with a peer");
        task.state = State::Loose;
        let (place, cost, is_blocked) = (usize::from(task.slot), task.cost, task.sequence > 0);
        task.slot = u16::MAX;
        let demand = self.demand(index);
        self.peers.change(place, &self.config, |peer| {
            if !demand.is_none() {
                peer.taken.remove(&demand);
            }
            peer.in_flight.remove(&mut self.tasks, index);
            peer.backlog_ns -= cost.ns();
            if is_blocked {
                peer.unblock(cost);
            }
            peer.is_dry = false;
        });
        self.peers.away -= 1;
        self.demands.search.grow(place);
    }

    /// The peer that a task is with.
    pub(crate) fn peer_of(&self, index: u32) -> PeerId {
        PeerId(self.tasks[index].slot)
    }
}

/// How long nothing is asked back after it was: longer than an answer takes on any network worth it.
pub(crate) const fn recall_pause_ns(config: &Config, round_trip_ns: u64) -> u64 {
    config.steal_after_ns.saturating_add(round_trip_ns.saturating_mul(2))
}
