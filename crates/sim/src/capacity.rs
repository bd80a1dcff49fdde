//! Resources of one engine, and the drawn requests of tasks for them.

use gristmill_core::{Config, Supply};
use gristmill_wire::{ResourceRequest, WHOLE_GPU};

use crate::random::{SeededRandom, pick};

/// Resources that tasks may ask of one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineCapacity {
    /// Number of workers, without spare ones.
    pub workers: u16,
    /// Resources besides workers.
    pub supply: Supply,
}

impl EngineCapacity {
    /// Returns the capacity of an engine.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        Self { workers: config.workers, supply: config.supply }
    }

    /// Draws the resources besides workers.
    pub fn draw_supply(random: &mut SeededRandom) -> Supply {
        let memory = pick(random, &[u64::MAX, 60, 100, 200]);
        Supply { memory, gpus: pick(random, &[0, 0b1, 0b11, 0b101]) }
    }

    /// Returns the NUMA nodes of the CPU slots: an even number of slots alternates between two nodes, an odd number has unknown
    /// ones.
    #[must_use]
    pub fn numa_nodes(workers: u16) -> Vec<u64> {
        if workers.is_multiple_of(2) { vec![0b01, 0b10] } else { Vec::new() }
    }

    /// Draws a request that fits in here.
    pub fn draw_demand(&self, random: &mut SeededRandom) -> ResourceRequest {
        let Supply { memory, gpus } = self.supply;
        let all = gpus.count_ones() * WHOLE_GPU;
        let cores = 1 + u16::try_from(random.below(self.workers.min(3).into())).expect("small");
        let share = pick(random, &[0, 0, 250, 500, WHOLE_GPU, 2 * WHOLE_GPU]).min(all);
        let memory = if random.chance(50) { 0 } else { random.below(memory.min(100)) + 1 };
        ResourceRequest { cores: if random.chance(50) { 0 } else { cores }, gpus: share, memory }
    }
}
