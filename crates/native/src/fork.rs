//! How often this process was forked off: an engine of another generation belongs to a parent process, whose mutexes may be
//! locked for ever here.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    // Relaxed without a partner: a forked child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Begins to count forks; once, when the module is loaded.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler only counts.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// The number of forks between the process that loaded the module and this one.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
