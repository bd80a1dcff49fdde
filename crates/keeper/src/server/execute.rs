//! The start of a program as a child of the keeper.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::descriptor::{check, duplicate, pipe};
use crate::message::{Output, Program};
use crate::process_id;
use crate::token::{KEEP_VARIABLE, KEEPER_VARIABLE, TASK_VARIABLE, TREE_VARIABLE, WORKER_VARIABLE};

/// The lowest descriptor number that is passed to a program.
const FIRST_PASSED: RawFd = 3;
/// Exit code of a child that could not execute its program. It is never read: the reason comes through the pipe.
const NOT_EXECUTED: libc::c_int = 127;

/// The environment of a new program beyond the client's [`Program`].
pub(super) struct SpawnEnvironment<'a> {
    /// Variables that replace the client's, as `NAME=value`.
    pub(super) variables: Vec<String>,
    /// Becomes descriptor 2.
    pub(super) stderr: BorrowedFd<'a>,
    /// Become descriptors 3, 4, ...
    pub(super) passed: Vec<BorrowedFd<'a>>,
    /// Limits on open descriptors to restore, if the keeper has raised its own.
    pub(super) descriptor_limit: Option<libc::rlimit>,
}

/// A child between fork and exec, or beyond.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) pid: i32,
    /// The pipe that tells if the exec succeeded.
    pub(super) outcome: Outcome,
}

/// The reading end of a pipe that exec closes, or that carries the reason of a failed exec.
#[derive(Debug)]
pub(super) struct Outcome(File);

/// The state of an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Execution {
    /// The result is not known yet.
    Pending,
    /// The program runs.
    Running,
    /// The exec failed; the error number of the failed step.
    Failed(i32),
}

impl Outcome {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Reads the state without waiting.
    pub(super) fn look(&mut self) -> Execution {
        let mut bytes = [0; 4];
        match self.0.read(&mut bytes) {
            Ok(0) => Execution::Running,
            Ok(_) => Execution::Failed(i32::from_le_bytes(bytes)),
            Err(_) => Execution::Pending,
        }
    }
}

/// The data that the child needs, allocated before the fork.
struct Plan {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
    umask: libc::mode_t,
    /// Standard output, standard error, and the passed descriptors; all above their final numbers.
    stdout: OwnedFd,
    stderr: OwnedFd,
    passed: Vec<OwnedFd>,
    outcome: OwnedFd,
    descriptor_limit: Option<libc::rlimit>,
    keeper: i32,
}

/// Forks and executes a program. An error of the exec itself comes later, through [`Outcome`].
pub(super) fn execute(program: &Program, around: SpawnEnvironment<'_>) -> io::Result<Started> {
    let (reader, writer) = pipe()?;
    let least = FIRST_PASSED + RawFd::try_from(around.passed.len()).unwrap_or(RawFd::MAX / 2);
    let stdout = match program.stdout {
        Output::Forward => duplicate(std::io::stdout().as_fd(), least)?,
        Output::Discard => duplicate(std::io::stdin().as_fd(), least)?,
    };
    let raise = |descriptor: &BorrowedFd<'_>| duplicate(*descriptor, least);
    let plan = Plan {
        arguments: strings(program.arguments.iter().cloned())?,
        environment: environment(&program.environment, around.variables)?,
        directory: directory(&program.directory)?,
        umask: program.umask,
        stdout,
        stderr: duplicate(around.stderr, least)?,
        passed: around.passed.iter().map(raise).collect::<io::Result<_>>()?,
        outcome: duplicate(writer.as_fd(), least)?,
        descriptor_limit: around.descriptor_limit,
        keeper: process_id(),
    };
    drop(writer);
    let arguments = pointers(&plan.arguments);
    let environment = pointers(&plan.environment);
    // SAFETY: this process has one thread, so the child's memory is consistent; the child ends in exec or _exit.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let error = prepare(&plan).map_or_else(
            |error| error,
            |()| {
                // SAFETY: both arrays end with a null pointer and point to strings that the plan owns.
                unsafe {
                    libc::execve(arguments[0], arguments.as_ptr(), environment.as_ptr());
                }
                io::Error::last_os_error()
            },
        );
        let bytes = error.raw_os_error().unwrap_or(0).to_le_bytes();
        // SAFETY: the bytes outlive the write; _exit does not return.
        unsafe {
            libc::write(plan.outcome.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
            libc::_exit(NOT_EXECUTED);
        }
    }
    Ok(Started { pid, outcome: Outcome(reader.into()) })
}

/// Performs the child's steps before exec.
fn prepare(plan: &Plan) -> io::Result<()> {
    reset_signals()?;
    // SAFETY: plain calls with integers, strings and structures that the plan owns.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != plan.keeper {
            libc::_exit(NOT_EXECUTED);
        }
        if let Some(limit) = &plan.descriptor_limit {
            check(libc::setrlimit(libc::RLIMIT_NOFILE, limit))?;
        }
        libc::umask(plan.umask);
        check(libc::chdir(plan.directory.as_ptr()))?;
        check(libc::dup2(plan.stdout.as_raw_fd(), 1))?;
        check(libc::dup2(plan.stderr.as_raw_fd(), 2))?;
        for (number, descriptor) in (FIRST_PASSED..).zip(&plan.passed) {
            check(libc::dup2(descriptor.as_raw_fd(), number))?;
        }
    }
    Ok(())
}

/// Resets all signals as after a fresh login: default dispositions, none blocked.
fn reset_signals() -> io::Result<()> {
    // The kernel's call, because the C library refuses to set two signals of its own, which its `posix_spawn` leaves
    // ignored in the keeper. The kernel's structure of 32 bytes: no flags, no mask, and the default action, which is 0.
    let default = [0_u64; 4];
    let mask_size = size_of::<u64>();
    // SAFETY: the structure outlives the calls, and the default action installs no handler; the set is initialised before
    // it is read. The two signals that cannot be set (SIGKILL, SIGSTOP) give errors, which are ignored.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            let former = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, former, mask_size);
        }
        let mut nothing = std::mem::zeroed();
        libc::sigemptyset(&raw mut nothing);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const nothing, std::ptr::null_mut()))?;
    }
    Ok(())
}

/// Returns the client's environment with the variables of an outer tree replaced by those of this tree.
fn environment(client: &[Vec<u8>], own: Vec<String>) -> io::Result<Vec<CString>> {
    let names = [TREE_VARIABLE, WORKER_VARIABLE, KEEPER_VARIABLE, KEEP_VARIABLE, TASK_VARIABLE];
    let is_ours = |item: &[u8]| {
        names.iter().any(|name| {
            item.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        })
    };
    let foreign = client.iter().filter(|item| !is_ours(item)).cloned();
    strings(foreign.chain(own.into_iter().map(String::into_bytes)))
}

fn directory(path: &[u8]) -> io::Result<CString> {
    let path = if path.is_empty() { b"/" } else { path };
    Ok(CString::new(path)?)
}

fn strings(items: impl Iterator<Item = Vec<u8>>) -> io::Result<Vec<CString>> {
    items.map(|item| CString::new(item).map_err(io::Error::from)).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let all = strings.iter().map(|string| string.as_ptr());
    all.chain(std::iter::once(std::ptr::null())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_trees_marks_do_not_reach_the_inner_tree() {
        let outer: Vec<Vec<u8>> = [
            b"A=1".as_slice(),
            b"GRISTMILL_TREE=old",
            b"GRISTMILL_KEEP=1",
            b"GRISTMILL_KEEPER_X=y",
        ]
        .map(<[u8]>::to_vec)
        .into();
        let found = environment(&outer, vec!["GRISTMILL_TREE=new".to_owned()]).unwrap();
        assert_eq!(
            found,
            [c"A=1", c"GRISTMILL_KEEPER_X=y", c"GRISTMILL_TREE=new"].map(CString::from)
        );
    }
}
