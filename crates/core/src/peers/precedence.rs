//! Priorities across peers: while a task waits for a worker at one peer, no other peer starts tasks with a lower
//! priority, and the first peer that has a worker for the task gets it.
//!
//! Tasks of one context compete for its workers, and tasks without a context compete for the other workers. Each of these
//! is a *group*. The following holds in each group separately.
//!
//! A task *competes* at a peer from its sending until it is known to have started. A competing task is raised, asked back,
//! or expected to start at once (see `vacancies`).
//!
//! A task that competes with others is sent to one peer even if all peers have enough to do. While priorities are in use,
//! each task that is sent to a peer whose workers are busy is *raised* there until it is known to have started. While a
//! raised task, or one that waits here for room, has a higher priority than another task, every peer has that priority as
//! a floor, as slots have floors: the peer starts nothing below it. The floor also holds for the workers of this engine.
//! A peer with a worker that is idle because of the floor reports that it is vacant (see `vacancies`); the engine then
//! asks another peer to give a raised task back. Once no task is raised and none waits, the floor is lowered everywhere.
//! If a vacant peer could run no raised task with the priority of the floor, its floor is lowered to the next priority at
//! once.
//!
//! A demanding task needs several workers, GPUs or memory. Its priority is a floor only at peers that have the GPUs and the
//! memory for it. If it needs several workers, each of these peers keeps its idle workers for it until one peer has enough,
//! or the task has started.
//!
//! To raise or to lower a floor costs one message for each peer, and the engine looks at no task that waits there. A floor
//! never makes a peer start a worker: a raised task waits at its peer like any other task, and runs there unless the engine
//! moves it to a vacant worker first.

use std::collections::BTreeMap;

use gristmill_wire::ContextId;

use super::balance::LOOKS_MAX;
use super::floors::{Competitor, Rank};
use super::table::peer_id;
use crate::Core;
use crate::contexts::PLAIN;
use crate::floor::Floor;
use crate::list::List;
use crate::port::Port;
use crate::task::State;

impl Core {
    /// Records that a task was just sent to a peer. The task competes there unless the peer has no floor and a free worker
    /// for it. If the peer has reported enough vacant workers, the task is expected to start; otherwise it is raised.
    #[cold]
    pub(super) fn raise(&mut self, place: usize, index: u32) {
        let (context, places) = (self.context_of(index), self.places_of(index));
        let floors = &mut self.peers.get_mut(place).floors;
        let (mark, floor) = (floors.mark_sent(context), floors.floor(context));
        let is_free = floor == Floor::NONE && self.has_worker_for(place, index);
        if !self.is_raisable(index) || is_free {
            return;
        }
        let priority = self.priority(index);
        let entry = self.peers.get_mut(place).floors.get_mut(context);
        let is_vacant = priority >= floor.highest() && entry.vacancies >= places;
        entry.vacancies -= if is_vacant { places } else { 0 };
        self.insert_raised(place, index, (mark, is_vacant));
    }

    /// Raises a task at a peer that had waited for other tasks there and now waits for a worker.
    #[cold]
    pub(super) fn raise_unblocked(&mut self, place: usize, index: u32) {
        if self.is_raisable(index) && !self.has_worker_for(place, index) {
            // Mark 0: the peer sends each later report after the task had arrived.
            self.insert_raised(place, index, (0, false));
        }
    }

    /// Raises the tasks that wait at peers and were sent while no priorities were in use, because a task with a lower
    /// priority was submitted.
    #[cold]
    pub(crate) fn raise_all_delegated(&mut self) {
        if self.config.shares_nested_only || std::mem::replace(&mut self.peers.raised.has_all, true)
        {
            return;
        }
        for place in 0..self.peers.end() {
            let there: Vec<u32> =
                List::from(&self.tasks, self.peers.get(place).in_flight.head).collect();
            for index in there {
                if self.is_raisable(index)
                    && !self.has_worker_for(place, index)
                    && !self.peers.raised.tasks.contains_key(&index)
                {
                    let mark = self.peers.get(place).floors.mark(self.context_of(index));
                    self.insert_raised(place, index, (mark, false));
                }
            }
        }
    }

    /// Returns true if this engine expects a peer to have an idle worker for a task that is there.
    fn has_worker_for(&self, place: usize, index: u32) -> bool {
        let peer = self.peers.get(place);
        let context = self.context_of(index);
        let workers = peer.offer.workers;
        if context == PLAIN {
            return u64::from(peer.runnable()) + peer.taken.places_beside() <= u64::from(workers);
        }
        let there = peer.load_of(context).count;
        peer.runnable() <= workers && self.could_all_run(context, there)
    }

    /// Returns true if a task at a peer could wait there while tasks with a lower priority start elsewhere.
    fn is_raisable(&self, index: u32) -> bool {
        self.priorities.is_used()
            && !self.config.shares_nested_only
            && self.tasks[index].sequence == 0
            && (self.context_of(index) == PLAIN || !self.is_demanding(index))
    }

    /// Returns the number of workers that a task fills.
    pub(super) fn places_of(&self, index: u32) -> u32 {
        self.demand(index).places().into()
    }

    fn insert_raised(&mut self, place: usize, index: u32, (mark, is_expected): (u64, bool)) {
        let (priority, context) = (self.priority(index), self.context_of(index));
        let is_demanding = self.is_demanding(index);
        let raised = &mut self.peers.raised;
        raised.sent += 1;
        let rank = (priority, raised.sent);
        let competitor = Competitor { rank, context, is_demanding, mark, is_expected };
        raised.tasks.insert(index, competitor);
        if !is_expected {
            let known = raised.floor_of_mut(context);
            known.turn += u64::from(known.floor.is_none_or(|floor| priority >= floor));
            known.count(&competitor, index, true);
        }
        let there = self.peers.get_mut(place).floors.get_mut(context);
        there.competing.insert((mark, index));
        if !is_expected {
            there.raised.insert(rank, index);
        }
    }

    /// Forgets all competing tasks at peers once no priorities are in use.
    fn forget_raised(&mut self) {
        let raised = &mut self.peers.raised;
        raised.tasks.clear();
        for entry in raised.by_context.values_mut() {
            entry.priorities.clear();
            entry.demanding.clear();
        }
        raised.has_all = false;
        for place in 0..self.peers.end() {
            self.peers.get_mut(place).floors.forget_competing();
        }
    }

    /// Forgets a competing task that has left its peer or has started. Returns true if the task was known to compete.
    #[cold]
    pub(super) fn cease_to_raise(&mut self, place: usize, index: u32) -> bool {
        let places = self.places_of(index);
        let raised = &mut self.peers.raised;
        let Some(competitor) = raised.tasks.remove(&index) else { return false };
        raised.has_all &= !raised.tasks.is_empty();
        let Competitor { rank, context, mark, is_expected, .. } = competitor;
        if !is_expected {
            raised.floor_of_mut(context).count(&competitor, index, false);
        }
        let asked_for = raised.asked.remove(&index);
        let there = self.peers.get_mut(place).floors.get_mut(context);
        there.raised.remove(&rank);
        there.competing.remove(&(mark, index));
        if let Some(target) = asked_for {
            self.expect(target, context, |expected| expected.saturating_sub(places));
            self.peers.raised.floor_of_mut(context).has_changed = true;
        }
        true
    }

    /// Gives peers the floors that they should have, and finds tasks for vacant peers.
    #[cold]
    pub(crate) fn settle_peer_floors(&mut self, port: &mut impl Port) {
        // A task without a context that waits here for room sets a floor, even if no task is raised.
        if self.first_waiting(PLAIN).is_some() && self.shares_floors() {
            // Makes the record of the group, so that the loop below visits it.
            let _plain = self.peers.raised.floor_of_mut(PLAIN);
        }
        let contexts: Vec<ContextId> = self.peers.raised.by_context.keys().copied().collect();
        for context in contexts {
            self.settle_context(context, port);
        }
        if !self.priorities.is_used() && !self.has_peer_floors() {
            self.forget_raised();
        }
        if self.peers.raised.drop_unused() {
            for place in 0..self.peers.end() {
                self.peers.get_mut(place).floors.drop_unused();
            }
        }
    }

    fn settle_context(&mut self, context: ContextId, port: &mut impl Port) {
        if !self.shares_floors() {
            self.peers.raised.floor_of_mut(context).has_changed = false;
            return self.set_peer_floors(context, None, port);
        }
        if std::mem::take(&mut self.peers.raised.floor_of_mut(context).has_changed) {
            self.fill_vacancies(context, port);
        }
        let floor = self.floor_of_raised(context).max(self.first_waiting(context));
        self.set_peer_floors(context, floor, port);
        if context == PLAIN {
            self.fill_vacancies_here(port);
        }
    }

    /// Returns true if some peer has a floor, or a task was asked back because of one.
    fn has_peer_floors(&self) -> bool {
        let raised = &self.peers.raised;
        raised.by_context.values().any(|entry| entry.floor.max(entry.demanding_floor).is_some())
            || !raised.asked.is_empty()
    }

    /// Lowers the floors that are left although their tasks have ended.
    pub(crate) fn settle_floors_left(&mut self, port: &mut impl Port) {
        if !self.peers.raised.is_unused() {
            self.settle_peer_floors(port);
        }
    }

    /// Returns true if this engine gives floors to peers. The engine of a node agent gives none.
    fn shares_floors(&self) -> bool {
        self.peers.end() > 0 && !self.config.shares_nested_only
    }

    /// Returns the priority of the first task of a group that waits here for room at a peer, if the task competes.
    fn first_waiting(&self, context: ContextId) -> Option<i32> {
        let first = match context {
            PLAIN => self.ready.first_priority(),
            // If this engine has workers, the queues of contexts wait for these, not for room at a peer.
            _ if self.config.workers > 0 => None,
            context => self.contexts.first_priority(context),
        };
        first.filter(|&first| self.competes(first))
    }

    fn set_peer_floors(&mut self, context: ContextId, floor: Option<i32>, port: &mut impl Port) {
        let has_workers = self.config.workers > 0;
        let demanding = self.highest_demanding(context);
        let known = self.peers.raised.floor_of_mut(context);
        if (floor, demanding) != (known.floor, known.demanding_floor) {
            (known.floor, known.demanding_floor) = (floor, demanding);
            known.turn += 1;
            known.is_stale = true;
            self.peers.raised.is_stale_here |= has_workers && context == PLAIN;
        }
        if !std::mem::take(&mut self.peers.raised.floor_of_mut(context).is_stale) {
            return;
        }
        for place in 0..self.peers.end() {
            let is_new = self.peers.get(place).floors.floor(context) == Floor::NONE;
            if !is_new || context == PLAIN || self.peers.get(place).load_of(context).count > 0 {
                self.tell_floor(place, context, self.wanted_floor(context, place), port);
            }
        }
    }

    /// Gives a peer the floor of a context before the first task in that context goes there.
    #[cold]
    pub(super) fn bring_floor(&mut self, place: usize, index: u32, port: &mut impl Port) {
        let context = self.context_of(index);
        if context != PLAIN {
            self.tell_floor(place, context, self.wanted_floor(context, place), port);
        }
    }

    fn tell_floor(
        &mut self,
        place: usize,
        context: ContextId,
        wanted: Floor,
        port: &mut impl Port,
    ) {
        let floors = &mut self.peers.get_mut(place).floors;
        if floors.floor(context) != wanted {
            let mark = floors.set_floor(context, wanted);
            port.floor_at_peer(peer_id(place), context, (wanted, mark));
        }
    }

    /// Returns the floor that a peer should have: the highest priority of the tasks that wait at peers, or here for a
    /// peer. If the peer could run none of those tasks, the floor is the next lower priority. `turn` is the version of the
    /// group's raised tasks and floor. `exempt_at` is the turn, and the floor, at which the peer could run none of them; it
    /// is void at any other turn.
    fn wanted_floor(&self, context: ContextId, place: usize) -> Floor {
        let peer = self.peers.get(place);
        let Some(known) = self.peers.raised.floor_of(context).filter(|_| peer.is_joined) else {
            return Floor::NONE;
        };
        let exempt_at = peer.floors.get(context).map(|one| one.exempt_at);
        let exempt = exempt_at.filter(|&(turn, _)| turn == known.turn);
        let single = match exempt {
            Some((_, priority)) => self.floor_below(context, priority),
            None => known.floor,
        };
        let limit = exempt.map_or((i32::MAX, u64::MAX), |(_, priority)| (priority, 0));
        let narrow = self.demanding_floor((context, place), limit, |places| places == 1);
        let mut floor =
            single.max(narrow.map(|(priority, _)| priority)).map_or(Floor::NONE, Floor::of);
        let wide = self.demanding_floor((context, place), limit, |places| places > 1);
        if let Some((priority, places)) = wide.filter(|&(priority, _)| priority > floor.priority) {
            (floor.wide, floor.places) = (priority, places);
        }
        floor
    }

    /// Returns the highest priority of a raised demanding task that ranks below `limit` and could run at a peer, and the
    /// number of workers that the task needs. Considers only numbers of workers for which `is_meant` returns true.
    fn demanding_floor(
        &self,
        (context, place): (ContextId, usize),
        limit: Rank,
        is_meant: impl Fn(u32) -> bool,
    ) -> Option<(i32, u32)> {
        let known =
            self.peers.raised.floor_of(context).filter(|entry| entry.demanding_floor.is_some())?;
        let raised = known.demanding.range(..limit).rev().take(LOOKS_MAX);
        let mut raised = raised.filter(|&(&(priority, _), &index)| {
            self.competes(priority) && is_meant(self.places_of(index))
        });
        let (&(priority, _), &index) = raised.find(|&(_, &index)| self.could_have(index, place))?;
        Some((priority, self.places_of(index)))
    }

    /// Returns true if a peer has the memory and the GPUs for a raised task, and enough CPU slots beside the tasks that
    /// are not below it. Also returns true for the peer where the task waits.
    pub(super) fn could_have(&self, index: u32, place: usize) -> bool {
        let (peer, demand) = (self.peers.get(place), self.demand(index));
        let is_there = usize::from(self.tasks[index].slot) == place;
        let above = peer.taken.above(self.priority(index));
        is_there
            || (peer.offer.covers_places(&demand, &above)
                && peer.offer.covers_rest(&demand, &peer.taken.all()))
    }

    /// Returns the floor that tasks at peers set for the workers of this engine.
    pub(crate) fn floor_here(&self) -> Option<i32> {
        let known = self.peers.raised.floor_of(PLAIN)?;
        match self.peers.raised.exempt_here {
            Some((turn, priority)) if turn == known.turn => self.floor_below(PLAIN, priority),
            _ => known.floor,
        }
    }

    /// Gives peers and the workers of this engine the floor of raised tasks, before any task below it is sent.
    #[cold]
    pub(crate) fn raise_floors(&mut self, port: &mut impl Port) {
        if self.shares_floors() {
            let contexts: Vec<ContextId> = self.peers.raised.by_context.keys().copied().collect();
            for context in contexts {
                let floor = self.floor_of_raised(context);
                let demanding = self.highest_demanding(context);
                let known = self.peers.raised.floor_of_mut(context);
                if floor > known.floor || demanding > known.demanding_floor {
                    let floor = floor.max(known.floor);
                    self.set_peer_floors(context, floor, port);
                }
            }
        }
        if self.takes_floor_here() {
            self.settle_floors(port);
        }
    }

    /// Returns true if the floor of this engine's own workers may have changed since the last call.
    #[inline]
    pub(crate) fn takes_floor_here(&mut self) -> bool {
        self.peers.raised.is_stale_here && std::mem::take(&mut self.peers.raised.is_stale_here)
    }

    /// Returns the highest priority of raised tasks that need one worker and nothing else, if it competes.
    fn floor_of_raised(&self, context: ContextId) -> Option<i32> {
        // The engine of a single peer orders all tasks by itself.
        let is_alone = self.peers.end() < 2 && self.config.workers == 0;
        let raised = self.peers.raised.floor_of(context)?.priorities.keys().next_back().copied();
        raised.filter(|&highest| !is_alone && self.competes(highest))
    }

    /// Returns the highest priority of raised demanding tasks, if it competes.
    fn highest_demanding(&self, context: ContextId) -> Option<i32> {
        let raised = self.peers.raised.floor_of(context)?.demanding.keys().next_back();
        let highest = raised.map(|&(priority, _)| priority).filter(|_| self.shares_floors())?;
        (self.peers.end() > 1 && self.competes(highest)).then_some(highest)
    }

    /// Returns the floor of a peer that could run none of the waiting tasks with this priority or a higher one.
    fn floor_below(&self, context: ContextId, priority: i32) -> Option<i32> {
        let raised = self.peers.raised.floor_of(context)?.priorities.range(..priority).next_back();
        let first = self.first_waiting(context).filter(|&first| first < priority);
        let highest = raised.map(|(&raised, _)| raised).max(first);
        highest.filter(|&highest| self.competes(highest))
    }

    /// Asserts the invariants of raised tasks between calls.
    pub(super) fn audit_raised(&self) {
        let raised = &self.peers.raised;
        let mut priorities = BTreeMap::<ContextId, BTreeMap<i32, u32>>::new();
        let mut demanding = BTreeMap::<ContextId, BTreeMap<Rank, u32>>::new();
        for (&index, one) in &raised.tasks {
            assert!(self.tasks[index].state == State::Delegated, "what competes is with a peer");
            assert_eq!(one.context, self.context_of(index), "its floor is that of its context");
            if !one.is_expected && one.is_demanding {
                demanding.entry(one.context).or_default().insert(one.rank, index);
            } else if !one.is_expected {
                *priorities.entry(one.context).or_default().entry(one.rank.0).or_insert(0) += 1;
            }
            let peer = self.peers.get(usize::from(self.tasks[index].slot));
            let entry = peer.floors.get(one.context).expect("its peer has its floor");
            let is_listed = !raised.is_asked(index) && !one.is_expected;
            assert_eq!(
                entry.raised.get(&one.rank),
                is_listed.then_some(&index),
                "its peer's list has it"
            );
            assert!(entry.competing.contains(&(one.mark, index)), "by its mark");
        }
        for (context, entry) in &raised.by_context {
            assert_eq!(priorities.remove(context).unwrap_or_default(), entry.priorities);
            assert_eq!(demanding.remove(context).unwrap_or_default(), entry.demanding);
        }
        assert!(priorities.is_empty() && demanding.is_empty(), "each is counted in its floor");
        assert!(raised.asked.keys().all(|index| raised.tasks.contains_key(index)), "asked back");
        let peers = || (0..self.peers.end()).map(|place| self.peers.get(place));
        let floors = || peers().flat_map(|peer| peer.floors.values());
        let listed: usize = floors().map(|entry| entry.competing.len()).sum();
        assert_eq!(listed, raised.tasks.len(), "lists");
        let in_lists: usize = floors().map(|entry| entry.raised.len()).sum();
        let expected = raised.tasks.values().filter(|one| one.is_expected).count();
        assert_eq!(in_lists + raised.asked.len() + expected, raised.tasks.len(), "lists by rank");
        if self.counts.outstanding == 0 {
            assert!(
                floors().all(|entry| entry.floor == Floor::NONE),
                "a floor is there for a task"
            );
        }
    }
}
