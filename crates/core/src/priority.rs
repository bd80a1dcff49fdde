//! Priorities: a waiting task goes before tasks with a lower priority that rings hold already.
//!
//! While a task waits for a worker and a task with a lower priority is outstanding, the slots that could run the
//! waiting task have a *floor*: its priority. Their workers begin no task below the floor, and return records below it
//! as not started. So one store per slot withdraws all such records from the rings. A returned task takes its old
//! position in the queue again, and is not sent until the floor is lowered: no record goes back and forth.
//!
//! A task with a higher priority than another outstanding one goes to a worker that will begin it now: an idle worker,
//! or one whose ring holds only records that it returns. Short tasks may queue behind each other. The floor stays up
//! until the last of them has started, so no task with a lower priority begins beside them meanwhile.
//!
//! Programs without priorities pay only for a call of [`Priorities::is_used`].

use std::collections::BTreeMap;

use gristmill_wire::{ContextId, PeerId};

use crate::contexts::{ContextTable, PLAIN};
use crate::floor::{Floor, NO_FLOOR};
use crate::machine::slot_id;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

/// Priorities of outstanding tasks, and floors of slots.
#[derive(Debug, Default)]
pub(crate) struct Priorities {
    /// Number of tasks without a final state by priority, except priority 0.
    live: BTreeMap<i32, u64>,
    /// Sum of the numbers in `live`.
    count: u64,
    /// Floor of the slots with a context, or without one; absent if there is none.
    floors: BTreeMap<ContextId, i32>,
    /// True if `live`, `floors` or `given` has an entry.
    is_used: bool,
    /// True if a floor is higher than the waiting tasks, since a record above it has not started.
    is_late: bool,
    /// True if a slot may lack the floor of its context.
    pub has_newcomer: bool,
    /// Floors that a peer has set in this engine, by the contexts whose workers have them.
    given: BTreeMap<ContextId, GivenFloor>,
}

/// Floor that a peer has set because tasks of its own wait elsewhere.
#[derive(Debug, Clone, Copy)]
struct GivenFloor {
    peer: PeerId,
    floor: Floor,
    /// Mark that came with the floor, plus the number of tasks of the context that have come from the peer since.
    mark: u32,
    /// Idle workers that were reported to the peer, or fewer.
    reported: u32,
    /// True if the peer was told of idle workers: it expects that the tasks above the floor that it sends next begin at
    /// once.
    has_promised: bool,
    /// True if a task above the floor has come since the last report to the peer.
    is_expected: bool,
}

impl Priorities {
    /// Returns true if any task has a priority other than 0, or any slot has a floor.
    #[inline]
    pub const fn is_used(&self) -> bool {
        self.is_used
    }

    /// Counts a task that was accepted.
    pub fn enter(&mut self, priority: i32) {
        if priority != 0 {
            *self.live.entry(priority).or_insert(0) += 1;
            self.count += 1;
            self.is_used = true;
        }
    }

    /// Subtracts a task that has become final.
    pub fn leave(&mut self, priority: i32) {
        if priority == 0 {
            return;
        }
        self.count -= 1;
        if let Some(count) = self.live.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                self.live.remove(&priority);
            }
        }
        self.note_use();
    }

    fn note_use(&mut self) {
        self.is_used = !self.live.is_empty() || !self.floors.is_empty() || !self.given.is_empty();
    }

    fn floor(&self, context: ContextId) -> i32 {
        self.floors.get(&context).copied().unwrap_or(NO_FLOOR)
    }
}

impl Slot {
    /// Returns true if a record in flight was sent since the floor was raised: the records in front of it that are
    /// below the floor will not begin.
    fn is_above_floor(&self, low: u32) -> bool {
        self.floor != NO_FLOOR && self.sequence(low) >= self.floor_since
    }

    /// Adds a record that was just sent, if there is a floor.
    #[inline]
    pub(crate) fn count_above(&mut self, cost_ns: u64) {
        if self.floor != NO_FLOOR {
            self.above += 1;
            self.above_ns += cost_ns;
        }
    }

    /// Subtracts a record that leaves the ring. `low` is the low half of its sequence.
    #[inline]
    pub(crate) fn uncount_above(&mut self, low: u32, cost_ns: u64) {
        if self.floor != NO_FLOOR && self.is_above_floor(low) {
            self.above -= 1;
            self.above_ns -= cost_ns;
        }
    }

    /// Subtracts the cost of a record whose task began to wait.
    pub(crate) fn uncount_cost(&mut self, low: u32, cost_ns: u64) {
        if self.is_above_floor(low) {
            self.above_ns -= cost_ns;
        }
    }

    const fn forget_above(&mut self) {
        self.above = 0;
        self.above_ns = 0;
        self.floor_since = if self.in_flight.len == 0 { 0 } else { self.last_sequence + 1 };
    }
}

impl Core {
    /// Returns the slot for a task, if one has room.
    #[inline]
    pub(crate) fn choose_for(
        &self,
        index: u32,
        context: ContextId,
        port: &impl Port,
    ) -> Option<usize> {
        if !self.priorities.is_used() {
            return self.choose(context, port);
        }
        self.choose_by_priority(self.priority(index), context, port)
    }

    #[cold]
    fn choose_by_priority(
        &self,
        priority: i32,
        context: ContextId,
        port: &impl Port,
    ) -> Option<usize> {
        if !self.competes(priority) && self.priorities.floor(context) == NO_FLOOR {
            return self.choose(context, port);
        }
        let rank = |&place: &usize| {
            let slot = &self.slots[place];
            (slot.in_flight.len > 0, port.is_asleep(slot_id(place)), slot.above_ns)
        };
        (0..self.live_end)
            .filter(|&place| self.serves(place, context) && self.takes(place, priority, port))
            .min_by_key(rank)
    }

    /// Returns true if an outstanding task has a lower priority.
    pub(crate) fn competes(&self, priority: i32) -> bool {
        self.lowest_priority().is_some_and(|lowest| lowest < priority)
    }

    fn lowest_priority(&self) -> Option<i32> {
        let lowest = self.priorities.live.keys().next().copied();
        let has_plain = self.counts.outstanding > self.priorities.count;
        if has_plain { Some(lowest.map_or(0, |lowest| lowest.min(0))) } else { lowest }
    }

    /// Returns true if a slot's worker would soon begin a task that competes with others: the worker is idle, or
    /// returns all records that it has, or runs only short tasks above the floor.
    fn takes(&self, place: usize, priority: i32, port: &impl Port) -> bool {
        let slot = &self.slots[place];
        let limit = self.config.tasks_per_worker_max;
        let is_there = slot.state == SlotState::Ready
            && !slot.full
            && slot.waiting == 0
            && slot.holder == NONE
            && !slot.is_leaving
            && (limit == 0 || slot.sent < limit);
        if !is_there || priority < slot.floor {
            return false;
        }
        if slot.in_flight.len == 0 {
            return true;
        }
        if slot.floor == NO_FLOOR || slot.stuck {
            return false;
        }
        match slot.above {
            0 => {
                let progress = port.progress(slot_id(place));
                progress.started == progress.ended
            }
            above => above < self.config.depth_max && slot.above_ns < self.config.steal_after_ns,
        }
    }

    /// Returns true if the floor does not hold back the first task that waits for workers with a context.
    pub(crate) fn is_above_floor(&self, context: ContextId) -> bool {
        let floor = self.priorities.floor(context);
        floor == NO_FLOOR || self.waiting_priority(context).is_some_and(|first| first >= floor)
    }

    /// Returns true if a demanding task must not run now, since a task with a higher priority waits for a worker.
    pub(crate) fn is_below_floor(&self, index: u32) -> bool {
        self.priorities.is_used() && self.priority(index) < self.priorities.floor(PLAIN)
    }

    /// Gives slots that may lack the floors of their contexts these floors, before any task is sent there.
    #[cold]
    pub(crate) fn renew_floors(&mut self, port: &mut impl Port) {
        self.priorities.has_newcomer = false;
        for (context, floor) in self.priorities.floors.clone() {
            self.set_floors(context, floor, port);
        }
    }

    /// Raises the floors of slots to the waiting tasks, and lowers floors that no waiting task needs any more. Returns
    /// whether one was lowered: more tasks may be sent then.
    pub(crate) fn settle_floors(&mut self, port: &mut impl Port) -> bool {
        let lowest = self.lowest_priority();
        // A context without workers has no floor, however many of its tasks wait.
        let staffed = ContextTable::of_slots(self.live_slots());
        let mut contexts: Vec<ContextId> = self.priorities.floors.keys().copied().collect();
        contexts.extend(self.priorities.given.keys());
        contexts.extend(&staffed);
        contexts.push(PLAIN);
        contexts.sort_unstable();
        contexts.dedup();
        self.contexts.count_looks(contexts.len());
        self.priorities.is_late = false;
        let mut has_lowered = false;
        for context in contexts {
            let has_worker = context == PLAIN || staffed.binary_search(&context).is_ok();
            let competing = self.competing_priority(context).filter(|_| has_worker);
            let given = self.given_floor(context);
            let has_own = context == PLAIN && self.config.workers > 0;
            let raised = if has_own { self.floor_here() } else { None };
            let wanted = competing.max(given).max(raised).unwrap_or(NO_FLOOR);
            let floor = self.priorities.floor(context);
            if wanted < floor {
                let matters = lowest.is_some_and(|lowest| lowest < floor);
                if matters && self.has_unstarted_above(context, port) {
                    self.priorities.is_late = true;
                    continue;
                }
                has_lowered = true;
            } else if wanted == floor {
                continue;
            }
            self.set_floors(context, wanted, port);
        }
        self.priorities.note_use();
        has_lowered
    }

    /// Sets the floor of a context when the context gets its first worker.
    pub(crate) fn floor_newcomer(&mut self, context: ContextId, port: &mut impl Port) {
        if self.priorities.is_used()
            && context != PLAIN
            && self.priorities.floor(context) == NO_FLOOR
            && let Some(floor) = self.competing_priority(context)
        {
            self.set_floors(context, floor, port);
        }
    }

    /// Returns the highest priority of the tasks that wait for workers with a context, if an outstanding task has a
    /// lower one.
    fn competing_priority(&self, context: ContextId) -> Option<i32> {
        self.waiting_priority(context).filter(|&first| self.competes(first))
    }

    /// Sets the floor that a peer asks for, for tasks of a context or for those without one: a task of that peer waits
    /// elsewhere. Each later task of the context that comes from the peer adds one to the floor's mark. The peer is
    /// told of workers that idle because of the floor.
    pub fn set_peers_floor(
        &mut self,
        (peer, context): (PeerId, ContextId),
        (floor, mark): (Floor, u32),
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        if self.priorities.given.get(&context).is_some_and(|given| given.has_promised) {
            self.tell_vacancies_of(context, port);
        }
        if floor.highest() == NO_FLOOR {
            if self.priorities.given.remove(&context).is_none() {
                return;
            }
        } else if self.is_defined(context) {
            // A task that came because of the previous floor may still lose the worker that was meant for it.
            let before = self.priorities.given.get(&context);
            let has_promised = before.is_some_and(|given| given.has_promised);
            let (reported, is_expected) = (0, false);
            let given = GivenFloor { peer, floor, mark, reported, has_promised, is_expected };
            self.priorities.given.insert(context, given);
        }
        self.priorities.is_used = true;
        self.pump(port);
        self.wind_down(port);
    }

    /// Returns the floor that a peer has set for the workers with a context, or without one. The wide floor counts only
    /// if its number of workers could be freed: tasks that wait in the other workers may wait for tasks below the
    /// floor.
    fn given_floor(&self, context: ContextId) -> Option<i32> {
        let floor = self.priorities.given.get(&context)?.floor;
        let holds = floor.wide != NO_FLOOR && self.could_free_places(floor.places);
        Some(if holds { floor.highest() } else { floor.priority })
    }

    /// Counts a task that comes from a peer, for workers with a context or without one, if that peer's floor holds
    /// there. The task counts whatever becomes of it.
    #[inline]
    pub fn count_inbound(&mut self, (peer, context): (PeerId, ContextId), priority: i32) {
        if let Some(given) = self.priorities.given.get_mut(&context)
            && given.peer == peer
        {
            given.mark = given.mark.wrapping_add(1);
            given.is_expected |= priority >= given.floor.priority;
        }
    }

    /// Removes the floors of a peer that is gone. Returns whether there were some.
    pub(crate) fn drop_peers_floors(&mut self, peer: PeerId) -> bool {
        let before = self.priorities.given.len();
        self.priorities.given.retain(|_, given| given.peer != peer);
        let has_dropped = self.priorities.given.len() < before;
        self.priorities.is_used |= has_dropped;
        has_dropped
    }

    /// Removes the floor of a context that is dropped.
    pub(crate) fn drop_floor_of(&mut self, context: ContextId) {
        self.priorities.is_used |= self.priorities.given.remove(&context).is_some();
    }

    /// Tells the peers whose floors hold here of newly idle workers, once all tasks above the floor have begun; or that
    /// a task waits although it was promised a worker.
    pub(crate) fn tell_vacancies(&mut self, port: &mut impl Port) {
        let contexts: Vec<ContextId> = self.priorities.given.keys().copied().collect();
        for context in contexts {
            self.tell_vacancies_of(context, port);
        }
    }

    fn tell_vacancies_of(&mut self, context: ContextId, port: &mut impl Port) {
        let Some(&given) = self.priorities.given.get(&context) else { return };
        let Some(floor) = self.given_floor(context) else { return };
        let GivenFloor { peer, mark, mut has_promised, mut reported, .. } = given;
        let is_above = |first: Option<i32>| first.is_some_and(|first| first >= floor);
        let waits = is_above(self.waiting_priority(context));
        let has_demanding = context == PLAIN && is_above(self.demands.queue.first_priority());
        let vacant = if waits { 0 } else { self.vacant_above(context, floor, port) };
        if has_promised && (waits || (has_demanding && given.is_expected)) {
            // The worker that the task was to have is gone, or has something else to do.
            (has_promised, reported) = (false, 0);
            port.tell_vacant(peer, context, (0, mark));
        }
        if vacant > reported && self.has_unstarted_at(context, floor, port) {
            // An idle worker takes the task from the one that has it.
            self.priorities.is_late = true;
        } else {
            if vacant > reported {
                has_promised = true;
                port.tell_vacant(peer, context, (vacant, mark));
            }
            reported = vacant;
        }
        let given = GivenFloor { reported, has_promised, is_expected: false, ..given };
        self.priorities.given.insert(context, given);
    }

    /// Returns the number of workers with a context, or without one, that a floor keeps idle.
    pub(crate) fn vacant_above(&self, context: ContextId, floor: i32, port: &impl Port) -> u32 {
        let is_vacant = |&place: &usize| {
            let has_none_above = self.slots[place].above == 0;
            has_none_above && self.serves(place, context) && self.takes(place, floor, port)
        };
        u32::try_from((0..self.live_end).filter(is_vacant).count()).unwrap_or(u32::MAX)
    }

    /// Returns true if the ring of a worker with a context, or without one, holds a task of this priority or a higher
    /// one that has not started.
    fn has_unstarted_at(&self, context: ContextId, priority: i32, port: &impl Port) -> bool {
        (0..self.live_end).any(|place| {
            let slot = &self.slots[place];
            let started = port.progress(slot_id(place)).started;
            let mut records = crate::list::List::from(&self.tasks, slot.in_flight.head);
            slot.context == context
                && slot.waiting == 0
                && slot.state == SlotState::Ready
                && records.any(|index| {
                    slot.sequence(self.tasks[index].sequence) >= started
                        && self.priority(index) >= priority
                })
        })
    }

    /// Returns the highest priority of the tasks that wait for workers with a context.
    fn waiting_priority(&self, context: ContextId) -> Option<i32> {
        let queued = match context {
            PLAIN => self.ready.first_priority(),
            context => self.contexts.first_priority(context),
        };
        let gathering =
            (context == PLAIN && self.gathers_places()).then(|| self.priority(self.demands.first));
        let nested = if self.nested_ready > 0 { self.nested_priority(context) } else { None };
        queued.max(gathering).max(nested)
    }

    fn nested_priority(&self, context: ContextId) -> Option<i32> {
        let first = |slot: &Slot| {
            let first = slot.nested.first(&self.tasks)?;
            (self.context_of(first) == context).then(|| self.priority(first))
        };
        self.slots.iter().filter_map(first).max()
    }

    fn set_floors(&mut self, context: ContextId, floor: i32, port: &mut impl Port) {
        if floor == NO_FLOOR {
            self.priorities.floors.remove(&context);
        } else {
            self.priorities.floors.insert(context, floor);
        }
        for place in 0..self.live_end {
            let slot = &self.slots[place];
            let is_meant = slot.context == context && slot.state == SlotState::Ready;
            if is_meant && slot.floor != floor {
                self.set_floor(place, floor, port);
            }
        }
    }

    fn set_floor(&mut self, place: usize, floor: i32, port: &mut impl Port) {
        let slot = &mut self.slots[place];
        let is_raised = floor > slot.floor;
        slot.floor = floor;
        if is_raised || floor == NO_FLOOR {
            slot.forget_above();
        }
        port.set_floor(slot_id(place), floor);
    }

    /// Returns true if a worker with a context has yet to start a record above the floor: no task below the floor, in
    /// that ring or elsewhere, may begin before it.
    fn has_unstarted_above(&self, context: ContextId, port: &impl Port) -> bool {
        (0..self.live_end).any(|place| {
            let slot = &self.slots[place];
            // If a stack waits, the ring has only its children, which run in its wait whatever the floor.
            let has_some = slot.context == context
                && slot.above > 0
                && slot.waiting == 0
                && slot.state == SlotState::Ready;
            has_some && {
                let last = slot.sequence(self.tasks[slot.in_flight.tail].sequence);
                port.progress(slot_id(place)).started <= last
            }
        })
    }

    /// Returns the time at which [`Core::poll`] should look at the floors again.
    pub(crate) fn next_floor(&self) -> Option<u64> {
        let has_idle = || self.live_slots().iter().any(Slot::is_idle);
        (self.priorities.is_late && has_idle())
            .then(|| self.polled_at.saturating_add(self.config.steal_after_ns))
    }

    /// Asserts the invariants of floors that hold between calls.
    pub(crate) fn audit_priorities(&self) {
        let mut live = BTreeMap::new();
        for index in (0..self.tasks.end()).filter(|&index| self.is_live(index)) {
            if self.priority(index) != 0 {
                *live.entry(self.priority(index)).or_insert(0) += 1;
            }
        }
        assert_eq!(live, self.priorities.live, "tasks by priority");
        for slot in &self.slots {
            let in_flight = crate::list::List::from(&self.tasks, slot.in_flight.head);
            let above: Vec<u32> = in_flight
                .filter(|&index| slot.is_above_floor(self.tasks[index].sequence))
                .collect();
            assert_eq!(above.len(), slot.above as usize, "records above the floor");
            let is_admitted = |&index: &u32| {
                self.priority(index) >= slot.floor || self.extras[self.tasks[index].extra].is_nested
            };
            let known = self.priorities.floor(slot.context);
            assert!(
                slot.floor > known || above.iter().all(is_admitted),
                "nothing is sent below the floor"
            );
        }
    }
}
