//! The NUMA nodes and GPUs that the workers of each CPU slot are bound to, and the choice of CPU slots and GPUs for a lease.
//!
//! Guarantees: a lease gets CPU slots whose GPUs no other lease was granted, as long as enough of these slots are free. It
//! first gets the GPUs that its CPU slots are pinned to. GPUs that other CPU slots are pinned to are granted only to a
//! client that requests a number of GPUs.

use gristmill_client::pick_near;
use gristmill_wire::GPUS_MAX;

/// The NUMA nodes and pinned GPUs of each CPU slot. An empty list binds no worker.
#[derive(Debug, Clone, Default)]
pub struct CpuSlotAffinity {
    /// The NUMA nodes of each CPU slot, one bit each.
    pub numa_nodes: Vec<u64>,
    /// The GPUs that the worker of each CPU slot is pinned to, one bit each.
    pub pins: Vec<u16>,
}

/// The GPUs that a lease may get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreeGpus {
    /// GPUs that no lease was granted, one bit each.
    pub free: u16,
    /// GPUs that the CPU slots of other leases are pinned to, one bit each. These leases need not have been granted them.
    pub used: u16,
}

impl CpuSlotAffinity {
    /// Returns `count` of the free CPU slots: first those whose GPUs no lease was granted, NUMA-local if possible.
    pub(crate) fn pick(&self, free: &[u16], granted: u16, count: u32) -> Vec<u16> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let is_own = |cpu_slot: &u16| self.pins_of(*cpu_slot) & granted == 0;
        let (own, shared): (Vec<_>, Vec<_>) = free.iter().copied().partition(is_own);
        let mut picked = self.pick_near(&own, count);
        picked.extend(self.pick_near(&shared, count - picked.len()));
        picked
    }

    fn pick_near(&self, free: &[u16], count: usize) -> Vec<u16> {
        let numa_nodes =
            |cpu_slot: u16| self.numa_nodes.get(usize::from(cpu_slot)).copied().unwrap_or(0);
        let free: Vec<_> = free.iter().map(|&one| (usize::from(one), numa_nodes(one))).collect();
        let picked = pick_near(&free, count).into_iter();
        picked.map(|cpu_slot| u16::try_from(cpu_slot).unwrap_or(u16::MAX)).collect()
    }

    /// Returns `count` GPUs for a lease with these CPU slots, one bit each. Without a `count`, returns all free GPUs that
    /// these CPU slots, or no CPU slot at all, are pinned to.
    pub(crate) fn gpus(&self, cpu_slots: &[u16], gpus: FreeGpus, count: Option<u64>) -> u16 {
        let own = self.pinned(cpu_slots);
        let all = self.pins.iter().fold(0, |all, pins| all | pins);
        // The lease's own GPUs, those that no CPU slot is pinned to, those of free CPU slots, and those of other leases.
        let ranks = [own, !all, all & !gpus.used, all];
        let ranks = &ranks[..if count.is_some() { 4 } else { 2 }];
        let count = count.map_or(GPUS_MAX, |count| usize::try_from(count).unwrap_or(GPUS_MAX));
        let mut chosen = 0;
        for rank in ranks {
            let left = count - devices(chosen).count();
            let new = devices(rank & gpus.free & !chosen).take(left);
            chosen |= new.fold(0, |set, device| set | device);
        }
        chosen
    }

    /// Returns the GPUs that these CPU slots are pinned to.
    pub(crate) fn pinned(&self, cpu_slots: &[u16]) -> u16 {
        cpu_slots.iter().fold(0, |set, &cpu_slot| set | self.pins_of(cpu_slot))
    }

    fn pins_of(&self, cpu_slot: u16) -> u16 {
        self.pins.get(usize::from(cpu_slot)).copied().unwrap_or(0)
    }
}

/// Returns the GPUs of a set, each as a set of its own.
fn devices(set: u16) -> impl Iterator<Item = u16> {
    (0..GPUS_MAX).map(|device| 1 << device).filter(move |device| set & device != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns four CPU slots, each pinned to a GPU of its own.
    fn pinned() -> CpuSlotAffinity {
        CpuSlotAffinity { numa_nodes: Vec::new(), pins: vec![0b1, 0b10, 0b100, 0b1000] }
    }

    fn all_free(free: u16) -> FreeGpus {
        FreeGpus { free, used: 0 }
    }

    #[test]
    fn a_cpu_slot_whose_gpu_was_granted_comes_last() {
        assert_eq!(pinned().pick(&[0, 1, 2, 3], 0b1, 2), [1, 2]);
        assert_eq!(pinned().pick(&[0, 1], 0b1, 2), [1, 0]);
        assert_eq!(CpuSlotAffinity::default().pick(&[0, 1], 0b1, 1), [0], "nothing is pinned");
    }

    #[test]
    fn who_does_not_say_how_many_gets_no_gpu_that_others_are_pinned_to() {
        assert_eq!(pinned().gpus(&[1, 2], all_free(0b1111), None), 0b110);
        assert_eq!(pinned().gpus(&[1], all_free(0b11_1111), None), 0b11_0010);
        assert_eq!(CpuSlotAffinity::default().gpus(&[1], all_free(0b111), None), 0b111);
    }

    #[test]
    fn who_says_how_many_gets_its_own_first_and_those_of_other_leases_last() {
        let gpus = FreeGpus { free: 0b1_1111, used: 0b1 };
        assert_eq!(pinned().gpus(&[3], gpus, Some(1)), 0b1000);
        assert_eq!(pinned().gpus(&[3], gpus, Some(2)), 0b1_1000);
        assert_eq!(pinned().gpus(&[3], gpus, Some(4)), 0b1_1110);
        assert_eq!(pinned().gpus(&[3], gpus, Some(9)), 0b1_1111);
        assert_eq!(pinned().gpus(&[3], gpus, Some(0)), 0);
    }
}
