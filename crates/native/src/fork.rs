//! Whether this process is a forked child: then no engine of its parent is touched, whose mutexes may be locked for ever.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CHILD: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    // Relaxed without a partner: a forked child has one thread.
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Begins to notice forks.
pub fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler only stores a flag.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Whether this process was forked since [`watch`]. An engine made in it later does not know the difference, so a child
/// that makes its own calls [`forget`] first.
#[inline]
pub fn is_forked_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}
