//! The exit status and the resource usage of a process.

use std::fmt;

use crate::signal_name::signal_name;

/// The exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The process exited by itself with this code.
    Code(i32),
    /// A signal ended the process.
    Signal {
        /// The number of the signal.
        signal: i32,
        /// True if the kernel wrote a core image.
        core: bool,
    },
    /// Other code in this process reaped it first (`waitpid(-1)`, or SIGCHLD set to be ignored).
    Unknown,
}

impl ExitStatus {
    /// Converts the status word of `wait4`.
    pub(crate) fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }

    /// Returns true if SIGKILL ended the process, as the kernel's out-of-memory killer does, among others.
    #[must_use]
    pub fn is_sigkill(self) -> bool {
        matches!(self, Self::Signal { signal: libc::SIGKILL, .. })
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal { signal, core } => {
                let core = if *core { ", core dumped" } else { "" };
                write!(f, "signal {signal} ({}{core})", signal_name(*signal))
            }
            Self::Unknown => write!(f, "an unknown status (another process reaped it)"),
        }
    }
}

/// The resource usage of a process and its reaped children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time in user code, milliseconds.
    pub user_ms: u64,
    /// Processor time in the kernel, milliseconds.
    pub sys_ms: u64,
    /// Largest resident set, KiB.
    pub max_rss_kib: u64,
}

impl Usage {
    /// Converts the report of `wait4`.
    pub(crate) fn from_rusage(usage: &libc::rusage) -> Self {
        Self {
            user_ms: milliseconds(usage.ru_utime),
            sys_ms: milliseconds(usage.ru_stime),
            max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        }
    }
}

fn milliseconds(time: libc::timeval) -> u64 {
    let whole = u64::try_from(time.tv_sec).unwrap_or(0) * 1000;
    whole + u64::try_from(time.tv_usec).unwrap_or(0) / 1000
}
