//! The zygote's part of `gristmill._zygote`: it forks candidates for workers, and a candidate waits for its worker's
//! start.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use gristmill_client::THREADED_EXIT_CODE;
use gristmill_keeper::{AtWork, Candidate, WorkerSetup, Zygote, ZygoteStep, become_worker};
use gristmill_sync::job_signals::Held;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::double_fork::{Forked, fork_away};

/// Descriptors that no program run by a task may inherit: the segment, the arena and its file on disk, the client's
/// event, the caller's worker environment.
const CLOSE_ON_EXEC: [RawFd; 5] = [4, 5, 6, 7, 8];

/// The zygote of a keeper; in the processes that it forks it becomes the worker.
#[pyclass(name = "Zygote", module = "gristmill._native")]
pub struct PyZygote {
    role: Role,
    keeper: i32,
}

enum Role {
    Zygote(Zygote),
    /// A worker, with the guard that it drops once it is at work.
    Worker {
        _at_work: Option<AtWork>,
    },
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

#[pymethods]
impl PyZygote {
    /// Takes over the socket to the keeper, which is the parent.
    #[new]
    fn new(control: RawFd) -> PyResult<Self> {
        // SAFETY: plain calls; by agreement with the keeper the descriptor belongs to the zygote.
        let (control, keeper) = unsafe {
            if libc::fcntl(control, libc::F_SETFD, libc::FD_CLOEXEC) < 0 {
                return Err(PyOSError::new_err(std::io::Error::last_os_error()));
            }
            (OwnedFd::from_raw_fd(control), libc::getppid())
        };
        Ok(Self { role: Role::Zygote(Zygote::new(control)), keeper })
    }

    /// Tells the keeper that it can request workers.
    fn announce(&self) -> PyResult<()> {
        match &self.role {
            Role::Zygote(zygote) => zygote.announce().map_err(failed),
            Role::Worker { .. } => Err(not_a_zygote()),
        }
    }

    /// Forks the processes that the keeper requests. Returns in each worker, with its slot and epoch, once the keeper
    /// knows of it; in the zygote, and in a candidate that is no longer needed, with `None`.
    ///
    /// `prepare` is called in each candidate before it waits. `warm_up` is called in the zygote once the first workers
    /// are being started, until it returns false. `is_threaded` is called before each fork: if the process has other
    /// threads, it does not fork, and exits with a code for that case.
    fn serve(
        &mut self,
        prepare: &Bound<'_, PyAny>,
        warm_up: &Bound<'_, PyAny>,
        is_threaded: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(u16, u32)>> {
        let Role::Zygote(zygote) = &mut self.role else { return Err(not_a_zygote()) };
        loop {
            match zygote.next_step().map_err(failed)? {
                ZygoteStep::Exit => return Ok(None),
                ZygoteStep::Look => {
                    prepare.py().check_signals()?;
                    continue;
                }
                ZygoteStep::WarmUp => {
                    if !warm_up.call0()?.is_truthy()? {
                        zygote.finish_warming();
                    }
                    continue;
                }
                ZygoteStep::Fork if is_threaded.call0()?.is_truthy()? => {
                    // SAFETY: the process ends; the kernel has everything that it has written.
                    unsafe { libc::_exit(THREADED_EXIT_CODE) }
                }
                ZygoteStep::Fork => {}
            }
            let (ours, theirs) = match Zygote::new_line() {
                Ok(ends) => ends,
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EMFILE);
                    zygote.give_up(errno).map_err(failed)?;
                    continue;
                }
            };
            // A signal that comes before the new process knows its program would end it.
            let held = Held::new();
            match fork_away() {
                Forked::Parent(0) => zygote.adopt(ours),
                Forked::Parent(errno) => zygote.give_up(errno).map_err(failed)?,
                Forked::Child { middle } => {
                    std::mem::forget(held); // becoming a worker allows all signals
                    drop(ours);
                    return self.become_candidate(theirs, middle, prepare);
                }
            }
        }
    }

    /// Reports that the worker is at work.
    fn at_work(&mut self) {
        self.role = Role::Worker { _at_work: None };
    }
}

impl PyZygote {
    fn become_candidate(
        &mut self,
        line: OwnedFd,
        middle: i32,
        prepare: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(u16, u32)>> {
        let Role::Zygote(zygote) =
            std::mem::replace(&mut self.role, Role::Worker { _at_work: None })
        else {
            return Err(not_a_zygote());
        };
        let candidate: Candidate = zygote.into_candidate(line);
        let setup = WorkerSetup {
            keeper: self.keeper,
            parent: middle,
            stderr: None,
            close_on_exec: &CLOSE_ON_EXEC,
        };
        become_worker(&setup).map_err(failed)?;
        prepare.call0()?;
        let Some((worker, at_work)) = candidate.wait().map_err(failed)? else { return Ok(None) };
        self.role = Role::Worker { _at_work: Some(at_work) };
        Ok(Some((worker.slot.0, worker.epoch.0)))
    }
}

fn not_a_zygote() -> PyErr {
    PyRuntimeError::new_err("this process has become a worker and is no longer a zygote")
}
