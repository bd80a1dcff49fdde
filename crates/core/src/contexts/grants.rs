//! Resource grants of workers with contexts: taken when a worker is requested, given back when it is gone.
//!
//! They come from the same supply as the resources of demanding tasks. A worker that fills several CPU slots has those of
//! slots without a process, and these slots get no process.

use gristmill_wire::{ContextId, ResourceGrant, ResourceRequest, SlotId};

use crate::Core;
use crate::NONE;
use crate::demands::FreeResources;
use crate::machine::slot_id;
use crate::slots::{Slot, SlotState};
use crate::task::flag;

impl Core {
    /// Returns the resources of each worker with a context, including the number of its CPU slots; `None` if that is one
    /// slot and nothing else.
    pub(crate) fn needs_of_context(&self, context: ContextId) -> Option<ResourceRequest> {
        let demand = self.contexts.table.get(&context)?.options.demand;
        (!demand.is_none()).then_some(demand)
    }

    /// Grants a worker that is requested the resources that its context needs.
    pub(crate) fn grant_to_worker(&mut self, place: usize) {
        let Some(demand) = self.needs_of_context(self.slots[place].context) else { return };
        let devices = self.demands.claims.find(&demand, std::iter::empty());
        let devices = devices.expect("a worker is requested where its resources are");
        self.demands.claims.take(&demand, devices);
        self.slots[place].demand = demand;
        self.slots[place].devices = devices;
        for other in self.further_places(place, &demand) {
            self.set_state(other, SlotState::Lent);
            self.slots[other].lent_to = slot_id(place).0;
        }
    }

    /// Takes back the resources of the worker in a slot whose process is gone.
    pub(crate) fn strip_worker(&mut self, place: usize) {
        let Slot { demand, devices, .. } = self.slots[place];
        if demand.is_none() {
            return;
        }
        self.demands.claims.give_back(&demand, devices);
        self.slots[place].demand = ResourceRequest::NONE;
        self.slots[place].devices = 0;
        for other in 0..usize::from(self.config.workers) {
            if self.slots[other].lent_to == slot_id(place).0 {
                self.slots[other].lent_to = u16::MAX;
                self.set_state(other, SlotState::Absent);
            }
        }
        self.has_fresh = true;
        self.contexts.mark_changed();
    }

    /// Returns the free slots that a worker gets besides its own, NUMA-local ones first. There may be fewer than it
    /// needs. A spare worker gets none, because others wait while it runs.
    fn further_places(&self, place: usize, demand: &ResourceRequest) -> Vec<usize> {
        let workers = usize::from(self.config.workers);
        if place >= workers || demand.places() == 1 {
            return Vec::new();
        }
        let is_free = |&other: &usize| {
            let slot = &self.slots[other];
            other != place && slot.state == SlotState::Absent && slot.holder == NONE
        };
        let mut free: Vec<usize> = (0..workers).filter(is_free).collect();
        free.sort_by_key(|&other| self.numa_nodes(other) != self.numa_nodes(place));
        free.truncate(usize::from(demand.places()) - 1);
        free
    }

    /// Returns true if the resources that a worker in a slot needs are free.
    pub(super) fn can_grant(&self, place: usize, demand: &ResourceRequest) -> bool {
        if demand.is_none() {
            return true;
        }
        let is_spare = place >= usize::from(self.config.workers);
        let further = self.further_places(place, demand).len() + 1;
        self.has_left(demand) && (is_spare || further == usize::from(demand.places()))
    }

    /// Returns true if the resources that a worker needs are free. Does not check CPU slots.
    pub(super) fn has_left(&self, demand: &ResourceRequest) -> bool {
        self.demands.claims.find(demand, std::iter::empty()).is_some()
    }

    /// Returns true if the resources that a worker needs could become free once all tasks have gone on that do not wait
    /// for tasks that they submitted.
    pub(super) fn could_ever_grant(&self, demand: &ResourceRequest) -> bool {
        if demand.is_none() {
            return true;
        }
        let workers = 0..usize::from(self.config.workers);
        let free = workers.filter(|&place| self.is_unstuck(place)).count();
        let has_places = free >= usize::from(demand.places());
        // A spare worker needs only one CPU slot.
        (has_places || self.free_spares() > 0)
            && self.unstuck_claims().find(demand, std::iter::empty()).is_some()
    }

    /// Returns the number of spare slots, in use or not, whose tasks do not wait for tasks that they submitted.
    pub(super) fn free_spares(&self) -> u32 {
        let spares = self.spare_places(self.wanted_spares());
        let free = spares.filter(|&place| self.is_unstuck(place)).count();
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// Returns true if a slot is free, or if its user does not wait for tasks that it submitted.
    pub(crate) fn is_unstuck(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        let of = self.slots.get(usize::from(slot.lent_to)).unwrap_or(slot);
        of.waiting == 0 && !self.is_stuck(slot.holder)
    }

    /// Returns true if a running task waits for tasks that it submitted.
    pub(crate) fn is_stuck(&self, index: u32) -> bool {
        index != NONE && self.tasks[index].has(flag::WAITING)
    }

    /// Returns the supply without the resources of tasks that wait for tasks that they submitted, and of the workers
    /// where such tasks run. Such a task may wait for the very worker or task that needs the resources.
    pub(super) fn unstuck_claims(&self) -> FreeResources {
        let mut left = FreeResources::new(&self.config.supply);
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

    /// Returns the resource grant that is sent to the worker in a slot.
    pub(crate) fn grant_of_worker(&self, place: usize) -> ResourceGrant {
        let Some(slot) = self.slots.get(place).filter(|slot| !slot.demand.is_none()) else {
            return ResourceGrant::NONE;
        };
        let is_spare = place >= usize::from(self.config.workers);
        let places = if is_spare { 1 } else { slot.demand.places() };
        if slot.devices == 0 && places == 1 {
            return ResourceGrant::NONE;
        }
        ResourceGrant { devices: slot.devices, places }
    }

    /// Returns the slots that a context's worker fills, its own among them.
    pub(crate) fn places_of_worker(&self, place: usize) -> Vec<SlotId> {
        let is_its =
            |&other: &usize| other == place || self.slots[other].lent_to == slot_id(place).0;
        (0..self.slots.len()).filter(is_its).map(slot_id).collect()
    }

    /// Asserts that each worker with a context has its resources for itself, and takes them from `left`.
    pub(crate) fn audit_grants(&self, left: &mut FreeResources) {
        for (place, slot) in self.slots.iter().enumerate() {
            left.take(&slot.demand, slot.devices * u16::from(!slot.demand.is_none()));
            assert!(slot.demand.is_none() || slot.has_process(), "no worker could have it");
            let further = self.places_of_worker(place).len() - 1;
            let is_ordinary = place < usize::from(self.config.workers);
            let wants = usize::from(is_ordinary) * (usize::from(slot.demand.places()) - 1);
            assert_eq!(further, wants, "a worker has the CPU slots that its context requests");
            let is_lent = slot.state == SlotState::Lent;
            assert_eq!(is_lent, slot.lent_to != u16::MAX, "a lent CPU slot belongs to a worker");
            assert!(!is_lent || slot.holder == NONE, "no task has a CPU slot that is lent");
        }
    }
}
