//! The port of the simulation: rings, processes and the ledger of what happened.

use std::collections::BTreeMap;

use gristmill_core::{
    Dispatch, KillReason, Payload, Port, Progress, Sent, SlotId, Status, TakeBack, TaskId,
};

use gristmill_wire::{BatchCalls, TaskFlags, Verdict};

use crate::worker::{Record, Worker};

/// What the program knows of one of its tasks.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Its id.
    pub id: Option<TaskId>,
    /// Its final state.
    pub status: Option<Status>,
    /// The numbers of its parents.
    pub parents: Vec<usize>,
    /// How often user code began.
    pub starts: u64,
    /// How often user code may begin.
    pub starts_max: u64,
    /// How many workers run it.
    pub running: u64,
    /// How often user code returned.
    pub returns: u64,
    /// How often it died with its worker.
    pub deaths: u64,
    /// Somebody asked to cancel it, or it can be cancelled with its parent.
    pub may_cancel: bool,
    /// It has a timeout or a deadline.
    pub has_time: bool,
    /// Its future is gone.
    pub is_released: bool,
    /// It was submitted by a task.
    pub depth: u64,
    /// It can never be sent.
    pub is_unsendable: bool,
    /// The batch that it travels in, as long as it does, and its place there.
    pub batch: Option<(TaskId, usize)>,
}

/// Everything outside of the machine.
#[derive(Debug)]
pub struct World {
    /// One per slot.
    pub workers: Vec<Worker>,
    /// One per task, by number.
    pub ledger: Vec<Entry>,
    /// The numbers of a batch's calls, and how many results of it were taken in.
    pub batches: BTreeMap<TaskId, (Vec<usize>, usize)>,
    /// Records that fit into a ring.
    pub ring_max: usize,
    /// The clock.
    pub now: u64,
    /// What happened, line by line, if wanted.
    pub trace: Option<Vec<String>>,
}

impl World {
    /// Writes a line of the trace, if one is kept.
    pub fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {}", self.now / 1_000, line()));
        }
    }

    /// The worker of a slot.
    pub fn worker(&mut self, slot: SlotId) -> &mut Worker {
        &mut self.workers[usize::from(slot.0)]
    }
}

impl Port for World {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let calls =
            if frame.flags.has(TaskFlags::BATCH) { calls_of(frame.payload) } else { Vec::new() };
        let number = calls.first().copied().unwrap_or_else(|| number_of(frame.payload));
        let entry = &self.ledger[number];
        let parents: Vec<usize> =
            frame.parents.clone().map(|(_, value)| usize::from(value_of(value))).collect();
        assert!(
            parents.iter().all(|&verdict| verdict == 1),
            "a parent's value is what it returned"
        );
        assert_eq!(parents.len(), entry.parents.len(), "one value per parent");
        assert!(entry.status.is_none(), "a final task was sent");
        if !calls.is_empty() {
            // The world hears of a batch before the program is told its id.
            let known = self.batches.entry(frame.id).or_insert_with(|| (calls.clone(), 0));
            assert_eq!(calls, known.0, "a batch is sent with its own calls");
        }
        if entry.is_unsendable {
            return Sent::Failed(Payload::copy_from(b"too large"));
        }
        let ring_max = self.ring_max;
        let worker = self.worker(slot);
        assert!(worker.is_up && !worker.is_retired, "a task was sent to a slot without a worker");
        if worker.ring.len() >= ring_max {
            return Sent::Full;
        }
        let sequence = worker.next_sequence;
        worker.next_sequence += 1;
        worker.ring.push_back(Record {
            sequence,
            task: frame.id,
            number,
            calls,
            attempt: frame.attempt,
            flags: frame.flags,
            deadline_ns: frame.extension.map_or(0, |extension| extension.deadline_ns),
            revoked: false,
        });
        self.log(|| format!("send {number} attempt {} to {slot} as {sequence}", frame.attempt.0));
        Sent::Written(sequence)
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>) {
        let worker = self.worker(slot);
        for &sequence in sequences {
            let in_ring = worker.ring.iter_mut().find(|record| record.sequence == sequence);
            let claimed = worker.claimed.as_mut().map(|claim| &mut claim.0);
            let record = in_ring.or(claimed.filter(|record| record.sequence == sequence));
            if let Some(record) = record {
                record.revoked = true;
            }
            let is_claimed = sequence < worker.progress.claimed;
            taken.push(if is_claimed { TakeBack::Undecided } else { TakeBack::Taken });
        }
        let verdicts = taken.clone();
        self.log(|| format!("take back {sequences:?} from {slot}: {verdicts:?}"));
    }

    fn stop_batch(&mut self, slot: SlotId, sequence: u64) -> Option<u32> {
        let worker = self.worker(slot);
        let progress = worker.progress;
        assert!(sequence < progress.claimed, "only a claimed batch is stopped");
        worker.stopped = sequence + 1;
        let calls = progress.calls.filter(|calls| calls.sequence == sequence);
        let claimed = calls.map(|_| worker.calls_claimed);
        self.log(|| format!("stop batch {sequence} in {slot}: {claimed:?}"));
        claimed
    }

    fn results(&self, batch: TaskId) -> u32 {
        u32::try_from(self.batches[&batch].1).expect("few calls")
    }

    fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> u64 {
        let calls = &mut self.batches.get_mut(&batch).expect("it is a batch").0;
        let numbers = calls.split_off(calls.len() - rest.len());
        self.log(|| format!("{batch} is split: {numbers:?} go on alone"));
        for (&number, &id) in numbers.iter().zip(rest) {
            let entry = &mut self.ledger[number];
            assert!(entry.batch.take().is_some(), "a call is split off once");
            entry.id = Some(id);
        }
        SINGLE
    }

    fn progress(&self, slot: SlotId) -> Progress {
        self.workers[usize::from(slot.0)].progress
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        self.worker(slot).interrupt = Some(sequence);
        self.log(|| format!("interrupt {sequence} in {slot}"));
    }

    fn kill(&mut self, slot: SlotId, why: KillReason) {
        let worker = self.worker(slot);
        assert!(worker.is_up, "a slot without a worker was killed");
        let (KillReason::TimedOut(task) | KillReason::Cancelled(task)) = why;
        let batch = worker.batch.iter().map(|(frame, _)| frame);
        let runs = worker.stack.iter().chain(batch).any(|frame| frame.record.task == task);
        assert!(
            runs || worker.dead.is_some(),
            "a worker was killed for a task that it does not run"
        );
        worker.dead.get_or_insert(9);
        self.log(|| format!("kill {slot}: {why:?}"));
    }

    fn spawn(&mut self, slot: SlotId) {
        let worker = self.worker(slot);
        assert!(!worker.is_up && !worker.is_starting, "a slot has one process");
        worker.restart();
        self.log(|| format!("spawn {slot}"));
    }

    fn retire(&mut self, slot: SlotId) {
        let worker = self.worker(slot);
        assert!(worker.is_up && worker.stack.is_empty(), "an idle worker is asked to leave");
        worker.is_retired = true;
        self.log(|| format!("retire {slot}"));
    }

    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        if let Some((calls, results)) = self.batches.get(&task).cloned() {
            self.finish_batch(&calls[results..], status);
            return;
        }
        let alone = |entry: &Entry| entry.id == Some(task);
        let number = if handle == SINGLE {
            self.ledger.iter().position(alone).expect("it was split off")
        } else {
            usize::try_from(handle).expect("a number")
        };
        self.log(|| format!("finished {number}: {status:?}"));
        let entry = &mut self.ledger[number];
        assert!(entry.id.is_none_or(|id| id == task), "the handle is the task's");
        assert_eq!(entry.status, None, "task {number} got a second final state");
        entry.status = Some(status);
        self.check_end(number, status);
    }

    fn is_asleep(&self, slot: SlotId) -> bool {
        let worker = &self.workers[usize::from(slot.0)];
        worker.stack.is_empty() && worker.ring.is_empty() && slot.0.is_multiple_of(2)
    }

    fn ticks(&self) -> u64 {
        self.now
    }
}

impl World {
    /// Ends the calls of a batch that gave no result.
    fn finish_batch(&mut self, calls: &[usize], status: Status) {
        assert!(calls.is_empty() || status != Status::Succeeded, "a call without a result");
        for &number in calls {
            self.log(|| format!("finished {number}, in a batch: {status:?}"));
            let entry = &mut self.ledger[number];
            assert_eq!(entry.status, None, "call {number} got a second final state");
            entry.status = Some(status);
            self.check_end(number, status);
        }
    }

    /// Takes in what came of a call of a batch.
    pub fn take_result(&mut self, batch: TaskId, number: usize, verdict: Verdict) {
        let (calls, results) = self.batches.get_mut(&batch).expect("it is a batch");
        assert_eq!(calls[*results], number, "results come in order, of its own calls");
        *results += 1;
        let returned = verdict == Verdict::Returned;
        let status = if returned { Status::Succeeded } else { Status::Failed };
        self.log(|| format!("result of {number}: {status:?}"));
        let entry = &mut self.ledger[number];
        assert_eq!(entry.status, None, "call {number} got a second final state");
        entry.status = Some(status);
        self.check_end(number, status);
    }

    /// Asserts that a final state has a cause.
    fn check_end(&self, number: usize, status: Status) {
        let entry = &self.ledger[number];
        let failed = |&parent: &usize| {
            self.ledger[parent].status.is_some_and(|end| end != Status::Succeeded)
        };
        let has_cause = match status {
            Status::Succeeded => entry.returns > 0,
            Status::Failed => entry.starts > 0 || entry.is_unsendable,
            Status::Cancelled => entry.may_cancel,
            Status::TimedOut => entry.has_time,
            Status::DependencyFailed => entry.parents.iter().any(failed),
            Status::Lost => entry.deaths > 0,
            Status::Refused => true,
        };
        assert!(has_cause, "task {number} ended as {status:?} without a cause: {entry:?}");
    }
}

/// The handle of a task that was split off a batch.
const SINGLE: u64 = u64::MAX;

/// The numbers that the calls of a batch carry.
fn calls_of(payload: &Payload) -> Vec<usize> {
    let gristmill_core::PayloadRef::Bytes(bytes) = payload.get() else { panic!("inline") };
    let mut calls = BatchCalls::new(bytes);
    let number = |call: &[u8]| number_of(&Payload::copy_from(call));
    std::iter::from_fn(|| calls.take().expect("whole calls")).map(number).collect()
}

/// The number that the arguments carry.
fn number_of(payload: &Payload) -> usize {
    let gristmill_core::PayloadRef::Bytes(bytes) = payload.get() else { panic!("inline") };
    let number = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    usize::try_from(number).expect("a number")
}

fn value_of(payload: &Payload) -> u8 {
    let gristmill_core::PayloadRef::Bytes(bytes) = payload.get() else { panic!("inline") };
    bytes[0]
}
