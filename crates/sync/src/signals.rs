//! Signal handling of processes and threads.

/// Id of the process that survives SIGTERM; 0 means none.
#[cfg(unix)]
static OUTLASTING: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Makes this process survive SIGTERM. System calls that the kernel can restart go on; others, such as `poll`, return
/// `EINTR`. SIGTERM kills a forked child as usual, from the child's first moment on. A program that this process executes
/// inherits nothing, because this function installs a handler instead of `SIG_IGN`.
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

/// Handles SIGTERM: ignores it in the process that called [`outlast_end`], and kills a forked child as the default
/// action does.
#[cfg(unix)]
extern "C" fn stay(number: libc::c_int) {
    if std::process::id() != OUTLASTING.load(std::sync::atomic::Ordering::Relaxed) {
        // SAFETY: both calls are async-signal-safe. The raised signal is delivered when this handler returns.
        unsafe {
            libc::signal(number, libc::SIG_DFL);
            libc::raise(number);
        }
    }
}

/// Does nothing: only Unix has SIGTERM.
#[cfg(not(unix))]
pub fn outlast_end() {}

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
