//! Signals of a thread.

/// Keeps signals from the calling thread: they are the business of the threads that the program made.
#[cfg(unix)]
pub fn block_all() {
    // SAFETY: the set is filled before it is read, and outlives both calls.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Other systems have no signals to keep away.
#[cfg(not(unix))]
pub fn block_all() {}
