//! How a task comes to its workers' places.

use gristmill_wire::Demand;

use super::Kinds;
use crate::machine::slot_id;
use crate::place::Placed;
use crate::port::Port;
use crate::slots::SlotState;
use crate::task::State;
use crate::{Core, NONE, SlotId};

impl Core {
    /// Runs all that can be run, one after the other.
    pub(super) fn gather_all(&mut self, port: &mut impl Port) {
        self.give_way();
        while self.demands.first != NONE || self.begin_to_gather() {
            let index = self.demands.first;
            self.hold_idle(index);
            self.hold_busy(index, port);
            let Some(slot) = self.gathered(index, port) else { return };
            if !self.run_gathered(slot, index, port) {
                return;
            }
        }
    }

    /// Lets the first task gather for which memory and GPUs are there.
    fn begin_to_gather(&mut self) -> bool {
        let mut short = self.held_up();
        let waiting: Vec<u32> = self.demands.waiting(&self.tasks).collect();
        for index in waiting {
            let kinds = Kinds::of(&self.demand(index));
            if short.meets(kinds) {
                continue;
            }
            if self.could_hold(index) && self.begin_claim(index) {
                self.demands.first = index;
                return true;
            }
            short.add(kinds);
        }
        false
    }

    /// What tasks have to leave to contexts for now.
    fn held_up(&self) -> Kinds {
        if self.contexts.is_empty() { Kinds::default() } else { self.demands.held_up }
    }

    /// Lets go of what the first task has, if stacks that wait have the places that it lacks: what they wait for may need
    /// these.
    fn give_way(&mut self) {
        let index = self.demands.first;
        if index != NONE && !self.could_hold(index) {
            let _was_first = self.cease_to_gather();
        }
    }

    /// Lets go of all that the first task has; false: none gathers.
    pub(crate) fn cease_to_gather(&mut self) -> bool {
        let index = std::mem::replace(&mut self.demands.first, NONE);
        if index != NONE {
            self.end_claim(self.tasks[index].extra);
        }
        index != NONE
    }

    /// Whether there are as many places as a task needs that no stack waits in.
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

    /// Whether one gathers, or could if those who have the places gave way. Who waits in the others may wait for what would
    /// have to run in these.
    pub(crate) fn could_gather(&self) -> bool {
        let has_all = |demand: &Demand| {
            self.could_have_places(demand)
                && self.demands.claims.find(demand, std::iter::empty()).is_some()
        };
        self.demands.first != NONE || self.first_in_turn(self.held_up(), has_all).next().is_some()
    }

    /// Whether there could be as many places if nobody had any but those who wait for tasks that they submitted.
    fn could_have_places(&self, demand: &Demand) -> bool {
        let in_use = usize::from(self.config.workers) + self.wanted_spares() as usize;
        let free = (0..in_use).filter(|&place| self.is_unstuck(place)).count();
        free >= usize::from(demand.places())
    }

    /// Tasks that wait and `could` run, in turn: what is short of one thing holds up those that need it too.
    fn first_in_turn(
        &self,
        mut short: Kinds,
        could: impl Fn(&Demand) -> bool,
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

    /// Tasks that wait and could have places, as far as none of those before them is short of what it cannot have.
    pub(crate) fn could_have_their_turn(&self) -> impl Iterator<Item = u32> {
        self.first_in_turn(Kinds::default(), |demand| self.could_have_places(demand))
    }

    /// The slots whose places a task has.
    pub(crate) fn places(&self, index: u32) -> Vec<SlotId> {
        self.held_slots(index).map(slot_id).collect()
    }

    fn held(&self, index: u32) -> usize {
        self.held_slots(index).count()
    }

    /// Whether a task gathers that lacks places.
    pub(crate) fn gathers_places(&self) -> bool {
        let index = self.demands.first;
        if index == NONE {
            return false;
        }
        let held = self.held_slots(index).filter(|&place| self.slots[place].waiting == 0);
        held.count() < usize::from(self.demand(index).places())
    }

    /// Whether a place could be a task's: not of a worker that is used up, or whose stack waits.
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

    /// Takes the places of workers that have nothing to do, if need be instead of others.
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

    /// Takes places whose workers will have nothing to do soon: what waits there goes elsewhere.
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

    /// The worker for a task that has all its places: one that has used its GPUs before, or none. Others are replaced,
    /// since a process keeps the GPUs that it has used first.
    fn gathered(&mut self, index: u32, port: &mut impl Port) -> Option<usize> {
        let Demand { gpus, .. } = self.demand(index);
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

    /// Sends a task that has everything; false: its ring is full.
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

    /// A demanding task has left its worker: all that it had is free.
    pub(crate) fn leave_places(&mut self, index: u32) {
        if self.claim(index).is_some() {
            self.demands.lent_places -= u64::from(self.demand(index).places()) - 1;
            self.end_claim(self.tasks[index].extra);
        }
    }
}
