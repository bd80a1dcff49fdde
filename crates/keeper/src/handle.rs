//! The operations of a client on a worker's handle (a pidfd), which never refers to another process.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Upper bound of the descriptors that handles of workers leave free: enough for a program's imports and open files.
const FREE_MAX: u64 = 64;

/// Returns true if enough descriptors stay free when this process keeps the handle: a quarter of `RLIMIT_NOFILE`, at
/// most 64.
///
/// The client can do without the handle of a worker, but a program that can open no file and import no module cannot go
/// on.
#[must_use]
pub fn leaves_room(process: BorrowedFd<'_>) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct outlives the call, which fills it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return true;
    }
    // The kernel assigns the lowest free number, so the number shows how many are in use.
    let used = u64::from(process.as_raw_fd().unsigned_abs()) + 1;
    used + (limit.rlim_cur / 4).min(FREE_MAX) <= limit.rlim_cur
}

/// Sends a signal. Does nothing if the process has ended.
pub fn send_signal(process: BorrowedFd<'_>, signal: i32) {
    // SAFETY: the call takes a descriptor, a number, no information and no flags.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        );
    }
}

/// Waits until a killed process is dead, at most 5 s. Only a process that is stuck in the kernel takes longer.
pub fn wait_for_end(process: BorrowedFd<'_>) {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut poll, 1, 5000) };
}
