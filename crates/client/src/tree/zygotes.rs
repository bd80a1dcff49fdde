//! The processes that workers are forked from: one for workers without a context, one for each context.

use std::collections::BTreeMap;

use gristmill_core::LossCause;
use gristmill_keeper::{ExitStatus, WorkerKey, ZygoteEnd};
use gristmill_wire::ContextId;

use crate::outcome::cause_text;

/// What a zygote exits with that found threads beside its own: forking it would copy locks that nobody will open.
pub const THREADED_EXIT_CODE: i32 = 86;
/// What a process exits with whose setup raised; its last words are the traceback.
pub const SETUP_EXIT_CODE: i32 = 87;
/// What ends a process whose setup takes longer than it may: no Python has to run for that. Neither the kernel nor any
/// library sends it; `SIGALRM` belongs to the setup.
pub const SETUP_ALARM: i32 = libc::SIGSTKFLT;

/// One of them, or the place for it.
#[derive(Debug, Default)]
pub(super) struct Zygote {
    /// Each new process gets another number.
    pub number: u32,
    pub state: ZygoteState,
    /// When it was asked for, nanoseconds.
    pub since: u64,
    /// Workers to be forked once it is ready.
    pub waiting: Vec<WorkerKey>,
    /// It cannot be forked: workers are interpreters of their own.
    pub spawns_fresh: bool,
    /// It is to end as soon as it has forked those that wait.
    pub is_unneeded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ZygoteState {
    #[default]
    Absent,
    Starting,
    Ready,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Zygotes {
    table: BTreeMap<ContextId, Zygote>,
    last: u32,
}

impl Zygotes {
    /// The one for a context; 0 is that of no context.
    pub fn get(&mut self, context: ContextId) -> &mut Zygote {
        self.table.entry(context).or_default()
    }

    /// A number for a new process.
    pub fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Whose process has a number.
    pub fn find(&mut self, number: u32) -> Option<(ContextId, &mut Zygote)> {
        let found = self.table.iter_mut().find(|(_, zygote)| zygote.number == number);
        found.map(|(&context, zygote)| (context, zygote))
    }

    /// Removes that of a context that nobody needs any more; gives the number of its process, if it lives. One that starts
    /// is left to those that wait for it.
    pub fn remove(&mut self, context: ContextId) -> Option<u32> {
        let zygote = self.table.get_mut(&context)?;
        if zygote.state == ZygoteState::Starting {
            zygote.is_unneeded = true;
            return None;
        }
        let zygote = self.table.remove(&context)?;
        (zygote.state != ZygoteState::Absent).then_some(zygote.number)
    }

    /// All are dead, with the keeper.
    pub fn lose_all(&mut self) {
        for zygote in self.table.values_mut() {
            zygote.state = ZygoteState::Absent;
            zygote.waiting.clear();
        }
    }
}

/// How a zygote ended, in a sentence; `context` is the name of what it was to set up.
pub(super) fn obituary(
    end: ZygoteEnd,
    context: Option<&str>,
    interpreter: &str,
    stderr_tail: &[u8],
) -> String {
    let how = match end {
        ZygoteEnd::NotStarted { errno } => {
            let reason = std::io::Error::from_raw_os_error(errno);
            format!("the interpreter {interpreter} cannot be run: {reason}")
        }
        ZygoteEnd::Exited(status) => how_it_ended(status, context),
    };
    let tail = String::from_utf8_lossy(stderr_tail);
    if tail.is_empty() { how } else { format!("{how}:\n{tail}") }
}

fn how_it_ended(status: ExitStatus, context: Option<&str>) -> String {
    match (context, status) {
        (None, _) => {
            format!("the process that workers are forked from ended with {status} while it started")
        }
        (Some(name), ExitStatus::Code(SETUP_EXIT_CODE)) => {
            format!("the setup of context {name:?} failed")
        }
        (Some(name), ExitStatus::Signal { signal: SETUP_ALARM, .. }) => {
            format!("the setup of context {name:?} did not return in time and was stopped")
        }
        (Some(name), ExitStatus::Signal { signal: libc::SIGKILL, .. }) => format!(
            "the process that was to set up context {name:?} was killed, perhaps for want of memory"
        ),
        (Some(name), ExitStatus::Signal { signal, .. }) => format!(
            "the process that was to set up context {name:?} {}",
            cause_text(LossCause::Signal(signal))
        ),
        (Some(name), _) => {
            format!("the process that was to set up context {name:?} ended with {status}")
        }
    }
}

/// Whether another try would end the same way: it ended by itself, or had its time. One that was killed need not.
pub(super) fn is_final(end: ZygoteEnd) -> bool {
    !matches!(end, ZygoteEnd::Exited(ExitStatus::Signal { signal, .. }) if signal != SETUP_ALARM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn signal(signal: i32) -> ZygoteEnd {
        ZygoteEnd::Exited(ExitStatus::Signal { signal, core: false })
    }

    #[test]
    fn a_setup_that_failed_is_told_from_one_that_was_killed() {
        let raised = ZygoteEnd::Exited(ExitStatus::Code(SETUP_EXIT_CODE));
        let text = obituary(raised, Some("model"), "python", b"ValueError: no weights");
        assert_eq!(text, "the setup of context \"model\" failed:\nValueError: no weights");
        assert!(is_final(raised) && is_final(signal(SETUP_ALARM)));
        assert!(!is_final(signal(libc::SIGKILL)), "perhaps for want of memory, just now");
        let killed = obituary(signal(libc::SIGKILL), Some("model"), "python", b"");
        assert!(
            killed.ends_with("context \"model\" was killed, perhaps for want of memory"),
            "{killed}"
        );
        let late = obituary(signal(SETUP_ALARM), Some("model"), "python", b"");
        assert!(late.contains("did not return in time"), "{late}");
        let crashed = obituary(signal(libc::SIGSEGV), Some("model"), "python", b"");
        assert!(
            crashed.ends_with("context \"model\" was killed by signal 11 (SIGSEGV)"),
            "{crashed}"
        );
    }

    #[test]
    fn each_context_has_a_zygote_of_its_own() {
        let mut zygotes = Zygotes::default();
        let context = ContextId(3);
        let number = zygotes.next_number();
        *zygotes.get(context) = Zygote { number, state: ZygoteState::Ready, ..Zygote::default() };
        assert_eq!(zygotes.get(ContextId(0)).state, ZygoteState::Absent);
        assert_eq!(zygotes.find(number).map(|(one, _)| one), Some(context));
        assert_eq!(zygotes.remove(context), Some(number));
        assert!(zygotes.find(number).is_none());
    }

    #[test]
    fn a_zygote_that_starts_is_left_to_those_that_wait_for_it() {
        let mut zygotes = Zygotes::default();
        let context = ContextId(3);
        zygotes.get(context).state = ZygoteState::Starting;
        assert_eq!(zygotes.remove(context), None);
        assert!(zygotes.get(context).is_unneeded);
    }
}
