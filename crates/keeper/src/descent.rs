//! The search for all descendants of a process and all processes with a mark, to signal them.
//!
//! Three properties are followed: parent links, sessions, and the environment that a program was started with. A
//! process escapes only if it left the session, lost its parents and runs no new program, all before the first round.
//! The keeper is the subreaper of its tree, so even that process is found when the whole tree ends. A program started
//! with `GRISTMILL_KEEP=1` and all its descendants are spared, unless it is a zygote or worker of the tree (`certain`).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::descriptor::{interest, process_handle, signal_handle, wait};
use crate::message::{Stopped, WorkerKey};
use crate::process_id;
use crate::process_table::{self, Process};
use crate::started::{TaskProcessMatcher, origin_of};
use crate::token::{KEEP_VARIABLE, TREE_VARIABLE, TreeToken, WORKER_VARIABLE};

/// Time that a round waits for killed processes to die. Most take well below a millisecond, large ones about ten.
const ROUND_TIME: Duration = Duration::from_millis(20);
/// Number of rounds before a kill gives up on processes that do not die, such as one in an uninterruptible call: about
/// ten seconds.
const ROUND_LIMIT: u32 = 500;

/// A kill of processes that is repeated in rounds until none is found.
#[derive(Debug)]
pub(crate) struct DescendantKill {
    roots: BTreeSet<i32>,
    /// Sessions that belong to the targets; grows as members are found.
    sessions: BTreeSet<i32>,
    /// The session of this process, in which zygotes and workers that are still starting live.
    foreign_session: i32,
    /// The `NAME=value` that the targets' programs were started with.
    mark: Vec<u8>,
    /// Processes that are never spared.
    certain: BTreeSet<i32>,
    /// The worker whose processes are the targets, and its tree: processes that it forked have its mark.
    worker: Option<(WorkerKey, TreeToken)>,
    /// The task whose processes are the targets, with their descendants.
    starter: Option<TaskProcessMatcher>,
    /// Processes that this one may not signal because they run as another user.
    beyond_reach: BTreeSet<(i32, u64)>,
    /// All processes that were signalled, as (id, start).
    hit: BTreeSet<(i32, u64)>,
    signal: i32,
    rounds: u32,
}

impl DescendantKill {
    fn new(mark: String, signal: i32) -> Self {
        // SAFETY: the call takes an integer and touches no memory.
        let foreign_session = unsafe { libc::getsid(0) };
        Self {
            roots: BTreeSet::new(),
            sessions: BTreeSet::new(),
            foreign_session,
            mark: mark.into_bytes(),
            certain: BTreeSet::new(),
            worker: None,
            starter: None,
            beyond_reach: BTreeSet::new(),
            hit: BTreeSet::new(),
            signal,
            rounds: 0,
        }
    }

    /// Creates a kill of one worker and its descendants. `pid` must not be reaped before the first round.
    pub(crate) fn worker(key: WorkerKey, pid: i32, token: &TreeToken, signal: i32) -> Self {
        let mut kill = Self::new(worker_mark(key, token), signal);
        kill.roots.insert(pid);
        kill.sessions.insert(pid);
        kill.certain.insert(pid);
        kill.worker = Some((key, token.clone()));
        kill
    }

    /// Creates a kill of the processes that one task of a worker started. `pid` is the worker's process if it lives.
    pub(crate) fn started(
        key: WorkerKey,
        pid: Option<i32>,
        by: Stopped,
        token: &TreeToken,
    ) -> Self {
        let mut kill = Self::new(worker_mark(key, token), libc::SIGKILL);
        kill.starter = Some(TaskProcessMatcher::new(key, pid, by, token));
        kill
    }

    /// Creates a kill of all processes below the calling process and all with the token. `certain` are the zygotes and
    /// workers of the tree.
    pub(crate) fn tree(token: &TreeToken, certain: BTreeSet<i32>) -> Self {
        let mut kill = Self::new(format!("{TREE_VARIABLE}={token}"), libc::SIGKILL);
        kill.roots.insert(process_id());
        kill.certain = certain;
        kill
    }

    /// Creates a kill of all processes with the token.
    pub(crate) fn token(token: &TreeToken) -> Self {
        Self::new(format!("{TREE_VARIABLE}={token}"), libc::SIGKILL)
    }

    /// Signals all targets that exist now. Returns handles of those that were signalled; if it is empty, the kill is
    /// over.
    pub(crate) fn round(&mut self) -> Vec<OwnedFd> {
        self.rounds += 1;
        if self.rounds > ROUND_LIMIT || (self.signal != libc::SIGKILL && self.rounds > 1) {
            return Vec::new();
        }
        let found = self.find(&process_table::all());
        found.into_iter().filter_map(|process| self.signal_one(process)).collect()
    }

    /// Removes a process that was reaped, because its id may be reused.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.roots.remove(&pid);
        self.certain.remove(&pid);
    }

    /// Repeats rounds until the kill is over. Calls `between` after each round, to reap. Returns the number of
    /// processes signalled.
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

    /// Returns the targets in a process table. Parents come before their children, so that no supervisor restarts a
    /// child.
    fn find(&mut self, table: &[Process]) -> Vec<Process> {
        let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for process in table {
            children.entry(process.parent).or_default().push(*process);
        }
        let own = process_id();
        let mut seen: BTreeSet<i32> = BTreeSet::from([own]);
        let mut spared: BTreeSet<i32> = BTreeSet::new();
        let mut found = Vec::new();
        let is_root = |process: &&Process| match &self.starter {
            Some(starter) => starter.has_started(process),
            None => self.roots.contains(&process.pid),
        };
        let mut queue: Vec<Process> = table.iter().filter(is_root).copied().collect();
        self.follow(&children, &mut queue, &mut seen, &mut spared, &mut found);
        for process in table {
            if self.starter.is_none()
                && !seen.contains(&process.pid)
                && self.is_marked(process, &spared)
            {
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

    /// Follows parent links down from `queue`, breadth first.
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
            && (self.sessions.contains(&process.session) || self.has_mark(process))
    }

    fn has_mark(&self, process: &Process) -> bool {
        let environment = process_table::environment(process.pid);
        let is_of_worker = |(key, token): &(WorkerKey, TreeToken)| {
            origin_of(&environment, token).is_some_and(|origin| origin.worker == *key)
        };
        environment.split(|&byte| byte == 0).any(|item| item == self.mark)
            || self.worker.as_ref().is_some_and(is_of_worker)
    }

    /// Signals a process unless its id was reused since the table was read.
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

/// Returns the `NAME=value` that a worker's programs are started with.
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

/// Kills every process that was started with the token, except those with `GRISTMILL_KEEP=1`. Returns their number.
///
/// It is for a client whose keeper was killed: workers die with their keeper, but the programs that they ran do not. It
/// walks through `/proc` once if nothing is left, and gives up on processes that do not die after about ten seconds.
pub fn kill_tree_leftovers(token: &TreeToken) -> usize {
    DescendantKill::token(token).finish(|| {})
}
