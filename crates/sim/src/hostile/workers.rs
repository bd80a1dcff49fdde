//! Obedient workers: each returns the arguments of its task.

use std::collections::VecDeque;

use gristmill_core::{Attempt, Dispatch, RingProgress, SlotId, Status, TakeBackResult, TaskId};
use gristmill_wire::Verdict;

/// Bytes and large parts of a task's arguments.
pub(super) type Arguments = (Vec<u8>, Vec<Vec<u8>>);

/// A record in a ring.
#[derive(Debug)]
pub(super) struct Record {
    pub task: TaskId,
    pub attempt: Attempt,
    pub sequence: u64,
    pub arguments: Arguments,
}

/// A worker and its ring.
#[derive(Debug, Default)]
pub(super) struct Worker {
    records: VecDeque<Record>,
    pub progress: RingProgress,
    next: u64,
    pub epoch: u32,
    pub is_wanted: bool,
    pub is_up: bool,
    pub is_killed: bool,
    is_interrupted: bool,
}

impl Worker {
    /// Returns the worker without its process and its records.
    pub fn restarted(&self) -> Self {
        Self { epoch: self.epoch, ..Self::default() }
    }
}

/// All workers of an engine.
#[derive(Debug, Default)]
pub(super) struct Workers(Vec<Worker>);

/// Action of a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkerAction {
    Starts,
    Answers,
    Dies,
}

impl Workers {
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| Worker::default()).collect())
    }

    pub fn at(&mut self, slot: SlotId) -> &mut Worker {
        &mut self.0[usize::from(slot.0)]
    }

    pub fn spawn(&mut self, slot: SlotId) {
        let worker = self.at(slot);
        *worker = Worker { epoch: worker.epoch + 1, is_wanted: true, ..Worker::default() };
    }

    pub fn kill(&mut self, slot: SlotId) {
        self.at(slot).is_killed = true;
    }

    pub fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        let worker = self.at(slot);
        worker.is_interrupted = worker.progress.started == sequence + 1;
    }

    pub fn progress(&self, slot: SlotId) -> RingProgress {
        self.0[usize::from(slot.0)].progress
    }

    pub fn send(&mut self, slot: SlotId, frame: &Dispatch<'_>, arguments: Arguments) -> u64 {
        let worker = self.at(slot);
        let sequence = worker.next;
        worker.next += 1;
        let (task, attempt) = (frame.id, frame.attempt);
        worker.records.push_back(Record { task, attempt, sequence, arguments });
        sequence
    }

    pub fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        let worker = self.at(slot);
        for &sequence in sequences {
            if sequence < worker.progress.claimed {
                taken.push(TakeBackResult::Undecided);
            } else {
                worker.records.retain(|record| record.sequence != sequence);
                taken.push(TakeBackResult::Taken);
            }
        }
    }

    /// Returns whether some worker has something to do.
    pub fn is_busy(&self) -> bool {
        let has_work = |worker: &Worker| worker.is_killed || !worker.records.is_empty();
        self.0.iter().any(|worker| worker.is_wanted || (worker.is_up && has_work(worker)))
    }

    /// Returns the number of tasks that workers hold.
    pub fn record_count(&self) -> usize {
        self.0.iter().map(|worker| worker.records.len()).sum()
    }

    pub fn slots(&self) -> std::ops::Range<u16> {
        0..u16::try_from(self.0.len()).expect("few workers")
    }

    /// Returns the task that a worker runs.
    pub fn running(&self, slot: SlotId) -> Option<TaskId> {
        let worker = &self.0[usize::from(slot.0)];
        let record = worker.records.front().filter(|_| worker.is_up)?;
        (worker.progress.started == record.sequence + 1).then_some(record.task)
    }

    /// Starts the first record and, unless the action is only to start, ends it; returns it with its verdict.
    pub fn action(
        &mut self,
        slot: SlotId,
        action: &WorkerAction,
        now: u64,
    ) -> Option<(Record, Verdict)> {
        let worker = self.at(slot);
        let sequence = worker.records.front()?.sequence;
        if worker.progress.started <= sequence {
            worker.progress.claimed = sequence + 1;
            worker.progress.started = sequence + 1;
            worker.progress.started_at_ns = now;
        }
        if *action == WorkerAction::Starts {
            return None;
        }
        worker.progress.ended = sequence + 1;
        let is_interrupted = std::mem::take(&mut worker.is_interrupted);
        let verdict = if is_interrupted { Verdict::Interrupted } else { Verdict::Returned };
        Some((worker.records.pop_front()?, verdict))
    }
}

/// Final states of tasks, each set once.
#[derive(Debug, Default)]
pub(super) struct Finals(std::collections::HashMap<TaskId, Status>);

impl Finals {
    pub fn note(&mut self, task: TaskId, status: Status) {
        assert!(self.0.insert(task, status).is_none(), "{task} became final twice");
    }

    pub fn get(&self, task: TaskId) -> Option<Status> {
        self.0.get(&task).copied()
    }
}
