//! Shared memory between a client and its workers: rings of records, the doorbell of each ring, the time that an idle
//! thread polls before it sleeps, the segment that holds the rings, and the arena for payloads that are too large for a
//! ring.
//!
//! Guarantees: a record is seen whole or not at all; no write to a ring and no wake-up is lost; after a worker's death
//! it is known which records had started. Bytes from shared memory are validated and never cause a panic or undefined
//! behaviour: those of rings and headers are read through atomics, those of arena blocks through raw pointers.
//! The meaning of a record is defined in `wire`; tasks are scheduled by `client` and run by `worker`.
//! The protocol and its proof: `README.md` in `ring`.

#[cfg(not(gristmill_loom))]
mod arena;
mod batch;
mod bell;
mod floor;
mod progress;
mod ring;
#[cfg(not(gristmill_loom))]
mod segment;
#[cfg(not(gristmill_loom))]
mod shared;
mod window;

#[cfg(not(gristmill_loom))]
pub use arena::{
    AllocatedBlock, ArenaError, ArenaOptions, BLOCK_MIN, BlockHandle, BlockPart, BlockUse,
    ClientArena, PAGE_SIZE, RegionAllocator, SpillDirectory, SpillLog, SpillRefusal, WeakBlock,
    WorkerArena, block_size, find_spill_directory,
};
pub use batch::{BatchProgress, CallWord, StopWord};
pub use bell::Bell;
pub use floor::FloorWord;
pub use progress::{
    ClaimResult, LostRecordState, ProgressLine, ProgressReader, ProgressWriter, RunningRecord,
};
pub use ring::{
    BeginError, Consumer, Corrupt, HeapWords, LayoutError, Producer, RecordWriter, RingLayout,
    RingRecord, RingWatch, Sequence, Tail, TakeBack, Words,
};
#[cfg(not(gristmill_loom))]
pub use segment::{
    ClientBell, ClientControl, ClientEnds, EventFd, MappedWords, RINGS_PER_SLOT, Segment,
    SegmentError, SegmentOptions, WorkerControl, WorkerEnds,
};
pub use window::{Bounds, Gaps, Window};
