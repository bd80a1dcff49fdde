//! Reads the kernel's table of processes: who is whose child, in which session, with which
//! environment.

use std::fs;

/// One process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// When it started, clock ticks since the machine did: tells two processes with one id apart.
    pub(crate) start: u64,
    /// Whether it is dead and only waits to be reaped.
    pub(crate) dead: bool,
}

impl Process {
    /// Looks one process up.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a line of `stat`. The name in the second field may hold anything, so fields are
    /// counted behind its end.
    fn parse(line: &[u8]) -> Option<Self> {
        let name_start = line.iter().position(|&byte| byte == b'(')?;
        let name_end = line.iter().rposition(|&byte| byte == b')')?;
        let pid = std::str::from_utf8(line.get(..name_start)?).ok()?.trim().parse().ok()?;
        let rest = std::str::from_utf8(line.get(name_end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self { pid, parent, session, start, dead: matches!(state, "Z" | "X" | "x") })
    }
}

/// All processes that this one can see; empty where `/proc` is not mounted.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Process::read).collect()
}

/// Whether a process was started with exactly this `NAME=value`. No, where its environment cannot
/// be read.
pub(crate) fn started_with(pid: i32, variable: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|item| item == variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_process_name_does_not_shift_the_fields() {
        let line = b"42 (a) R 1 1 (b) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1000 1";
        let expected = Process { pid: 42, parent: 7, session: 41, start: 12345, dead: false };
        assert_eq!(Process::parse(line), Some(expected));
    }

    #[test]
    fn lines_that_are_no_process_are_refused() {
        assert_eq!(Process::parse(b""), None);
        assert_eq!(Process::parse(b"42 (x"), None);
        assert_eq!(Process::parse(b")("), None);
        assert_eq!(Process::parse(b"42 (x) S 1"), None);
    }

    #[test]
    fn this_process_is_in_the_table_with_its_parent_and_session() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let found = all().into_iter().find(|process| process.pid == pid).unwrap();
        assert_eq!(u32::try_from(found.parent), Ok(std::os::unix::process::parent_id()));
        // SAFETY: the call takes an integer and touches no memory.
        assert_eq!(found.session, unsafe { libc::getsid(0) });
        assert!(!found.dead);
    }
}
