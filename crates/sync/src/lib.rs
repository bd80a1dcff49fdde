//! Atomics, barriers, futex, clock, timer slack, fork detection, random source and signal handling for all other crates.
//!
//! With `--cfg gristmill_loom` the same names mean loom's types, so the code that ships is the code that is
//! model-checked. The clock and the random source stay real under loom; models do not use them.
//! Data structures are not here: a barrier or a futex alone proves nothing, and their protocols live in `shm`.

pub mod barrier;
pub mod clock;
pub mod futex;
#[cfg(target_os = "linux")]
pub mod job_signals;
pub mod process;
pub mod random;
pub mod signals;
pub mod slack;

/// Atomic integers and fences.
pub mod atomic {
    #[cfg(gristmill_loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(not(gristmill_loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
}

/// The hint that a polling loop gives to the processor.
pub mod hint {
    #[cfg(gristmill_loom)]
    pub use loom::hint::spin_loop;
    #[cfg(not(gristmill_loom))]
    pub use std::hint::spin_loop;
}

/// Threads for models and tests that run with and without loom.
pub mod thread {
    #[cfg(gristmill_loom)]
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    #[cfg(not(gristmill_loom))]
    pub use std::thread::{JoinHandle, spawn, yield_now};
}
