//! The search for the processes that one task of a worker started.
//!
//! The mark in a process's environment decides ([`crate::task_mark`]): it names the worker and the task, regardless of
//! the process's parents and session. A program that was given an environment of its own has no mark. If it is a child
//! of the worker, or an orphan in the worker's session, its start time decides. The kernel reports that time in steps
//! of 10 ms. The step in which the task began counts as the task's, since most tasks start their programs at once. The
//! step in which it ended does not count, since the next task has begun in it. So an unmarked program of an earlier
//! task is taken for the task's, and killed, if it started in the last 10 ms before the task began. An unmarked program
//! of the task itself is missed if it started in the last 10 ms before the task ended. An unmarked program that has
//! lost its parents and has left the session is not found.

use crate::message::{Stopped, WorkerKey};
use crate::process_id;
use crate::process_table::{self, Process};
use crate::task_mark::Origin;
use crate::token::{TASK_VARIABLE, TREE_VARIABLE, TreeToken};

/// The properties of a task that identify the processes it started.
#[derive(Debug)]
pub(crate) struct TaskProcessMatcher {
    origin: Origin,
    token: TreeToken,
    /// The worker's process id, while it lives.
    worker: Option<i32>,
    /// The clock steps in which the task ran, without the last one.
    steps: std::ops::Range<u64>,
}

impl TaskProcessMatcher {
    pub(crate) fn new(key: WorkerKey, worker: Option<i32>, by: Stopped, token: &TreeToken) -> Self {
        let origin = Origin { worker: key, sequence: by.sequence };
        let step = |ns: u64| since_boot(ns) / STEP_NS;
        let steps = step(by.began_ns)..step(by.ended_ns);
        Self { origin, token: token.clone(), worker, steps }
    }

    /// Returns true if the task started this process itself, according to its mark, or to its parent and its start
    /// time.
    pub(crate) fn has_started(&self, process: &Process) -> bool {
        if process.dead || Some(process.pid) == self.worker || process.pid == process_id() {
            return false;
        }
        let environment = process_table::environment(process.pid);
        match origin_of(&environment, &self.token) {
            Some(origin) => origin == self.origin,
            None => self.is_near(process) && self.steps.contains(&process.start),
        }
    }

    /// Returns true if an unmarked process can belong to the worker: it is its child or an orphan in its session.
    fn is_near(&self, process: &Process) -> bool {
        let Some(worker) = self.worker else { return false };
        let is_orphan = process.parent == process_id() && process.session == worker;
        process.parent == worker || is_orphan
    }
}

/// Returns the worker and task that started a process of this tree.
pub(crate) fn origin_of(environment: &[u8], token: &TreeToken) -> Option<Origin> {
    let tree = process_table::value(environment, TREE_VARIABLE)?;
    if tree != token.as_str().as_bytes() {
        return None;
    }
    Origin::parse(process_table::value(environment, TASK_VARIABLE)?)
}

/// Length of a step, nanoseconds. The kernel reports times to programs in hundredths of a second on all supported
/// machines.
const STEP_NS: u64 = 10_000_000;

/// Converts a time of the monotonic clock to the clock of process start times, which also counts while the machine
/// sleeps.
fn since_boot(monotonic_ns: u64) -> u64 {
    let ahead = clock(libc::CLOCK_BOOTTIME).saturating_sub(clock(libc::CLOCK_MONOTONIC));
    monotonic_ns.saturating_add(ahead)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call, which fills it in.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
