//! The first steps of a worker: it becomes a child of the keeper that dies with it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use gristmill_sync::job_signals;
use thiserror::Error;

use crate::descriptor::check;
use crate::message::WorkerKey;
use crate::process_id;
use crate::process_table::Process;
use crate::socket::send_patiently;
use crate::zygote_frame::ZygoteFrame;

/// The reason why a process could not become a worker.
#[derive(Debug, Error)]
pub enum WorkerStartError {
    /// The keeper is dead or is not the parent. The process must exit.
    #[error("process {keeper} is no longer the keeper: this process is a child of {parent}")]
    KeeperGone {
        /// The process that should be the parent.
        keeper: i32,
        /// The actual parent.
        parent: i32,
    },
    /// The kernel refused a call.
    #[error("a new worker's {call} failed: {source}")]
    Call {
        /// The name of the call.
        call: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The keeper has given the zygote up.
    #[error("the keeper no longer waits for this worker: {source}")]
    Unwanted {
        /// The error of sending the notice.
        source: io::Error,
    },
}

/// The parameters of [`become_worker`].
#[derive(Debug, Clone, Copy)]
pub struct WorkerSetup<'a> {
    /// Process id of the keeper: the zygote's parent, also in `GRISTMILL_KEEPER`.
    pub keeper: i32,
    /// Process id of the parent at the start: the intermediate child of a double fork, or the keeper itself after an exec.
    pub parent: i32,
    /// The writing end of the stderr pipe, which becomes descriptor 2; `None` if it is that already.
    pub stderr: Option<BorrowedFd<'a>>,
    /// Descriptors that no program run by a task may inherit.
    pub close_on_exec: &'a [RawFd],
}

/// Asks the kernel for SIGKILL at the keeper's death, once this process is the keeper's child.
///
/// The signal is bound to the parent at the time of the call, so it must not be requested while the intermediate child
/// still lives. That child exits at once after its fork, so the wait yields the processor only a few times.
///
/// # Errors
/// The keeper is gone.
pub fn bind_to_keeper(keeper: i32, parent: i32) -> Result<(), WorkerStartError> {
    // SAFETY: the call has no arguments.
    let current = || unsafe { libc::getppid() };
    while current() == parent && parent != keeper {
        // SAFETY: the call has no arguments.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: the option takes an integer.
    let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    check(asked).map_err(|source| WorkerStartError::Call { call: "prctl", source })?;
    let parent = current();
    if parent == keeper { Ok(()) } else { Err(WorkerStartError::KeeperGone { keeper, parent }) }
}

/// Makes this process leave the signals of its job to the program: the process that started the keeper.
pub fn leave_signals_to_program(keeper: i32) {
    job_signals::leave_to_program(Some(Process::read(keeper).map_or(0, |keeper| keeper.parent)));
}

/// Makes this freshly forked or executed process a worker: it is bound to its keeper, in a session of its own, leaves the
/// signals of its job to the program, has no signal blocked, and writes to its stderr pipe.
///
/// Call it on the only thread, before any user code runs. It may be called in a session leader.
///
/// # Errors
/// See [`WorkerStartError`]; the process should exit.
pub fn become_worker(setup: &WorkerSetup<'_>) -> Result<(), WorkerStartError> {
    let failed = |call| move |source| WorkerStartError::Call { call, source };
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
    leave_signals_to_program(setup.keeper);
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

/// Tells the keeper that this worker lives, on the socket inherited from the zygote. Close that socket afterwards.
///
/// # Errors
/// The keeper does not want the worker any more: the process should exit.
pub fn announce_start(socket: BorrowedFd<'_>, worker: WorkerKey) -> Result<(), WorkerStartError> {
    let frame = ZygoteFrame::Started { worker, pid: process_id() }.encode();
    send_patiently(socket, &frame).map_err(|source| WorkerStartError::Unwanted { source })
}
