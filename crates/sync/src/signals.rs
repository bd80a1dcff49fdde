//! Signals: which threads and processes take notice of them.

/// The process that outlasts its end, by id; 0 is none.
#[cfg(unix)]
static OUTLASTING: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Has this process go on when it is told to end (SIGTERM), with no call of it interrupted. Processes that it forks end as
/// they would have, from the first moment on, and programs that it executes inherit nothing: a handler, and not `SIG_IGN`.
#[cfg(unix)]
pub fn outlast_end() {
    // Relaxed: the handler runs in this process, or in one that begins as a copy of it.
    OUTLASTING.store(std::process::id(), std::sync::atomic::Ordering::Relaxed);
    // SAFETY: the action is filled in before the call reads it; the handler makes only calls that handlers may make.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stay as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(unix)]
extern "C" fn stay(number: libc::c_int) {
    if std::process::id() != OUTLASTING.load(std::sync::atomic::Ordering::Relaxed) {
        // SAFETY: handlers may make these calls. The signal comes again when this one returns.
        unsafe {
            libc::signal(number, libc::SIG_DFL);
            libc::raise(number);
        }
    }
}

/// Nobody is told to end that way on other systems.
#[cfg(not(unix))]
pub fn outlast_end() {}

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
