//! Dead children of this process: how they are found and reaped.

use crate::status::{ExitStatus, Usage};

/// Returns true if a process is an unreaped child of this one, dead or alive.
pub(super) fn is_child(pid: i32) -> bool {
    look(libc::P_PID, u32::try_from(pid).unwrap_or(0)).is_some()
}

/// Returns a child that is dead and not reaped.
pub(super) fn dead_child() -> Option<i32> {
    look(libc::P_ALL, 0).filter(|pid| *pid > 0)
}

/// Finds a dead child without reaping it: `None` if there are no children at all, 0 if none of them is dead.
fn look(which: libc::idtype_t, id: libc::id_t) -> Option<i32> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure is zeroed, and the kernel leaves it so if no child is dead. It outlives the calls, and the
    // field read is one that waitid fills.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let found = libc::waitid(which, id, &raw mut info, flags);
        (found == 0).then(|| info.si_pid())
    }
}

/// Reaps a dead child.
pub(super) fn bury(pid: i32) -> Option<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: the structures outlive the call; zeros are valid for both.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let reaped = libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage);
        (reaped == pid).then(|| (ExitStatus::from_wait(status), Usage::from_rusage(&usage)))
    }
}

/// Reaps all dead children without reporting them, because the tree is ending.
pub(super) fn discard_all() {
    while let Some(pid) = dead_child() {
        if bury(pid).is_none() {
            return;
        }
    }
}
