//! The arena: storage for payloads that are too large for a ring.
//!
//! An executor's client has one sparse file in memory, and one on disk for payloads beyond the memory limit. The client
//! allocates arguments in its regions; each worker allocates results in its own. A block lives as long as a handle to
//! it exists on the client's side. A task holds one, and so does a Python object that views the block, or a worker that
//! reported it as kept. Freed pages stay for the next block up to a limit.
//!
//! Guarantees: two blocks never overlap, even after a process died. A range from a record is used only after a check
//! that it lies inside a live block, or inside the region of the worker that names it as new.

mod client;
mod disk;
mod error;
mod layout;
mod log;
mod memory;
mod pressure;
mod space;
mod worker;

pub use client::{BlockHandle, BlockPart, ClientArena, WeakBlock};
pub use disk::{SpillDirectory, SpillRefusal, find_spill_directory};
pub use error::ArenaError;
use layout::Tier;
pub use log::SpillLog;
pub use space::{AllocatedBlock, PAGE_SIZE, RegionAllocator, block_size};
pub use worker::{BlockUse, WorkerArena};

/// The limits and directories of an arena.
#[derive(Debug, Clone, Default)]
pub struct ArenaOptions {
    /// Bytes of memory; `None` means a share of the usable memory.
    pub memory: Option<u64>,
    /// Directories for payloads that do not fit into memory: the first one that is on a disk is used. If it is empty,
    /// such payloads are refused.
    pub spill: Vec<std::path::PathBuf>,
}

/// The smallest payload that gets a block, bytes. Smaller ones travel in the rings: a block costs a page and a lookup,
/// a ring costs a copy through the cache.
pub const BLOCK_MIN: usize = 64 << 10;

/// Returns the limit for free space of a region that keeps its pages: enough for the blocks that a program uses again
/// and again, without burdening the machine. The limit is lower once half of the arena's memory is taken, because
/// others need it more. `warm_size` is the current size of that space, bytes.
fn warm_max(memory: &memory::Memory, warm_size: u64) -> u64 {
    let limit = memory.limit(Tier::Memory);
    let usual = limit.min(8 << 30) / 8;
    // `resident_size` reads the entry of each slot, so it is called only for a region with much warm space.
    if warm_size > limit / 64 && memory.resident_size(Tier::Memory) > limit / 2 {
        return limit / 64;
    }
    usual
}

/// Bytes that stay warm in an idle arena.
const IDLE_WARM_MAX: u64 = 32 << 20;
/// Number of checks without an allocation after which an arena is idle; a check comes about every half second.
const IDLE_LOOKS: u32 = 8;
