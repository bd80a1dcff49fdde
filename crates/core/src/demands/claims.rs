//! Resources besides workers: the supply, and the part of it that is free.

use gristmill_wire::{GPUS_MAX, ResourceGrant, ResourceRequest, WHOLE_GPU};

use crate::slots::Slot;
use crate::supply::Supply;
use crate::{Core, NONE};

/// Resources that are free, also where a field of this type is called `claims`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FreeResources {
    memory: u64,
    /// Free thousandths of each GPU.
    gpus: [u32; GPUS_MAX],
}

/// GPUs of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuAllocation {
    /// The GPUs, one bit for each.
    pub devices: u16,
}

impl FreeResources {
    pub fn new(supply: &Supply) -> Self {
        let mut gpus = [0; GPUS_MAX];
        for (device, left) in gpus.iter_mut().enumerate() {
            if supply.gpus & (1 << device) != 0 {
                *left = WHOLE_GPU;
            }
        }
        Self { memory: supply.memory, gpus }
    }

    /// Returns the GPUs for a task if everything it requests is free: the fullest GPU that has room for a share, or the
    /// first whole ones. `bound` lists the GPU sets of idle workers. One of them is taken if it packs as tightly, because
    /// its worker need not be replaced.
    pub fn find(
        &self,
        demand: &ResourceRequest,
        mut bound: impl Iterator<Item = u16>,
    ) -> Option<u16> {
        if demand.memory > self.memory {
            return None;
        }
        let count = demand.devices();
        let has_room = |device: &usize| self.gpus[*device] >= demand.share();
        let mut devices: Vec<usize> = (0..GPUS_MAX).filter(has_room).collect();
        devices.sort_by_key(|&device| self.gpus[device]);
        let tightest = devices.get(..count as usize)?;
        let left_of_tightest: u32 = tightest.iter().map(|&device| self.gpus[device]).sum();
        let packs_as_tightly = |set: &u16| {
            let members = (0..GPUS_MAX).filter(|device| set & (1 << device) != 0);
            set.count_ones() == count
                && members.clone().all(|device| has_room(&device))
                && members.map(|device| self.gpus[device]).sum::<u32>() == left_of_tightest
        };
        let reused = if count > 0 { bound.find(packs_as_tightly) } else { None };
        reused.or_else(|| Some(tightest.iter().fold(0, |set, device| set | (1 << device))))
    }

    /// Returns the part of a request that is not free. Checks each resource separately.
    pub fn short_of(&self, demand: &ResourceRequest) -> ResourceRequest {
        let gpus = ResourceRequest { gpus: demand.gpus, ..ResourceRequest::NONE };
        let has_gpus = self.find(&gpus, std::iter::empty()).is_some();
        let has_memory = demand.memory <= self.memory;
        ResourceRequest {
            cores: 0,
            gpus: if has_gpus { 0 } else { demand.gpus },
            memory: if has_memory { 0 } else { demand.memory },
        }
    }

    pub fn take(&mut self, demand: &ResourceRequest, devices: u16) {
        if self.memory != u64::MAX {
            self.memory -= demand.memory;
        }
        self.change(devices, |left| *left -= demand.share());
    }

    pub fn give_back(&mut self, demand: &ResourceRequest, devices: u16) {
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
    pub(crate) fn claim(&self, index: u32) -> Option<GpuAllocation> {
        let extra = self.tasks[index].extra;
        if extra == NONE { None } else { self.extras[extra].claim }
    }

    /// Claims memory and GPUs for a task. Returns false if they are not free.
    pub(super) fn begin_claim(&mut self, index: u32) -> bool {
        let demand = self.demand(index);
        let is_meant =
            |slot: &&Slot| slot.is_idle() && slot.holder == NONE && slot.demand.is_none();
        let idle = self.live_slots().iter().filter(is_meant);
        let bound = idle.map(|slot| slot.devices).filter(|&set| set != 0);
        let Some(devices) = self.demands.claims.find(&demand, bound) else { return false };
        self.demands.claims.take(&demand, devices);
        let extra = self.tasks[index].extra;
        self.extras[extra].claim = Some(GpuAllocation { devices });
        if demand.gpus > 0 || demand.memory > 0 {
            self.demands.served_at = self.now;
        }
        true
    }

    /// Releases the resources and the held slots of a task, given by its side record. Does nothing if the task has none.
    pub(crate) fn end_claim(&mut self, extra: u32) {
        let (index, demand) = (self.extras[extra].task, self.extras[extra].demand);
        let Some(claim) = self.extras[extra].claim.take() else { return };
        self.demands.claims.give_back(&demand, claim.devices);
        for slot in self.slots.iter_mut().filter(|slot| slot.holder == index) {
            slot.holder = NONE;
        }
        // Several workers may be idle now.
        self.has_fresh = true;
        self.contexts.mark_changed();
    }
}

impl GpuAllocation {
    /// Returns the grant that is sent to the worker.
    pub fn grant(&self, demand: &ResourceRequest) -> ResourceGrant {
        ResourceGrant { devices: self.devices, places: demand.places() }
    }
}
