//! The arena: where payloads are that are too large for a ring.
//!
//! One sparse file in memory for one executor, the client's. The client allocates arguments in its region; each worker
//! allocates results in its own. A block lives as long as somebody on the client's side has a handle to it: a task, a
//! Python object that views it, a worker that said it keeps it. Freed pages stay for the next block up to a bound.
//!
//! Guarantees: two blocks never overlap, whoever dies; a range from a record is used only after it was found inside of
//! a living block, or of the region of the worker that names it as new.

mod client;
mod error;
mod memory;
mod space;
mod worker;

pub use client::{BlockHandle, BlockPart, ClientArena};
pub use error::ArenaError;
pub use space::{PAGE_SIZE, Space, Taken, block_size};
pub use worker::{BlockUse, WorkerArena};

/// Smaller payloads travel in the rings: a block costs a page and a lookup, a ring a copy through the cache.
pub const BLOCK_MIN: usize = 64 << 10;

/// Free space that keeps its pages: as much as a program uses again and again, and no burden to the machine.
fn warm_max() -> u64 {
    memory::machine_memory().clamp(1 << 30, 16 << 30) / 16
}

/// What stays warm when nobody has asked for a block for a while.
const IDLE_WARM_MAX: u64 = 32 << 20;
/// How many looks without a request make an arena idle; a look comes every half second or so.
const IDLE_LOOKS: u32 = 8;
