//! A tree of real processes for the tests: the crate's own keeper, and Python zygotes.
#![expect(dead_code, reason = "each test file uses its own part of this")]

use std::io::{BufRead, BufReader, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gristmill_keeper::{
    Commands, Events, Exit, ExitStatus, KeeperEvent, KeeperOptions, Output, Program, WorkerKey,
    WorkerStart, launch,
};

/// The slots of `roles.py` and their actions. The epoch is the exit code, the signal, or the number of lines.
pub const LEAVE: u16 = 0;
pub const CRASH: u16 = 1;
pub const WRITE_MUCH: u16 = 2;
pub const LIVE: u16 = 3;
pub const DAEMONISE: u16 = 4;
pub const RUN_KEPT_PROGRAM: u16 = 5;
pub const RUN_ESCAPING_PROGRAM: u16 = 6;
pub const LEAVE_THE_PIPE: u16 = 7;
pub const DESCRIBE_WORLD: u16 = 8;

/// Reads the executable of the keeper under test.
pub fn image() -> Vec<u8> {
    std::fs::read(env!("CARGO_BIN_EXE_gristmill-keeper")).unwrap()
}

/// Returns the path of `python3`.
pub fn python() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join("python3"));
    candidates.find(|candidate| candidate.is_file()).expect("python3 is needed for these tests")
}

/// Returns a program that runs Python with these arguments.
pub fn python_program(arguments: &[&str]) -> Program {
    let python = python().as_os_str().as_bytes().to_vec();
    let start = [python, b"-S".to_vec(), b"-B".to_vec()];
    let rest = arguments.iter().map(|argument| argument.as_bytes().to_vec());
    Program {
        arguments: start.into_iter().chain(rest).collect(),
        environment: environment(),
        directory: b"/".to_vec(),
        umask: 0o022,
        stdout: Output::Forward,
        stderr: Output::Forward,
    }
}

/// Returns a program that runs a file of this folder.
pub fn script(name: &str, more: &[&str]) -> Program {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let arguments: Vec<&str> =
        std::iter::once(file.to_str().unwrap()).chain(more.iter().copied()).collect();
    python_program(&arguments)
}

fn environment() -> Vec<Vec<u8>> {
    let variables = std::env::vars_os();
    variables.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect()
}

/// A keeper and the reports of its processes.
pub struct Tree {
    pub commands: Commands,
    pub events: Events,
    reports: BufReader<PipeReader>,
    report_writer: PipeWriter,
    seen: Vec<KeeperEvent>,
}

impl Tree {
    /// Starts a keeper whose workers' standard error is discarded.
    pub fn new() -> Self {
        let null = std::fs::File::create("/dev/null").unwrap();
        Self::with(KeeperOptions { stderr: Some(null.into()), ..KeeperOptions::default() })
    }

    pub fn with(options: KeeperOptions) -> Self {
        let (commands, events) = launch(&image(), options).unwrap();
        let (reader, report_writer) = std::io::pipe().unwrap();
        let reports = BufReader::new(reader);
        Self { commands, events, reports, report_writer, seen: Vec::new() }
    }

    /// Starts a keeper with a zygote, number 1, and waits until it is ready.
    pub fn with_zygote() -> Self {
        let mut tree = Self::new();
        tree.start_zygote(1);
        tree
    }

    /// Starts a zygote. Returns its process id once it is ready.
    pub fn start_zygote(&mut self, id: u32) -> i32 {
        self.start_program(id, script("roles.py", &[]));
        self.expect(|event| match event {
            KeeperEvent::ZygoteReady { zygote, pid } if *zygote == id => Some(*pid),
            _ => None,
        })
    }

    pub fn start_program(&self, id: u32, program: Program) {
        self.commands.start_zygote(id, program, &[self.report_writer.as_fd()]).unwrap();
    }

    /// Returns the pipe end to which a worker reports.
    pub fn report_writer(&self) -> BorrowedFd<'_> {
        self.report_writer.as_fd()
    }

    /// Forks a worker and waits for its start.
    pub fn spawn(&mut self, slot: u16, epoch: u32) -> WorkerStart {
        let worker = WorkerKey::new(slot, epoch);
        self.commands.spawn(1, worker, &[]).unwrap();
        self.started(worker)
    }

    pub fn started(&mut self, worker: WorkerKey) -> WorkerStart {
        self.expect(|event| match event {
            KeeperEvent::Started(start) if start.worker == worker => {
                let pidfd = start.pidfd.as_ref().map(|pidfd| pidfd.try_clone().unwrap());
                Some(WorkerStart { worker, pid: start.pid, pidfd })
            }
            _ => None,
        })
    }

    pub fn exited(&mut self, worker: WorkerKey) -> Exit {
        self.expect(|event| match event {
            KeeperEvent::Exited(exit) if exit.worker == worker => Some(exit.clone()),
            _ => None,
        })
    }

    /// Waits for the event that `pick` accepts; other events are kept for later.
    pub fn expect<T>(&mut self, pick: impl Fn(&KeeperEvent) -> Option<T>) -> T {
        let found = self.seen.iter().position(|event| pick(event).is_some());
        if let Some(position) = found {
            return pick(&self.seen.remove(position)).unwrap();
        }
        loop {
            let event = self.events.next(None).expect("the keeper lives").unwrap();
            if let Some(value) = pick(&event) {
                return value;
            }
            self.seen.push(event);
        }
    }

    /// Reads the next line that a worker reported.
    pub fn report(&mut self) -> String {
        let mut line = String::new();
        self.reports.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns a handle of the next process that reported itself.
    pub fn reported_process(&mut self) -> OwnedFd {
        process(&self.report())
    }

    /// Ends the tree and waits for its keeper.
    pub fn shut_down(mut self) -> ExitStatus {
        self.commands.shutdown(std::time::Duration::ZERO).unwrap();
        loop {
            if let Err(lost) = self.events.next(None) {
                return lost.status;
            }
        }
    }
}

/// Returns the handle of a process that reported itself as `pid N`.
pub fn process(line: &str) -> OwnedFd {
    let pid: i32 = line.strip_prefix("pid ").expect("a process id").parse().unwrap();
    handle(pid)
}

pub fn handle(pid: i32) -> OwnedFd {
    // SAFETY: the call takes two integers and returns a new descriptor or an error.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    assert!(handle >= 0, "process {pid} is gone already");
    // SAFETY: the descriptor is new and has no other owner.
    unsafe { OwnedFd::from_raw_fd(handle.try_into().unwrap()) }
}

fn poll(process: &impl AsRawFd, timeout_ms: i32) -> bool {
    let mut entry = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the entry outlives the call.
    unsafe { libc::poll(&raw mut entry, 1, timeout_ms) == 1 }
}

/// Waits until a process is dead, without a time limit.
pub fn wait_for_death(process: &impl AsRawFd) {
    while !poll(process, -1) {}
}

pub fn is_alive(process: &impl AsRawFd) -> bool {
    !poll(process, 0)
}

/// Sends a signal to a process that a test started.
pub fn signal(pid: i32, signal: i32) {
    // SAFETY: the call takes two integers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}
