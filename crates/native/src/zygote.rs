//! The zygote's part of `gristmill._zygote`: the fork of candidates for workers, and a candidate's wait.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use gristmill_client::THREADED_EXIT_CODE;
use gristmill_keeper::{AtWork, Candidate, WorkerSetup, Zygote, ZygoteStep, become_worker};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::double_fork::{Forked, fork_away};

/// Descriptors that no program run by a task may inherit: the segment, the arena, the client's event, the caller's world.
const CLOSE_ON_EXEC: [RawFd; 4] = [4, 5, 6, 7];

/// The zygote of a keeper; becomes the worker in the processes that it forks.
#[pyclass(name = "Zygote", module = "gristmill._native")]
pub struct PyZygote {
    role: Role,
    keeper: i32,
}

enum Role {
    Zygote(Zygote),
    /// What it drops once the worker is at work.
    Worker {
        _birth: Option<AtWork>,
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
        // SAFETY: plain calls; the number is the zygote's own by agreement with the keeper.
        let (control, keeper) = unsafe {
            if libc::fcntl(control, libc::F_SETFD, libc::FD_CLOEXEC) < 0 {
                return Err(PyOSError::new_err(std::io::Error::last_os_error()));
            }
            (OwnedFd::from_raw_fd(control), libc::getppid())
        };
        Ok(Self { role: Role::Zygote(Zygote::new(control)), keeper })
    }

    /// Tells the keeper that workers can be asked for.
    fn announce(&self) -> PyResult<()> {
        match &self.role {
            Role::Zygote(zygote) => zygote.announce().map_err(failed),
            Role::Worker { .. } => Err(not_a_zygote()),
        }
    }

    /// Forks what the keeper asks for. Returns in each worker, with its slot and epoch, once it is announced; in the zygote,
    /// and in a candidate that is not needed any more, with `None`.
    ///
    /// `prepare` is called in each candidate before it waits; `warm_up` in the zygote once the first workers are under way,
    /// until it says that nothing is left to do; `is_threaded` before each fork: beside other threads there is none, and the
    /// process leaves with a code that says so.
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
                    // SAFETY: the process ends; what it has written is the kernel's.
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
            match fork_away() {
                Forked::Parent(0) => zygote.adopt(ours),
                Forked::Parent(errno) => zygote.give_up(errno).map_err(failed)?,
                Forked::Child { middle } => {
                    drop(ours);
                    return self.become_candidate(theirs, middle, prepare);
                }
            }
        }
    }

    /// Says that the worker is at work.
    fn at_work(&mut self) {
        self.role = Role::Worker { _birth: None };
    }
}

impl PyZygote {
    fn become_candidate(
        &mut self,
        line: OwnedFd,
        middle: i32,
        prepare: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(u16, u32)>> {
        let Role::Zygote(zygote) = std::mem::replace(&mut self.role, Role::Worker { _birth: None })
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
        let Some((worker, birth)) = candidate.wait().map_err(failed)? else { return Ok(None) };
        self.role = Role::Worker { _birth: Some(birth) };
        Ok(Some((worker.slot.0, worker.epoch.0)))
    }
}

fn not_a_zygote() -> PyErr {
    PyRuntimeError::new_err("this process is no zygote any more")
}
