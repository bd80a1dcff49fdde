//! Finds and signals everything that descends from a process or carries a mark.
//!
//! Three marks are followed: parent links, sessions, and the environment a program was started
//! with. A process escapes only if it left the session, lost its parents and runs no new program,
//! all before the first round; as the keeper is the subreaper of its tree, even that one is found
//! when the whole tree ends. A program started with `GRISTMILL_KEEP=1` and everything below it is
//! spared, unless it is one of ours (`certain`).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::descriptor::{interest, process_handle, signal_handle, wait};
use crate::process_table::{self, Process};
use crate::token::{KEEP_VARIABLE, TREE_VARIABLE, TreeToken, WORKER_VARIABLE};
use crate::{message::WorkerKey, process_id};

/// How long one round waits for the killed to die: most take well below a millisecond, large ones
/// some ten.
const ROUND_TIME: Duration = Duration::from_millis(20);
/// Rounds before a hunt gives up on what does not die (a process in an uninterruptible call): about
/// ten seconds.
const ROUND_LIMIT: u32 = 500;

/// A search for processes that goes on in rounds until nothing is found.
#[derive(Debug)]
pub(crate) struct Hunt {
    roots: BTreeSet<i32>,
    /// Sessions that belong to the hunted; grows as members are found.
    sessions: BTreeSet<i32>,
    /// The hunter's own session, in which zygotes and unfinished births live.
    foreign_session: i32,
    /// The `NAME=value` that programs of the hunted were started with.
    mark: Vec<u8>,
    /// Never spared.
    certain: BTreeSet<i32>,
    /// Processes that may not be signalled: they run as somebody else.
    beyond_reach: BTreeSet<(i32, u64)>,
    /// Everything signalled so far.
    hit: BTreeSet<(i32, u64)>,
    signal: i32,
    rounds: u32,
}

impl Hunt {
    fn new(mark: String, signal: i32) -> Self {
        // SAFETY: the call takes an integer and touches no memory.
        let foreign_session = unsafe { libc::getsid(0) };
        Self {
            roots: BTreeSet::new(),
            sessions: BTreeSet::new(),
            foreign_session,
            mark: mark.into_bytes(),
            certain: BTreeSet::new(),
            beyond_reach: BTreeSet::new(),
            hit: BTreeSet::new(),
            signal,
            rounds: 0,
        }
    }

    /// Hunts one worker and its descent. `pid` must not be reaped before the first round.
    pub(crate) fn worker(key: WorkerKey, pid: i32, token: &TreeToken, signal: i32) -> Self {
        let mut hunt = Self::new(worker_mark(key, token), signal);
        hunt.roots.insert(pid);
        hunt.sessions.insert(pid);
        hunt.certain.insert(pid);
        hunt
    }

    /// Hunts everything below the calling process and everything with the token; `certain` are its
    /// zygotes and workers.
    pub(crate) fn tree(token: &TreeToken, certain: BTreeSet<i32>) -> Self {
        let mut hunt = Self::new(format!("{TREE_VARIABLE}={token}"), libc::SIGKILL);
        hunt.roots.insert(process_id());
        hunt.certain = certain;
        hunt
    }

    /// Hunts everything with the token.
    pub(crate) fn token(token: &TreeToken) -> Self {
        Self::new(format!("{TREE_VARIABLE}={token}"), libc::SIGKILL)
    }

    /// Signals everything found now. Returns handles of the living among them; none: the hunt is
    /// over.
    pub(crate) fn round(&mut self) -> Vec<OwnedFd> {
        self.rounds += 1;
        if self.rounds > ROUND_LIMIT || (self.signal != libc::SIGKILL && self.rounds > 1) {
            return Vec::new();
        }
        let found = self.find(&process_table::all());
        found.into_iter().filter_map(|process| self.signal_one(process)).collect()
    }

    /// Takes note that a process was reaped: its id may now go to another one.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.roots.remove(&pid);
        self.certain.remove(&pid);
    }

    /// Goes round after round until the hunt is over; `between` runs after each, to reap. Returns
    /// how many were hit.
    pub(crate) fn finish(&mut self, mut between: impl FnMut()) -> usize {
        loop {
            let handles = self.round();
            if handles.is_empty() {
                between();
                return self.hit.len();
            }
            let mut rest = ROUND_TIME;
            for handle in &handles {
                let before = std::time::Instant::now();
                let _ = wait(&mut [interest(handle, libc::POLLIN)], Some(rest));
                rest = rest.saturating_sub(before.elapsed());
            }
            between();
        }
    }

    /// Parents come before their children, so that no supervisor starts a child anew.
    fn find(&mut self, table: &[Process]) -> Vec<Process> {
        let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for process in table {
            children.entry(process.parent).or_default().push(*process);
        }
        let own = process_id();
        let mut seen: BTreeSet<i32> = BTreeSet::from([own]);
        let mut spared: BTreeSet<i32> = BTreeSet::new();
        let mut found = Vec::new();
        let roots = table.iter().filter(|process| self.roots.contains(&process.pid));
        let mut queue: Vec<Process> = roots.copied().collect();
        self.follow(&children, &mut queue, &mut seen, &mut spared, &mut found);
        for process in table {
            if !seen.contains(&process.pid) && self.is_marked(process, &spared) {
                queue.push(*process);
                self.follow(&children, &mut queue, &mut seen, &mut spared, &mut found);
            }
        }
        found.retain(|process| {
            !spared.contains(&process.pid)
                && !self.beyond_reach.contains(&(process.pid, process.start))
        });
        found
    }

    /// Walks parent links down from `queue`, breadth first.
    fn follow(
        &mut self,
        children: &BTreeMap<i32, Vec<Process>>,
        queue: &mut Vec<Process>,
        seen: &mut BTreeSet<i32>,
        spared: &mut BTreeSet<i32>,
        found: &mut Vec<Process>,
    ) {
        let own = process_id();
        let mut next = 0;
        while let Some(&process) = queue.get(next) {
            next += 1;
            let below = children.get(&process.pid).map(Vec::as_slice).unwrap_or_default();
            if process.pid != own {
                if !seen.insert(process.pid) {
                    continue;
                }
                if self.is_kept(&process) {
                    spare(&process, children, spared);
                    continue;
                }
                if !process.dead {
                    found.push(process);
                    if process.session > 1 && process.session != self.foreign_session {
                        self.sessions.insert(process.session);
                    }
                }
            }
            queue.extend_from_slice(below);
        }
        queue.clear();
    }

    fn is_kept(&self, process: &Process) -> bool {
        !self.certain.contains(&process.pid)
            && process_table::started_with(process.pid, format!("{KEEP_VARIABLE}=1").as_bytes())
    }

    fn is_marked(&self, process: &Process, spared: &BTreeSet<i32>) -> bool {
        !process.dead
            && !spared.contains(&process.pid)
            && (self.sessions.contains(&process.session)
                || process_table::started_with(process.pid, &self.mark))
    }

    /// Signals a process unless its id has gone to another one meanwhile.
    fn signal_one(&mut self, process: Process) -> Option<OwnedFd> {
        let handle = process_handle(process.pid).ok()?;
        if Process::read(process.pid)?.start != process.start {
            return None;
        }
        match signal_handle(handle.as_fd(), self.signal) {
            Ok(()) => {
                self.hit.insert((process.pid, process.start));
                Some(handle)
            }
            Err(error) => {
                if error.raw_os_error() == Some(libc::EPERM) {
                    self.beyond_reach.insert((process.pid, process.start));
                }
                None
            }
        }
    }
}

/// The `NAME=value` that a worker's programs are started with.
pub(crate) fn worker_mark(key: WorkerKey, token: &TreeToken) -> String {
    format!("{WORKER_VARIABLE}={}.{}.{token}", key.slot.0, key.epoch.0)
}

fn spare(process: &Process, children: &BTreeMap<i32, Vec<Process>>, spared: &mut BTreeSet<i32>) {
    let mut queue = vec![*process];
    while let Some(process) = queue.pop() {
        if spared.insert(process.pid) {
            queue.extend(children.get(&process.pid).into_iter().flatten());
        }
    }
}

/// Kills every process that was started with the token, `GRISTMILL_KEEP=1` apart, and returns how
/// many there were.
///
/// For a client whose keeper was killed: workers die with their keeper, programs that they ran do
/// not. Takes one walk through `/proc` when nothing is left, and gives up on what cannot die after
/// about ten seconds.
pub fn kill_tree_leftovers(token: &TreeToken) -> usize {
    Hunt::token(token).finish(|| {})
}
