//! Atomics, barriers, futex, clock and random source: every other crate names them through here.
//!
//! With `--cfg gristmill_loom` the same names mean loom's types, so that the code that ships is the
//! code that is model-checked. Clock and random source stay real there; models do not use them.
//! Not here: data structures. A barrier or a futex alone proves nothing, their protocols live in `shm`.

pub mod barrier;
pub mod clock;
pub mod futex;
pub mod random;
pub mod signals;

/// Atomic integers and fences.
pub mod atomic {
    #[cfg(gristmill_loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(not(gristmill_loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// What a loop that polls tells the processor.
pub mod hint {
    #[cfg(gristmill_loom)]
    pub use loom::hint::spin_loop;
    #[cfg(not(gristmill_loom))]
    pub use std::hint::spin_loop;
}

/// Threads, for models and tests that run in both worlds.
pub mod thread {
    #[cfg(gristmill_loom)]
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    #[cfg(not(gristmill_loom))]
    pub use std::thread::{JoinHandle, spawn, yield_now};
}
