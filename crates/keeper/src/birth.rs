//! What a worker does first: makes itself a child of the keeper that dies with it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use thiserror::Error;

use crate::descriptor::check;
use crate::message::WorkerKey;
use crate::process_id;
use crate::socket::send_patiently;
use crate::zygote_frame::ZygoteFrame;

/// Why a process could not become a worker.
#[derive(Debug, Error)]
pub enum BirthError {
    /// The keeper is dead, or is not the parent: the process exits.
    #[error("process {keeper} is no longer the keeper: this process is a child of {parent}")]
    KeeperGone {
        /// The process that should be the parent.
        keeper: i32,
        /// The process that is.
        parent: i32,
    },
    /// The kernel refused a call.
    #[error("a new worker's {call} failed: {source}")]
    Call {
        /// Which call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The keeper gave the zygote up.
    #[error("the keeper no longer waits for this worker: {source}")]
    Unwanted {
        /// Why the notice could not be sent.
        source: io::Error,
    },
}

impl BirthError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::KeeperGone { .. } => "worker_keeper_gone",
            Self::Call { .. } => "worker_birth_call",
            Self::Unwanted { .. } => "worker_unwanted",
        }
    }
}

/// What [`become_worker`] needs to know.
#[derive(Debug, Clone, Copy)]
pub struct WorkerSetup<'a> {
    /// The keeper: the zygote's parent, also in `GRISTMILL_KEEPER`.
    pub keeper: i32,
    /// The parent at birth: the intermediate child of a double fork, or the keeper itself after an
    /// exec.
    pub parent: i32,
    /// The writing end of the stderr pipe, to become descriptor 2; `None` where it is that already.
    pub stderr: Option<BorrowedFd<'a>>,
    /// Descriptors that no program run by a task may inherit.
    pub close_on_exec: &'a [RawFd],
}

/// Asks the kernel for SIGKILL when the keeper dies, once this process is the keeper's child.
///
/// The signal is for the death of whoever is the parent at that moment, so it must not be asked for
/// while the intermediate child still lives. That one exits at once after its fork: the wait yields
/// the processor a few times at most.
///
/// # Errors
/// The keeper is gone.
pub fn bind_to_keeper(keeper: i32, parent: i32) -> Result<(), BirthError> {
    // SAFETY: the call has no arguments.
    let current = || unsafe { libc::getppid() };
    while current() == parent && parent != keeper {
        // SAFETY: the call has no arguments.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the option takes an integer.
    let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    check(asked).map_err(|source| BirthError::Call { call: "prctl", source })?;
    let parent = current();
    if parent == keeper { Ok(()) } else { Err(BirthError::KeeperGone { keeper, parent }) }
}

/// Makes this freshly forked or executed process a worker: bound to its keeper, in a session of its
/// own, deaf to the terminal's SIGINT, with no signal blocked, writing to its stderr pipe.
///
/// Call it on the only thread, before anything of the user runs. Calling it in a session leader is
/// fine.
///
/// # Errors
/// See [`BirthError`]; the process should exit.
pub fn become_worker(setup: &WorkerSetup<'_>) -> Result<(), BirthError> {
    let failed = |call| move |source| BirthError::Call { call, source };
    if let Some(stderr) = setup.stderr {
        // SAFETY: the source is borrowed, hence open; number 2 is standard error by convention.
        check(unsafe { libc::dup2(stderr.as_raw_fd(), 2) }).map_err(failed("dup2"))?;
    }
    bind_to_keeper(setup.keeper, setup.parent)?;
    // SAFETY: the calls take an integer or nothing.
    if unsafe { libc::getsid(0) } != process_id() {
        // SAFETY: the call has no arguments.
        check(unsafe { libc::setsid() }).map_err(failed("setsid"))?;
    }
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    // SAFETY: the set is initialised by sigemptyset before it is read, and outlives the calls.
    unsafe {
        let mut nothing = std::mem::zeroed();
        libc::sigemptyset(&raw mut nothing);
        let set = libc::sigprocmask(libc::SIG_SETMASK, &raw const nothing, std::ptr::null_mut());
        check(set).map_err(failed("sigprocmask"))?;
    }
    for &descriptor in setup.close_on_exec {
        // SAFETY: a plain call on a number; one that is not open gives an error.
        let marked = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        check(marked).map_err(failed("fcntl"))?;
    }
    Ok(())
}

/// Tells the keeper that this worker lives, on the socket that the zygote left behind. Close that
/// socket afterwards.
///
/// # Errors
/// The keeper does not want it any more: the process should exit.
pub fn announce_birth(socket: BorrowedFd<'_>, worker: WorkerKey) -> Result<(), BirthError> {
    let frame = ZygoteFrame::Born { worker, pid: process_id() }.encode();
    send_patiently(socket, &frame).map_err(|source| BirthError::Unwanted { source })
}
