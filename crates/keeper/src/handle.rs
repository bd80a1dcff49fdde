//! What a client does to a worker through its handle (a pidfd), which never means another process.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Sends a signal; to a process that has ended, nothing.
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

/// Waits until a killed process is dead, at most 5 s: a kill ends every process that is not stuck in the kernel.
pub fn wait_for_end(process: BorrowedFd<'_>) {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut poll, 1, 5000) };
}
