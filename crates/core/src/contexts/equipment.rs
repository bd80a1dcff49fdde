//! What workers of contexts have besides their places: taken when one is asked for, given back when it is gone.
//!
//! It is of the same supply as what demanding tasks have. A worker that fills several places has those of slots without a
//! process, which stay so.

use gristmill_wire::{ContextId, Demand, Equipment, SlotId};

use crate::Core;
use crate::NONE;
use crate::demands::Claims;
use crate::machine::slot_id;
use crate::slots::{Slot, SlotState};
use crate::task::flag;

impl Core {
    /// What each worker with a context has besides a place, and how many places, where it is more than a worker.
    pub(crate) fn needs_of_context(&self, context: ContextId) -> Option<Demand> {
        let demand = self.contexts.table.get(&context)?.options.demand;
        (!demand.is_none()).then_some(demand)
    }

    /// Gives a worker that is asked for what its context needs.
    pub(crate) fn equip_worker(&mut self, place: usize) {
        let Some(demand) = self.needs_of_context(self.slots[place].context) else { return };
        let devices = self.demands.claims.find(&demand, std::iter::empty());
        let devices = devices.expect("a worker is asked for where there is what it needs");
        self.demands.claims.take(&demand, devices);
        self.slots[place].demand = demand;
        self.slots[place].devices = devices;
        for other in self.further_places(place, &demand) {
            self.set_state(other, SlotState::Lent);
            self.slots[other].lent_to = slot_id(place).0;
        }
    }

    /// Takes back what the worker in a slot had, whose process is gone.
    pub(crate) fn strip_worker(&mut self, place: usize) {
        let Slot { demand, devices, .. } = self.slots[place];
        if demand.is_none() {
            return;
        }
        self.demands.claims.give_back(&demand, devices);
        self.slots[place].demand = Demand::NONE;
        self.slots[place].devices = 0;
        for other in 0..usize::from(self.config.workers) {
            if self.slots[other].lent_to == slot_id(place).0 {
                self.slots[other].lent_to = u16::MAX;
                self.set_state(other, SlotState::Absent);
            }
        }
        self.has_fresh = true;
        self.contexts.note_news();
    }

    /// The places that a worker is to have besides its own, or as many as there are: those near to it first. A spare one has
    /// none, since others wait while it runs.
    fn further_places(&self, place: usize, demand: &Demand) -> Vec<usize> {
        let workers = usize::from(self.config.workers);
        if place >= workers || demand.places() == 1 {
            return Vec::new();
        }
        let is_free = |&other: &usize| {
            let slot = &self.slots[other];
            other != place && slot.state == SlotState::Absent && slot.holder == NONE
        };
        let mut free: Vec<usize> = (0..workers).filter(is_free).collect();
        free.sort_by_key(|&other| self.domains(other) != self.domains(place));
        free.truncate(usize::from(demand.places()) - 1);
        free
    }

    /// Whether there is what a worker in a place needs.
    pub(super) fn can_equip(&self, place: usize, demand: &Demand) -> bool {
        if demand.is_none() {
            return true;
        }
        let is_spare = place >= usize::from(self.config.workers);
        let further = self.further_places(place, demand).len() + 1;
        self.has_left(demand) && (is_spare || further == usize::from(demand.places()))
    }

    /// Whether there is what a worker needs, but perhaps places.
    pub(super) fn has_left(&self, demand: &Demand) -> bool {
        self.demands.claims.find(demand, std::iter::empty()).is_some()
    }

    /// Whether there could be what a worker needs once those have gone on that do not wait for tasks that they submitted.
    pub(super) fn could_equip(&self, demand: &Demand) -> bool {
        if demand.is_none() {
            return true;
        }
        let workers = 0..usize::from(self.config.workers);
        let free = workers.filter(|&place| self.is_unstuck(place)).count();
        let has_places = free >= usize::from(demand.places());
        // Spare ones do with one place.
        (has_places || self.free_spares() > 0)
            && self.unstuck_claims().find(demand, std::iter::empty()).is_some()
    }

    /// Places of spare workers that are there or could be, and whose tasks do not wait for others that they submitted.
    pub(super) fn free_spares(&self) -> u32 {
        let spares = self.spare_places(self.wanted_spares());
        let free = spares.filter(|&place| self.is_unstuck(place)).count();
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// Whether nobody has a place, or somebody who does not wait for tasks that he submitted.
    pub(crate) fn is_unstuck(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        let of = self.slots.get(usize::from(slot.lent_to)).unwrap_or(slot);
        of.waiting == 0 && !self.is_stuck(slot.holder)
    }

    /// Whether a task that runs waits for tasks that it submitted.
    pub(crate) fn is_stuck(&self, index: u32) -> bool {
        index != NONE && self.tasks[index].has(flag::WAITING)
    }

    /// What there is, without that of tasks that wait for others that they submitted, and of the workers where such run: it
    /// may be what those wait for.
    pub(super) fn unstuck_claims(&self) -> Claims {
        let mut left = Claims::new(&self.config.supply);
        for (place, slot) in self.slots.iter().enumerate() {
            let index = slot.holder;
            if self.is_stuck(index) && usize::from(self.tasks[index].slot) == place {
                let devices = self.claim(index).map_or(0, |claim| claim.devices);
                left.take(&self.demand(index), devices);
            }
            if slot.waiting > 0 {
                left.take(&slot.demand, slot.devices);
            }
        }
        left
    }

    /// What the worker in a slot is told that it has besides its place.
    pub(crate) fn equipment_of_worker(&self, place: usize) -> Equipment {
        let Some(slot) = self.slots.get(place).filter(|slot| !slot.demand.is_none()) else {
            return Equipment::NONE;
        };
        let is_spare = place >= usize::from(self.config.workers);
        let places = if is_spare { 1 } else { slot.demand.places() };
        if slot.devices == 0 && places == 1 {
            return Equipment::NONE;
        }
        Equipment { devices: slot.devices, places }
    }

    /// The slots whose places a context's worker has, its own among them.
    pub(crate) fn places_of_worker(&self, place: usize) -> Vec<SlotId> {
        let is_its =
            |&other: &usize| other == place || self.slots[other].lent_to == slot_id(place).0;
        (0..self.slots.len()).filter(is_its).map(slot_id).collect()
    }

    /// Asserts that what workers of contexts have is theirs alone; takes it from what there is.
    pub(crate) fn audit_equipment(&self, left: &mut Claims) {
        for (place, slot) in self.slots.iter().enumerate() {
            left.take(&slot.demand, slot.devices * u16::from(!slot.demand.is_none()));
            assert!(slot.demand.is_none() || slot.has_process(), "nobody is there to have it");
            let further = self.places_of_worker(place).len() - 1;
            let is_ordinary = place < usize::from(self.config.workers);
            let wants = usize::from(is_ordinary) * (usize::from(slot.demand.places()) - 1);
            assert_eq!(further, wants, "a worker has the places that its context asks for");
            let is_lent = slot.state == SlotState::Lent;
            assert_eq!(is_lent, slot.lent_to != u16::MAX, "what is lent is somebody's");
            assert!(!is_lent || slot.holder == NONE, "a place that is lent is no task's");
        }
    }
}
