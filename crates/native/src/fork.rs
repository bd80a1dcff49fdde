//! Whether this process is a forked child of the one that made an engine: then the engine is not touched, whose mutexes
//! may be locked for ever and whose rings are not mapped here.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that loaded the module.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    // Relaxed without a partner: a forked child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Begins to notice forks; called once, when the module is loaded.
pub fn watch() {
    // SAFETY: the handler only changes a counter.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// The generation of this process: another one than an engine's means that the engine is the parent's.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
