//! The kernel's process table: parents, sessions and environments.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

/// Time after which a process that executes its program counts as having an empty environment. An exec takes about ten
/// microseconds if the program is in memory, more if it comes from a disk or the cores are busy.
const EXECUTION_LIMIT: Duration = Duration::from_millis(500);
/// Size of the first read of an environment, bytes: enough for nearly all of them.
const USUAL_ENVIRONMENT: usize = 1 << 14;
/// Time between two reads of the environment of a process that executes its program.
const LOOK_STEP: Duration = Duration::from_micros(200);

/// A process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Start time, clock ticks since the boot of the machine. It distinguishes two processes with one id.
    pub(crate) start: u64,
    /// True if the process is dead and only waits to be reaped.
    pub(crate) dead: bool,
}

impl Process {
    /// Reads one process.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a line of `stat`. The name in the second field may hold any bytes, so fields are counted after its end.
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

/// Returns all processes that this one can see; empty if `/proc` is not mounted.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Process::read).collect()
}

/// Returns the `NAME=value` strings that a process was started with, as they are in its memory now; empty if they
/// cannot be read.
///
/// The kernel shows none while a process executes a program: from the release of the old memory until the strings of
/// the new program are in place. The process that started the program may go on before that. The function therefore
/// retries for such a process.
pub(crate) fn environment(pid: i32) -> Vec<u8> {
    let mut end = None;
    loop {
        let Ok(text) = read_at_once(&format!("/proc/{pid}/environ")) else { return Vec::new() };
        let is_awaited = text.is_empty()
            && fs::read(format!("/proc/{pid}/stat")).is_ok_and(|line| lacks_its_environment(&line))
            && Instant::now() < *end.get_or_insert_with(|| Instant::now() + EXECUTION_LIMIT);
        if !is_awaited {
            return text;
        }
        std::thread::sleep(LOOK_STEP);
    }
}

/// Reads a file in one piece. If the process released its memory between two reads, the kernel would cut the
/// environment there.
fn read_at_once(path: &str) -> std::io::Result<Vec<u8>> {
    let mut size = USUAL_ENVIRONMENT;
    loop {
        let mut text = vec![0; size];
        let length = fs::File::open(path)?.read(&mut text)?;
        if length < size {
            text.truncate(length);
            return Ok(text);
        }
        size *= 2;
    }
}

/// Returns true if a process whose environment reads as empty has one or is about to get one, by its line of `stat`.
///
/// While the kernel executes a program it first sets `env_start` and `env_end` to one address, then copies the strings, then
/// sets `start_code`. So `start_code` is 0 until the environment is complete. Kernel threads and dead processes have no memory.
fn lacks_its_environment(line: &[u8]) -> bool {
    let memory = || {
        let name_end = line.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(line.get(name_end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace().skip(20).map(str::parse::<u64>);
        let size = fields.next()?.ok()?;
        let code = fields.nth(2)?.ok()?;
        let start = fields.nth(23)?.ok()?;
        let end = fields.next()?.ok()?;
        Some(size > 0 && (code == 0 || start < end))
    };
    memory().unwrap_or(false)
}

/// Returns the value of a variable in an environment.
pub(crate) fn value<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environment
        .split(|&byte| byte == 0)
        .find_map(|item| item.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Returns true if a process was started with exactly this `NAME=value`. Returns false if its environment cannot be
/// read.
pub(crate) fn started_with(pid: i32, variable: &[u8]) -> bool {
    environment(pid).split(|&byte| byte == 0).any(|item| item == variable)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

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
    #[test]
    fn only_a_process_with_memory_can_lack_its_environment() {
        let lacks = |size: u64, code: u64, (start, end): (u64, u64)| {
            let between = "0 ".repeat(23);
            let line = format!(
                "42 (a) b) R 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 12345 {size} 1 18446744073709551615 {code} {between}{start} \
                 {end} 0"
            );
            lacks_its_environment(line.as_bytes())
        };
        assert!(lacks(4096, 0, (0, 0)), "it executes a program");
        assert!(lacks(4096, 0, (1000, 1000)), "the kernel is writing the strings");
        assert!(lacks(4096, 500, (1000, 2000)), "the kernel has written its environment meanwhile");
        assert!(!lacks(4096, 500, (1000, 1000)), "it was given an empty one");
        assert!(!lacks(0, 0, (0, 0)), "a kernel thread, or a dead process");
        assert!(!lacks_its_environment(b"42 (a) R 1"));
    }

    /// Runs in a process of its own, because children briefly hold the descriptors that other tests have open.
    #[test]
    fn a_process_has_an_environment_also_while_it_executes_a_program() {
        const HELPER: &str = "GRISTMILL_TEST_EXECUTES";
        if std::env::var_os(HELPER).is_none() {
            let name = "process_table::tests::a_process_has_an_environment_also_while_it_executes_a_program";
            let mut command = Command::new(std::env::current_exe().unwrap());
            let status = command.args(["--exact", name]).env(HELPER, "1").status().unwrap();
            assert!(status.success());
            return;
        }
        for _ in 0..50 {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "echo; read line; exec sleep 300"]).env("MARK", "mine");
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
            child.stdin.take().unwrap().write_all(b"\n").unwrap();
            let pid = i32::try_from(child.id()).unwrap();
            let mut is_marked = true;
            while is_marked && fs::read(format!("/proc/{pid}/comm")).unwrap() != b"sleep\n" {
                is_marked = started_with(pid, b"MARK=mine");
            }
            is_marked = is_marked && started_with(pid, b"MARK=mine");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_marked);
        }
    }
}
