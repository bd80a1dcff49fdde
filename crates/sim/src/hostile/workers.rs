//! Workers that do what they are told: each gives back the arguments of its task.

use std::collections::VecDeque;

use gristmill_core::{
    Attempt, Core, Dispatch, Epoch, Loss, LossCause, Payload, Progress, SlotId, Status, TakeBack,
    TaskId,
};
use gristmill_wire::{AnswerFrame, PayloadKind, Span, Temperature, Verdict};

use super::engine::Lanes;

/// Bytes, and large parts.
type Arguments = (Vec<u8>, Vec<Vec<u8>>);

/// A record in a ring.
#[derive(Debug)]
struct Record {
    task: TaskId,
    attempt: Attempt,
    sequence: u64,
    arguments: Arguments,
}

/// A worker and its ring.
#[derive(Debug, Default)]
struct Worker {
    records: VecDeque<Record>,
    progress: Progress,
    next: u64,
    epoch: u32,
    is_wanted: bool,
    is_up: bool,
    is_killed: bool,
    is_interrupted: bool,
}

/// All workers of an engine.
#[derive(Debug, Default)]
pub(super) struct Workers(Vec<Worker>);

/// What a worker does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Starts,
    Answers,
    Dies,
}

impl Workers {
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| Worker::default()).collect())
    }

    fn at(&mut self, slot: SlotId) -> &mut Worker {
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

    pub fn progress(&self, slot: SlotId) -> Progress {
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

    pub fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>) {
        let worker = self.at(slot);
        for &sequence in sequences {
            if sequence < worker.progress.claimed {
                taken.push(TakeBack::Undecided);
            } else {
                worker.records.retain(|record| record.sequence != sequence);
                taken.push(TakeBack::Taken);
            }
        }
    }

    /// Whether some worker has something to do.
    pub fn is_busy(&self) -> bool {
        let has_work = |worker: &Worker| worker.is_killed || !worker.records.is_empty();
        self.0.iter().any(|worker| worker.is_wanted || (worker.is_up && has_work(worker)))
    }

    /// How many tasks workers have.
    pub fn record_count(&self) -> usize {
        self.0.iter().map(|worker| worker.records.len()).sum()
    }

    pub fn slots(&self) -> std::ops::Range<u16> {
        0..u16::try_from(self.0.len()).expect("few workers")
    }

    /// The task that a worker runs.
    pub fn running(&self, slot: SlotId) -> Option<TaskId> {
        let worker = &self.0[usize::from(slot.0)];
        let record = worker.records.front().filter(|_| worker.is_up)?;
        (worker.progress.started == record.sequence + 1).then_some(record.task)
    }

    /// Takes the worker's answer to what it runs, or what it may die of.
    fn deed(&mut self, slot: SlotId, deed: &Deed, now: u64) -> Option<(Record, Verdict)> {
        let worker = self.at(slot);
        let sequence = worker.records.front()?.sequence;
        if worker.progress.started <= sequence {
            worker.progress.claimed = sequence + 1;
            worker.progress.started = sequence + 1;
            worker.progress.started_at_ns = now;
        }
        if *deed == Deed::Starts {
            return None;
        }
        worker.progress.ended = sequence + 1;
        let is_interrupted = std::mem::take(&mut worker.is_interrupted);
        let verdict = if is_interrupted { Verdict::Interrupted } else { Verdict::Returned };
        Some((worker.records.pop_front()?, verdict))
    }
}

/// Has the worker in a slot do something; gives the task that it has returned.
pub(super) fn act(core: &mut Core, lanes: &mut Lanes, slot: SlotId, deed: &Deed) -> Option<TaskId> {
    let now = lanes.now;
    let worker = lanes.workers.at(slot);
    let epoch = Epoch(worker.epoch);
    if std::mem::take(&mut worker.is_wanted) {
        worker.is_up = true;
        core.slot_ready(slot, epoch, now, lanes);
        return None;
    }
    if !worker.is_up {
        return None;
    }
    if worker.is_killed || *deed == Deed::Dies {
        let progress = worker.progress;
        *worker = Worker { epoch: worker.epoch, ..Worker::default() };
        let cause = LossCause::Signal(9);
        let loss = Loss { cause, pid: 7, oom: false, detail: "".into(), progress };
        core.slot_lost(slot, epoch, loss, now, lanes);
        return None;
    }
    let (record, verdict) = lanes.workers.deed(slot, deed, now)?;
    let has_returned = verdict == Verdict::Returned;
    let (bytes, parts) = &record.arguments;
    let payload =
        if has_returned { lanes.payloads.run(bytes, parts) } else { Payload::copy_from(bytes) };
    let frame = AnswerFrame {
        task: record.task,
        sequence: u32::try_from(record.sequence).expect("few records"),
        attempt: record.attempt,
        verdict,
        payload: PayloadKind::Inline,
        temperature: Temperature::Hot,
        started_ticks: now,
        claimed_before: Span::from_ticks(1),
        ran: Span::from_ticks(1_000),
        published_after: Span::from_ticks(1),
        payload_size: 0,
    };
    let _ = core.answered(slot, &frame, payload, now, lanes);
    has_returned.then_some(record.task)
}

/// A task is final, once.
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
