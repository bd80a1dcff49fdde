//! What there is besides workers, and what is left of it.

use gristmill_wire::{Demand, Equipment, GPUS_MAX, WHOLE_GPU};

use crate::slots::Slot;
use crate::{Core, NONE};

/// What tasks and contexts may ask for besides workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supply {
    /// Bytes of memory; `u64::MAX` is not known, and nothing is kept from a task.
    pub memory: u64,
    /// The GPUs, a bit each.
    pub gpus: u16,
}

impl Default for Supply {
    /// As much memory as anybody asks for, no GPU.
    fn default() -> Self {
        Self { memory: u64::MAX, gpus: 0 }
    }
}

/// What is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    memory: u64,
    /// Thousandths of each GPU.
    gpus: [u32; GPUS_MAX],
}

/// What one task has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Its GPUs, a bit each.
    pub devices: u16,
}

impl Claims {
    pub fn new(supply: &Supply) -> Self {
        let mut gpus = [0; GPUS_MAX];
        for (device, left) in gpus.iter_mut().enumerate() {
            if supply.gpus & (1 << device) != 0 {
                *left = WHOLE_GPU;
            }
        }
        Self { memory: supply.memory, gpus }
    }

    /// The GPUs for a task, if what it asks for is there: for a share of one the fullest that has it, for whole ones the
    /// first. Of several choices one in `bound`, the sets that idle workers have used before, spares a worker's start.
    pub fn find(&self, demand: &Demand, bound: impl Iterator<Item = u16>) -> Option<u16> {
        if demand.memory > self.memory {
            return None;
        }
        let count = demand.devices();
        let has = |device: usize| self.gpus[device] >= demand.share();
        let all_have =
            |set: u16| (0..GPUS_MAX).all(|device| set & (1 << device) == 0 || has(device));
        let mut fit = bound.filter(|set| set.count_ones() == count && all_have(*set));
        if let Some(set) = fit.next().filter(|_| count > 0) {
            return Some(set);
        }
        let mut devices: Vec<usize> = (0..GPUS_MAX).filter(|&device| has(device)).collect();
        devices.sort_by_key(|&device| self.gpus[device]);
        let chosen = devices.get(..count as usize)?;
        Some(chosen.iter().fold(0, |set, device| set | (1 << device)))
    }

    /// What of a demand is not there, each for itself.
    pub fn short_of(&self, demand: &Demand) -> Demand {
        let gpus = Demand { gpus: demand.gpus, ..Demand::NONE };
        let has_gpus = self.find(&gpus, std::iter::empty()).is_some();
        let has_memory = demand.memory <= self.memory;
        Demand {
            cores: 0,
            gpus: if has_gpus { 0 } else { demand.gpus },
            memory: if has_memory { 0 } else { demand.memory },
        }
    }

    pub fn take(&mut self, demand: &Demand, devices: u16) {
        if self.memory != u64::MAX {
            self.memory -= demand.memory;
        }
        self.change(devices, |left| *left -= demand.share());
    }

    pub fn give_back(&mut self, demand: &Demand, devices: u16) {
        if self.memory != u64::MAX {
            self.memory += demand.memory;
        }
        self.change(devices, |left| *left += demand.share());
    }

    fn change(&mut self, devices: u16, change: impl Fn(&mut u32)) {
        let meant = |&(device, _): &(usize, &mut u32)| devices & (1 << device) != 0;
        self.gpus.iter_mut().enumerate().filter(meant).for_each(|(_, left)| change(left));
    }
}

impl Core {
    pub(crate) fn claim(&self, index: u32) -> Option<Claim> {
        let extra = self.tasks[index].extra;
        if extra == NONE { None } else { self.extras[extra].claim }
    }

    /// Gives a task memory and GPUs, if they are there.
    pub(super) fn begin_claim(&mut self, index: u32) -> bool {
        let demand = self.demand(index);
        let is_meant =
            |slot: &&Slot| slot.is_idle() && slot.holder == NONE && slot.demand.is_none();
        let idle = self.live_slots().iter().filter(is_meant);
        let bound = idle.map(|slot| slot.devices).filter(|&set| set != 0);
        let Some(devices) = self.demands.claims.find(&demand, bound) else { return false };
        self.demands.claims.take(&demand, devices);
        let extra = self.tasks[index].extra;
        self.extras[extra].claim = Some(Claim { devices });
        if demand.gpus > 0 || demand.memory > 0 {
            self.demands.served_at = self.now;
        }
        true
    }

    /// Takes everything back that the task of a side record has, if it has anything.
    pub(crate) fn end_claim(&mut self, extra: u32) {
        let (index, demand) = (self.extras[extra].task, self.extras[extra].demand);
        let Some(claim) = self.extras[extra].claim.take() else { return };
        self.demands.claims.give_back(&demand, claim.devices);
        for slot in self.slots.iter_mut().filter(|slot| slot.holder == index) {
            slot.holder = NONE;
        }
        // Several workers may have nothing to do now.
        self.has_fresh = true;
        self.contexts.note_news();
    }
}

impl Claim {
    /// What the worker is told.
    pub fn equipment(&self, demand: &Demand) -> Equipment {
        Equipment { devices: self.devices, places: demand.places() }
    }
}
