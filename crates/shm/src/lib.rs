//! Rings of records between two processes, the doorbell beside them and how long to look before sleeping on it, the
//! segment that holds them, and the arena for what is too large for a ring.
//!
//! Guarantees: a record is seen whole or not at all; no write to a ring and no wake-up is lost; after
//! a worker's death it is known which records had started. Bytes that come out of shared memory are
//! validated and never cause a panic or undefined behaviour: all of it is read through atomics.
//! Not here: what a record means (`wire`), who runs and who decides (`worker`, `client`).
//! The protocol and why it holds: `README.md` beside the ring.

#[cfg(not(gristmill_loom))]
mod arena;
mod batch;
mod bell;
mod progress;
mod ring;
#[cfg(not(gristmill_loom))]
mod segment;
mod window;

#[cfg(not(gristmill_loom))]
pub use arena::{
    ArenaError, BLOCK_MIN, BlockHandle, BlockPart, BlockUse, ClientArena, PAGE_SIZE, Space, Taken,
    WorkerArena, block_size,
};
pub use batch::{BatchProgress, CallWord, StopWord};
pub use bell::Bell;
pub use progress::{Claim, Fate, ProgressLine, ProgressReader, ProgressWriter, Running};
pub use ring::{
    BeginError, Consumer, Corrupt, HeapWords, LayoutError, Producer, Record, RecordWriter,
    RingLayout, RingWatch, Sequence, Tail, TakeBack, Words,
};
#[cfg(not(gristmill_loom))]
pub use segment::{
    ClientBell, ClientControl, ClientLane, Event, MappedWords, RINGS_PER_SLOT, Segment,
    SegmentError, SegmentOptions, WorkerControl, WorkerLane,
};
pub use window::{Bounds, Gaps, Window};
