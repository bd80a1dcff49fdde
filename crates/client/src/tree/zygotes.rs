//! The processes that workers are forked from: one for workers without a context, one for each context.

use std::collections::BTreeMap;

use gristmill_core::LossCause;
use gristmill_keeper::{ExitStatus, WorkerKey, ZygoteEnd};
use gristmill_wire::ContextId;

use super::loading_file::LoadingFile;
use crate::outcome::cause_text;

/// Exit code of a zygote that found other threads in its process: a fork would copy locks that no thread releases.
pub const THREADED_EXIT_CODE: i32 = 86;
/// Exit code of a process whose setup raised; its last lines on standard error are the traceback.
pub const SETUP_EXIT_CODE: i32 = 87;
/// Signal that ends a process whose setup exceeds its time limit: no Python has to run for that. Neither the kernel nor any
/// library sends it; `SIGALRM` is left to the setup.
pub const SETUP_ALARM: i32 = libc::SIGSTKFLT;

/// A zygote, or the entry for one.
#[derive(Debug, Default)]
pub(super) struct Zygote {
    /// Number of the zygote's process; each new process gets another number.
    pub number: u32,
    pub state: ZygoteState,
    /// Time at which the zygote was requested, nanoseconds.
    pub since: u64,
    /// Workers to fork once the zygote is ready.
    pub waiting: Vec<WorkerKey>,
    /// True if the zygote cannot be forked: its workers are interpreters of their own.
    pub spawns_fresh: bool,
    /// True if the zygote has to end as soon as it has forked the waiting workers.
    pub is_unneeded: bool,
    /// File in which the zygote records what it loads while it starts.
    pub loading: Option<LoadingFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ZygoteState {
    #[default]
    Absent,
    Starting,
    Ready,
}

/// All zygotes.
#[derive(Debug, Default)]
pub(super) struct Zygotes {
    table: BTreeMap<ContextId, Zygote>,
    last: u32,
}

impl Zygotes {
    /// Returns the zygote of a context; that of context 0 is for workers without a context.
    pub fn get(&mut self, context: ContextId) -> &mut Zygote {
        self.table.entry(context).or_default()
    }

    /// Returns the number of a new process.
    pub fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Returns the zygote whose process has a number, with its context.
    pub fn find(&mut self, number: u32) -> Option<(ContextId, &mut Zygote)> {
        let found = self.table.iter_mut().find(|(_, zygote)| zygote.number == number);
        found.map(|(&context, zygote)| (context, zygote))
    }

    /// Removes the zygote of a context that is not needed any more. Returns the number of its process if it is ready. A
    /// starting zygote stays until it has forked the workers that wait for it.
    pub fn remove(&mut self, context: ContextId) -> Option<u32> {
        let zygote = self.table.get_mut(&context)?;
        if zygote.state == ZygoteState::Starting {
            zygote.is_unneeded = true;
            return None;
        }
        let zygote = self.table.remove(&context)?;
        (zygote.state != ZygoteState::Absent).then_some(zygote.number)
    }

    /// Returns the module that a starting zygote loads, if one is recorded.
    pub fn loading(&self) -> Option<String> {
        let starts = |zygote: &&Zygote| zygote.state == ZygoteState::Starting;
        self.table.values().filter(starts).find_map(|zygote| zygote.loading.as_ref()?.read())
    }

    /// Marks all zygotes as dead, as they die with the keeper.
    pub fn lose_all(&mut self) {
        for zygote in self.table.values_mut() {
            zygote.state = ZygoteState::Absent;
            zygote.waiting.clear();
        }
    }
}

/// A zygote that ended before it was ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZygoteStartFailure<'a> {
    pub end: ZygoteEnd,
    /// Name of the context that the zygote was to set up.
    pub context: Option<&'a str>,
    /// Text for the module that the zygote was loading, such as "importing module numpy".
    pub loading: Option<&'a str>,
    pub interpreter: &'a str,
    pub stderr_tail: &'a [u8],
}

impl ZygoteStartFailure<'_> {
    /// Returns the text that tells how the zygote ended.
    pub fn text(&self) -> String {
        let how = match self.end {
            ZygoteEnd::NotStarted { errno } => {
                let reason = std::io::Error::from_raw_os_error(errno);
                format!("the interpreter {} cannot be run: {reason}", self.interpreter)
            }
            ZygoteEnd::Exited(status) => self.how_it_ended(status),
        };
        let tail = String::from_utf8_lossy(self.stderr_tail);
        if tail.is_empty() { how } else { format!("{how}:\n{tail}") }
    }

    fn how_it_ended(&self, status: ExitStatus) -> String {
        let doing = self.loading.map_or_else(String::new, |loading| format!(" while {loading}"));
        match (self.context, status) {
            (None, ExitStatus::Signal { signal: SETUP_ALARM, .. }) => format!(
                "the process that workers are forked from was not ready in time and was stopped{doing}"
            ),
            (None, _) => {
                let doing = if doing.is_empty() { " while it started" } else { &doing };
                format!("the process that workers are forked from ended with {status}{doing}")
            }
            (Some(name), ExitStatus::Code(SETUP_EXIT_CODE)) => {
                format!("the setup of context {name:?} failed")
            }
            (Some(name), ExitStatus::Signal { signal: SETUP_ALARM, .. }) => {
                format!(
                    "context {name:?} was not set up in time, and its process was stopped{doing}"
                )
            }
            (Some(name), ExitStatus::Signal { signal: libc::SIGKILL, .. }) => format!(
                "the process that set up context {name:?} was killed{doing}, perhaps because memory was short"
            ),
            (Some(name), ExitStatus::Signal { signal, .. }) => format!(
                "the process that set up context {name:?} {}{doing}",
                cause_text(LossCause::Signal(signal))
            ),
            (Some(name), _) => {
                format!("the process that set up context {name:?} ended with {status}{doing}")
            }
        }
    }
}

/// Returns true if another try would end in the same way: the process ended by itself or exceeded its time. A process that was
/// killed may succeed in another try.
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
        let died = |end, context, loading| {
            ZygoteStartFailure { end, context, loading, interpreter: "python", stderr_tail: b"" }
                .text()
        };
        let raised = ZygoteEnd::Exited(ExitStatus::Code(SETUP_EXIT_CODE));
        let of_setup = |end| ZygoteStartFailure {
            end,
            context: Some("model"),
            loading: None,
            interpreter: "python",
            stderr_tail: b"ValueError: no weights",
        };
        let text = of_setup(raised).text();
        assert_eq!(text, "the setup of context \"model\" failed:\nValueError: no weights");
        assert!(is_final(raised) && is_final(signal(SETUP_ALARM)));
        assert!(!is_final(signal(libc::SIGKILL)), "perhaps because memory was short, just now");
        let killed = died(signal(libc::SIGKILL), Some("model"), None);
        assert!(
            killed.ends_with("context \"model\" was killed, perhaps because memory was short"),
            "{killed}"
        );
        let late = died(signal(SETUP_ALARM), Some("model"), Some("importing module numpy"));
        assert!(
            late.ends_with(
                "set up in time, and its process was stopped while importing module numpy"
            ),
            "{late}"
        );
        let crashed = died(signal(libc::SIGSEGV), Some("model"), None);
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
