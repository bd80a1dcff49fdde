//! Reaps children: workers, zygotes, and the orphans of everything below.

use std::os::fd::AsRawFd;

use super::Server;
use crate::message::WorkerKey;
use crate::status::{ExitStatus, Usage};

/// Whose death a reaped child's is.
enum Role {
    Worker(WorkerKey),
    Zygote(u32),
    Orphan,
}

impl Server {
    /// Reaps everything that is dead.
    ///
    /// A dead child is looked at before it is reaped, as long as its id belongs to nobody else: a
    /// worker that died at once may have announced itself on a socket that was not read yet.
    pub(super) fn reap(&mut self) {
        self.drain_signals();
        while let Some(pid) = dead_child() {
            let mut role = self.role(pid);
            if matches!(role, Role::Orphan) {
                let zygotes: Vec<u32> = self.zygotes.keys().copied().collect();
                zygotes.into_iter().for_each(|zygote| self.serve_zygote(zygote));
                role = self.role(pid);
            }
            let Some((status, usage)) = bury(pid) else { continue };
            self.hunts.iter_mut().for_each(|hunt| hunt.forget(pid));
            match role {
                Role::Worker(key) => self.worker_ended(key, status, usage),
                Role::Zygote(id) => self.zygote_ended(id, status),
                Role::Orphan => {}
            }
        }
    }

    fn role(&self, pid: i32) -> Role {
        if let Some((&key, _)) = self.workers.iter().find(|(_, worker)| worker.pid == pid) {
            return Role::Worker(key);
        }
        match self.zygotes.iter().find(|(_, zygote)| zygote.pid == pid) {
            Some((&id, _)) => Role::Zygote(id),
            None => Role::Orphan,
        }
    }

    fn drain_signals(&self) {
        let mut buffer = [0_u8; 4 * size_of::<libc::signalfd_siginfo>()];
        loop {
            // SAFETY: pointer and size describe the buffer, which outlives the call.
            let count = unsafe {
                libc::read(self.signals.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len())
            };
            if count <= 0 {
                return;
            }
        }
    }
}

/// Whether a process is a child of this one, dead or alive, and not reaped.
pub(super) fn is_child(pid: i32) -> bool {
    look(libc::P_PID, u32::try_from(pid).unwrap_or(0)).is_some()
}

/// A child that is dead and not reaped.
fn dead_child() -> Option<i32> {
    look(libc::P_ALL, 0).filter(|pid| *pid > 0)
}

/// Looks for dead children without reaping: `None` if there are no children at all, 0 if none of
/// them is dead.
fn look(which: libc::idtype_t, id: libc::id_t) -> Option<i32> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the structure is zeroed, which the kernel leaves so when no child is dead, and
    // outlives the calls; the field read is the one that waitid fills.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let found = libc::waitid(which, id, &raw mut info, flags);
        (found == 0).then(|| info.si_pid())
    }
}

/// Reaps a dead child.
fn bury(pid: i32) -> Option<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: the structures outlive the call; zeros are valid for both.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let reaped = libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage);
        (reaped == pid).then(|| (ExitStatus::from_wait(status), Usage::from_rusage(&usage)))
    }
}

/// Reaps everything that is dead and tells nobody: the tree is ending.
pub(super) fn discard_all() {
    while let Some(pid) = dead_child() {
        if bury(pid).is_none() {
            return;
        }
    }
}
