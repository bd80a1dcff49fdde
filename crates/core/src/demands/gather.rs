//! Gathering of the CPU slots of demanding tasks.

use gristmill_wire::ResourceRequest;

use super::Kinds;
use crate::machine::slot_id;
use crate::place::Placed;
use crate::port::Port;
use crate::slots::SlotState;
use crate::task::State;
use crate::{Core, NONE, SlotId};

impl Core {
    /// Runs all demanding tasks that can run, one after the other.
    pub(super) fn gather_all(&mut self, port: &mut impl Port) {
        self.give_way();
        let mut has_given = false;
        while self.demands.first != NONE || self.begin_to_gather() {
            let index = self.demands.first;
            if self.is_below_floor(index) {
                let _was_first = self.cease_to_gather();
                return;
            }
            if !has_given && self.gives_precedence(index) {
                has_given = true;
                continue;
            }
            self.hold_idle(index);
            self.hold_busy(index, port);
            let Some(slot) = self.gathered(index, port) else { return };
            if !self.run_gathered(slot, index, port) {
                return;
            }
        }
    }

    /// Lets the first task for which memory and GPUs are free begin to gather CPU slots. Returns false if there is none.
    fn begin_to_gather(&mut self) -> bool {
        let mut short = self.held_up();
        let waiting: Vec<u32> = self.demands.waiting(&self.tasks).collect();
        for index in waiting {
            let kinds = Kinds::of(&self.demand(index));
            if short.meets(kinds) {
                continue;
            }
            if !self.is_below_floor(index) && self.could_hold(index) && self.begin_claim(index) {
                self.demands.first = index;
                return true;
            }
            short.add(kinds);
        }
        false
    }

    /// Returns the kinds of resources that tasks must leave to contexts for now.
    fn held_up(&self) -> Kinds {
        if self.contexts.is_empty() { Kinds::default() } else { self.demands.held_up }
    }

    /// Releases what the gathering task has, if waiting workers have the CPU slots that it lacks: the tasks for which
    /// these workers wait may need the released resources.
    fn give_way(&mut self) {
        let index = self.demands.first;
        if index != NONE && !self.could_hold(index) {
            let _was_first = self.cease_to_gather();
        }
    }

    /// Releases all that the gathering task has. Returns false if no task gathers.
    pub(crate) fn cease_to_gather(&mut self) -> bool {
        let index = std::mem::replace(&mut self.demands.first, NONE);
        if index != NONE {
            self.end_claim(self.tasks[index].extra);
        }
        index != NONE
    }

    /// Releases what the gathering task has, if a task with a higher priority could gather now. Returns true if it did.
    fn gives_precedence(&mut self, index: u32) -> bool {
        let highest = self
            .demands
            .queue
            .first(&self.tasks)
            .filter(|&first| first != index && self.priority(first) > self.priority(index));
        let Some(first) = highest else { return false };
        if self.held_up().meets(Kinds::of(&self.demand(first))) {
            return false;
        }
        let had = self.claim(index).map(|claim| (claim, self.demand(index)));
        let mut free = self.demands.claims.clone();
        if let Some((claim, demand)) = had {
            free.give_back(&demand, claim.devices);
        }
        let has_all = free.find(&self.demand(first), std::iter::empty()).is_some();
        let gives = has_all && self.could_hold_all(first);
        gives && self.cease_to_gather()
    }

    /// Returns true if enough CPU slots would be left for a task if no other task gathered: those without a waiting worker
    /// that no task holds, or the gathering task.
    fn could_hold_all(&self, index: u32) -> bool {
        let is_free = |place: &usize| {
            let slot = &self.slots[*place];
            let gathers = slot.holder == self.demands.first;
            let is_its = slot.holder == NONE || gathers;
            slot.waiting == 0 && is_its && slot.state != SlotState::Lent && self.is_usable(*place)
        };
        let places = (0..self.slots.len()).filter(is_free).count();
        places >= usize::from(self.demand(index).places())
    }

    /// Returns true if `count` CPU slots could be freed, whether or not tasks hold them. A slot cannot be freed while its
    /// task waits for tasks that it submitted, or while it is lent.
    pub(crate) fn could_free_places(&self, count: u32) -> bool {
        let is_free = |place: &usize| {
            let slot = &self.slots[*place];
            slot.waiting == 0 && slot.state != SlotState::Lent && self.is_usable(*place)
        };
        (0..self.slots.len()).filter(is_free).count() >= count as usize
    }

    /// Returns true if enough CPU slots are left for a task now: those without a waiting worker that no other task holds.
    fn could_hold(&self, index: u32) -> bool {
        let is_free = |place: &usize| {
            let slot = &self.slots[*place];
            let is_its = slot.holder == NONE || slot.holder == index;
            let is_lent = slot.state == SlotState::Lent;
            slot.waiting == 0 && is_its && !is_lent && self.is_usable(*place)
        };
        let places = (0..self.slots.len()).filter(is_free).count();
        places >= usize::from(self.demand(index).places())
    }

    /// Returns true if a task gathers, or could gather if the users of CPU slots gave them up. Slots in which workers
    /// wait do not count: these workers may wait for tasks that would have to run in the other slots.
    pub(crate) fn could_gather(&self) -> bool {
        let has_all = |demand: &ResourceRequest| {
            self.could_have_places(demand)
                && self.demands.claims.find(demand, std::iter::empty()).is_some()
        };
        self.demands.first != NONE || self.first_in_turn(self.held_up(), has_all).next().is_some()
    }

    /// Returns true if enough CPU slots could become free for a request; lent slots and slots that tasks hold count too. A
    /// slot cannot become free while its user waits for tasks that it submitted.
    fn could_have_places(&self, demand: &ResourceRequest) -> bool {
        let in_use = usize::from(self.config.workers) + self.wanted_spares() as usize;
        let free = (0..in_use).filter(|&place| self.is_unstuck(place)).count();
        free >= usize::from(demand.places())
    }

    /// Returns the waiting tasks for which `could` returns true, in order. A task that lacks a resource holds up the
    /// tasks behind it that need the same kind.
    fn first_in_turn(
        &self,
        mut short: Kinds,
        could: impl Fn(&ResourceRequest) -> bool,
    ) -> impl Iterator<Item = u32> {
        self.demands.waiting(&self.tasks).filter(move |&index| {
            let demand = self.demand(index);
            let kinds = Kinds::of(&demand);
            let is_in_turn = !short.meets(kinds);
            let is_able = is_in_turn && could(&demand);
            if is_in_turn && !is_able {
                short.add(kinds);
            }
            is_able
        })
    }

    /// Returns the waiting tasks that could have CPU slots. A task that could not have them holds up the tasks behind it
    /// that need the same kind of resource.
    pub(crate) fn could_have_their_turn(&self) -> impl Iterator<Item = u32> {
        self.first_in_turn(Kinds::default(), |demand| self.could_have_places(demand))
    }

    /// Returns the slots that a task holds.
    pub(crate) fn places(&self, index: u32) -> Vec<SlotId> {
        self.held_slots(index).map(slot_id).collect()
    }

    fn held(&self, index: u32) -> usize {
        self.held_slots(index).count()
    }

    /// Returns true if a task gathers and lacks CPU slots.
    pub(crate) fn gathers_places(&self) -> bool {
        let index = self.demands.first;
        if index == NONE {
            return false;
        }
        let held = self.held_slots(index).filter(|&place| self.slots[place].waiting == 0);
        held.count() < usize::from(self.demand(index).places())
    }

    /// Returns true if a task could take a slot: its worker is ready, not used up and not leaving, and no task in it
    /// waits.
    fn is_holdable(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        let limit = self.config.tasks_per_worker_max;
        slot.state == SlotState::Ready
            && slot.holder == NONE
            && slot.waiting == 0
            && !slot.is_leaving
            && (limit == 0 || slot.sent < limit)
            && self.is_usable(place)
    }

    /// Takes the slots of idle workers, and gives up busy ones for them if necessary.
    fn hold_idle(&mut self, index: u32) {
        let places = usize::from(self.demand(index).places());
        let is_its = |place: usize| self.slots[place].holder == index;
        let could_be = |&place: &usize| is_its(place) || self.is_holdable(place);
        let idle = (0..self.live_end).filter(|&place| self.slots[place].is_idle());
        let free: Vec<usize> = idle.filter(could_be).collect();
        let chosen = if free.len() > places { self.pick_idle(index, &free, places) } else { free };
        let busy: Vec<usize> = self.held_slots(index).filter(|one| !chosen.contains(one)).collect();
        let excess = (chosen.len() + busy.len()).saturating_sub(places);
        for &other in &busy[..excess.min(busy.len())] {
            self.slots[other].holder = NONE;
            self.has_fresh = true;
        }
        for place in chosen {
            self.slots[place].holder = index;
        }
    }

    /// Takes slots whose workers will be idle soon. The tasks that wait there go elsewhere.
    fn hold_busy(&mut self, index: u32, port: &mut impl Port) {
        let places = usize::from(self.demand(index).places());
        while self.held(index) < places {
            let free: Vec<usize> =
                (0..self.live_end).filter(|&place| self.is_holdable(place)).collect();
            let Some(place) = self.pick_busy(index, &free) else { return };
            self.slots[place].holder = index;
            let unclaimed = self.unclaimed(place, port);
            let taken = self.recall(place, &unclaimed, port);
            self.return_all(&taken, port);
        }
    }

    /// Returns the worker for a task that has all its CPU slots: one that has used the task's GPUs before, or no GPU.
    /// Retires a worker if there is none, because a process is bound for life to the GPUs of its first GPU task.
    fn gathered(&mut self, index: u32, port: &mut impl Port) -> Option<usize> {
        let ResourceRequest { gpus, .. } = self.demand(index);
        let devices = self.claim(index)?.devices;
        let places = usize::from(self.demand(index).places());
        let has =
            |place: &usize| self.slots[*place].holder == index && self.slots[*place].is_idle();
        let held: Vec<usize> = (0..self.live_end).filter(has).collect();
        if held.len() < places || self.could_be_nearer(index, places) {
            return None;
        }
        if gpus == 0 {
            return Some(held[0]);
        }
        let with = |set: u16| held.iter().copied().find(|&place| self.slots[place].devices == set);
        let found = with(devices).or_else(|| with(0));
        if found.is_none() {
            self.retire(held[0], port);
        }
        found
    }

    /// Sends a task that has everything. Returns false if the ring is full.
    fn run_gathered(&mut self, slot: usize, index: u32, port: &mut impl Port) -> bool {
        let demand = self.demand(index);
        self.dequeue_demanding(index);
        self.demands.first = NONE;
        self.tasks[index].state = State::Loose;
        if self.send(slot, index, port) == Placed::Full {
            self.queue_demanding(index, true);
            self.demands.first = index;
            return false;
        }
        if self.tasks[index].state == State::Sent {
            self.demands.lent_places += u64::from(demand.places()) - 1;
            if demand.gpus > 0 {
                self.slots[slot].devices = self.claim(index).map_or(0, |claim| claim.devices);
            }
        }
        true
    }

    /// Releases all that a demanding task had, after it has left its worker.
    pub(crate) fn leave_places(&mut self, index: u32) {
        if self.claim(index).is_some() {
            self.demands.lent_places -= u64::from(self.demand(index).places()) - 1;
            self.end_claim(self.tasks[index].extra);
        }
    }
}
