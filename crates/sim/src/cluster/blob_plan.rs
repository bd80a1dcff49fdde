//! Choices that a seed draws for the large parts of arguments and results.

use gristmill_client::{BlobLimits, BlobSizes, BroadcastOptions, BroadcastTopology};

use crate::random::{SeededRandom, pick};
use crate::world::ProgramTask;

/// Choices of a seed for large parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlobPlan {
    pub sizes: BlobSizes,
    pub spread: BroadcastOptions,
    /// Limits of the bytes that a lease stores in memory and on disk.
    pub limits: [u64; 2],
    /// Percentage of tasks that take large arguments (`takes`) and that give large results (`gives`).
    takes: u64,
    gives: u64,
    /// Number of parts that several tasks share.
    shared: u64,
    /// Percentage of tasks with large results that return different bytes on each run.
    varies: u64,
    /// Number of pieces in a thousand that arrive with wrong bytes between nodes.
    pub damage_rate: u64,
    /// Number of result pieces in a thousand that a node sends with wrong bytes, as if its memory were damaged.
    pub lie_rate: u64,
    /// Number of turns in a thousand in which the disk fails, if the blob server has anything on disk.
    pub disk_failure_rate: u64,
}

impl BlobPlan {
    /// Draws a plan for large parts, or `None` if the seed has none.
    pub fn draw(random: &mut SeededRandom) -> Option<Self> {
        if !random.chance(25) {
            return None;
        }
        let topology = pick(
            random,
            &[BroadcastTopology::Peers, BroadcastTopology::Peers, BroadcastTopology::Client],
        );
        let fanout = pick(random, &[1, 1, 2, 3]);
        Some(Self {
            sizes: BlobSizes {
                min: pick(random, &[1, 500]),
                piece: pick(random, &[50, 300, 2_000]),
            },
            spread: BroadcastOptions { fanout, topology },
            limits: pick(random, &[[u64::MAX, 0], [0, 0], [0, 20_000], [2_000, 4_000]]),
            takes: pick(random, &[0, 30, 80]),
            gives: pick(random, &[0, 30, 80]),
            shared: pick(random, &[1, 3, 10]),
            varies: pick(random, &[0, 50]),
            damage_rate: pick(random, &[0, 0, 20, 300]),
            lie_rate: pick(random, &[0, 0, 0, 20]),
            disk_failure_rate: pick(random, &[0, 0, 5]),
        })
    }

    /// Returns the limits of the bytes that a lease may store.
    pub fn limits(&self) -> BlobLimits {
        let [memory, disk] = self.limits;
        BlobLimits { memory, disk, directory: std::env::temp_dir() }
    }

    /// Draws the large parts of a task. Only a task of the program takes large arguments.
    pub fn draw_parts(&self, entry: &mut ProgramTask, random: &mut SeededRandom) {
        if entry.is_clients() && random.chance(self.takes) {
            let count = 1 + random.below(2);
            entry.arguments = (0..count).map(|_| random.below(self.shared)).collect();
        }
        if random.chance(self.gives) {
            entry.outputs = 1 + random.below(2);
            entry.varies = random.chance(self.varies);
        }
    }
}
