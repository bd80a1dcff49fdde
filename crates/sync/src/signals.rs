//! Signal handling of threads.

/// Blocks all signals in the calling thread, so that they are delivered to the threads of the user's program.
#[cfg(unix)]
pub fn block_all() {
    // SAFETY: the set is filled before it is read, and outlives both calls.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Does nothing: only Unix has signals.
#[cfg(not(unix))]
pub fn block_all() {}
