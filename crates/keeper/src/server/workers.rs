//! Workers: their announcement, supervision and end.

use std::os::fd::{AsFd, OwnedFd};

use super::Server;
use super::commands::tree_variables;
use super::execute::{Execution, Outcome, SpawnEnvironment, execute};
use crate::descent::worker_mark;
use crate::descriptor::{duplicate, process_handle};
use crate::message::{Exit, KeeperEvent, Program, WorkerKey, WorkerStart};
use crate::status::{ExitStatus, Usage};
use crate::token::TreeToken;

/// A process that runs tasks.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pid: i32,
    pub(super) handle: Option<OwnedFd>,
    pub(super) stream: u64,
    /// The count of out-of-memory kills before its start.
    pub(super) ooms_before: u64,
    /// True if the keeper sent it SIGKILL.
    pub(super) was_killed: bool,
    /// The pipe that tells if the exec of this worker's program succeeded. `None` for a forked worker, and once the
    /// client knows that the program runs.
    pub(super) outcome: Option<Outcome>,
}

impl Worker {
    /// Creates the record of an unreaped child.
    pub(super) fn new(pid: i32, stream: u64, ooms_before: u64, outcome: Option<Outcome>) -> Self {
        let handle = process_handle(pid).ok();
        Self { pid, handle, stream, ooms_before, was_killed: false, outcome }
    }
}

impl Server {
    pub(super) fn add_worker(&mut self, key: WorkerKey, worker: Worker) {
        self.workers.insert(key, worker);
    }

    /// Tells the client that a worker has started.
    pub(super) fn announce(&mut self, key: WorkerKey) {
        let Some(worker) = self.workers.get(&key) else { return };
        let pid = worker.pid;
        let copy = |handle: &OwnedFd| duplicate(handle.as_fd(), 0).ok();
        let handle = worker.handle.as_ref().and_then(copy);
        let start = WorkerStart { worker: key, pid, pidfd: None };
        self.tell_with(&KeeperEvent::Started(start), handle.into_iter().collect());
    }

    /// Executes a program as a worker.
    pub(super) fn spawn_fresh(
        &mut self,
        key: WorkerKey,
        program: &Program,
        descriptors: &[OwnedFd],
        token: &TreeToken,
    ) {
        if self.is_taken(key) {
            return self.spawn_failed(key, "a worker of this slot and epoch exists already");
        }
        let (stream, stderr) = match self.streams.add(program.stderr) {
            Ok(made) => made,
            Err(error) => return self.spawn_failed(key, &error.to_string()),
        };
        let mut variables = tree_variables(token);
        variables.push(worker_mark(key, token));
        let around = SpawnEnvironment {
            variables,
            stderr: stderr.as_fd(),
            passed: descriptors.iter().map(AsFd::as_fd).collect(),
            descriptor_limit: self.descriptor_limit,
        };
        let ooms_before = self.oom.count();
        match execute(program, around) {
            Ok(started) => {
                let outcome = Some(started.outcome);
                self.add_worker(key, Worker::new(started.pid, stream, ooms_before, outcome));
            }
            Err(error) => {
                self.streams.remove(stream);
                self.spawn_failed(key, &error.to_string());
            }
        }
    }

    /// Announces an executed worker once its program runs.
    pub(super) fn settle_execution(&mut self, key: WorkerKey) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let Some(outcome) = &mut worker.outcome else { return };
        match outcome.look() {
            Execution::Pending => {}
            Execution::Running => {
                worker.outcome = None;
                self.announce(key);
            }
            Execution::Failed(errno) => {
                let stream = worker.stream;
                self.workers.remove(&key);
                self.streams.remove(stream);
                let error = std::io::Error::from_raw_os_error(errno);
                self.spawn_failed(key, &format!("the program could not be executed: {error}"));
            }
        }
    }

    /// Reports a worker that was just reaped.
    pub(super) fn worker_ended(&mut self, key: WorkerKey, status: ExitStatus, usage: Usage) {
        self.settle_execution(key);
        let Some(worker) = self.workers.remove(&key) else { return };
        // `last_words` takes the tail of the standard error. `struck`: the kernel's count of out-of-memory kills increased.
        let stderr_tail = self.streams.last_words(worker.stream);
        let struck = status.is_sigkill() && self.oom.has_struck(worker.ooms_before);
        let oom = struck && !worker.was_killed;
        let exit = Exit { worker: key, pid: worker.pid, status, oom, usage, stderr_tail };
        self.tell(&KeeperEvent::Exited(exit));
    }
}
