//! The port of the simulation: rings, processes and the ledger of what happened.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_core::{
    Attempt, Budgets, Config, ContextId, Dispatch, KillReason, Outfit, Payload, Port, Progress,
    Sent, SlotId, Status, TakeBack, TaskId,
};

use gristmill_wire::{BatchCalls, Demand, Equipment, TaskFlags, Verdict};

use crate::contexts::Contexts;
use crate::equipment::Room;
use crate::memory::{Memory, number_of};
use crate::worker::{Frame, Record, Worker};

/// One run of a task.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended, if it has.
    pub end: Option<Verdict>,
    /// Its worker died of it, or with it.
    pub has_died: bool,
    /// Its parents, and the run of each whose value it saw.
    pub saw: Vec<(usize, u32)>,
}

/// A task on its way to where it may run.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Which placement it is.
    pub attempt: Attempt,
    /// Which engine sent it there, see [`Entry::owner`].
    pub by: usize,
    /// The link that it went over; none: it stayed.
    pub link: Option<usize>,
    /// When it was handed over, by the count of what was sent anywhere.
    pub given_at: u64,
    /// How often it began there.
    pub starts: u64,
}

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
    /// How often it may begin again.
    pub budgets: Budgets,
    /// How many workers run it.
    pub running: u64,
    /// What became of each run.
    pub runs: Vec<Run>,
    /// How often user code raised, or gave way to an interrupt.
    pub raises: u64,
    /// How often it may have begun where nobody can tell.
    pub unknowns: u64,
    /// Where it was sent.
    pub placements: Vec<Placement>,
    /// Somebody asked to stop it even if it runs.
    pub may_stop: bool,
    /// How often it died with its worker.
    pub deaths: u64,
    /// Somebody asked to cancel it, or it can be cancelled with its parent.
    pub may_cancel: bool,
    /// It has a timeout or a deadline.
    pub has_time: bool,
    /// Its future is gone.
    pub is_released: bool,
    /// How many tasks are above it: 0 is the program's own.
    pub depth: u64,
    /// The engine that it was submitted to: 0 is the program's client, others are those of leases.
    pub owner: usize,
    /// The large parts of its arguments.
    pub arguments: Vec<u64>,
    /// How many large parts it returns.
    pub outputs: u64,
    /// It returns others with each run.
    pub varies: bool,
    /// Its result could stay where it was made, and be made again.
    pub may_stay: bool,
    /// What it needs besides a worker.
    pub demand: Demand,
    /// The context that it runs in, or that of none.
    pub context: ContextId,
    /// The kinds of contexts that it has heard of, a bit each.
    pub handles: u32,
    /// The task that submitted it.
    pub submitter: Option<TaskId>,
    /// It can never be sent.
    pub is_unsendable: bool,
    /// The batch that it travels in, as long as it does, and its place there.
    pub batch: Option<(TaskId, usize)>,
}

impl Entry {
    /// How often user code may have begun, after what has happened.
    #[must_use]
    pub fn starts_max(&self) -> u64 {
        let Budgets { retries, loss_retries, timeout_retries } = self.budgets;
        1 + u64::from(retries).min(self.raises)
            + u64::from(timeout_retries).min(self.raises + self.deaths)
            + u64::from(loss_retries).min(self.deaths + self.unknowns)
    }

    /// Whether it raised so often that it is not repeated; nothing is, where all is cancelled.
    fn has_spent_retries(&self) -> bool {
        self.raises > u64::from(self.budgets.retries) || (self.raises > 0 && self.may_cancel)
    }

    /// Whether it was lost so often that it is not repeated, or has killed too many workers; nothing is, where all is
    /// cancelled.
    fn has_spent_losses(&self) -> bool {
        let losses = self.deaths + self.unknowns;
        let is_killer = self.deaths >= u64::from(Config::default().kills_max);
        losses > u64::from(self.budgets.loss_retries)
            || (losses > 0 && (self.may_cancel || is_killer))
    }

    /// Whether the program's client has it, and not some node's engine.
    #[must_use]
    pub const fn is_clients(&self) -> bool {
        self.owner == 0
    }

    /// Whether its last placement began, and is not one of which another try is made.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        let has_begun = self.placements.last().is_some_and(|last| last.starts > 0);
        // Older runs may go on where nobody waits for them any more.
        let is_on = |run: &Run| match run.end {
            None => !run.has_died,
            Some(end) => end == Verdict::Returned,
        };
        has_begun && self.runs.last().is_some_and(is_on)
    }

    /// Whether a run of this number returned.
    #[must_use]
    pub fn has_returned(&self, run: u32) -> bool {
        self.runs.get(run as usize).is_some_and(|run| run.end == Some(Verdict::Returned))
    }
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
    /// What its tasks may have.
    pub room: Room,
    /// What its workers may keep ready.
    pub contexts: Contexts,
    /// Starts that come to nothing in a row before nobody tries any more.
    pub start_failures_max: u32,
    /// Records that fit into a ring.
    pub ring_max: usize,
    /// The large payloads.
    pub memory: Memory,
    /// Tasks whose user code began since this was emptied.
    pub started: Vec<(TaskId, usize)>,
    /// Tasks of others that were refused: they are yet to hear of it.
    pub refused: BTreeSet<TaskId>,
    /// All workers are here, so that what becomes of a task is known at once.
    pub is_alone: bool,
    /// Which engine's it is, see [`Entry::owner`].
    pub engine: usize,
    /// The engine was given up: its processes end whatever they do.
    pub is_ending: bool,
    /// The clock.
    pub now: u64,
    /// What happened, line by line, if wanted.
    pub trace: Option<Vec<String>>,
    /// Whose world it is, and what time the trace says, where there are several.
    pub who: Option<(String, u64)>,
}

impl World {
    /// Workers that are to come, and nothing that has happened.
    #[must_use]
    pub fn new(config: &Config, ring_max: usize, memory: Memory) -> Self {
        Self {
            room: Room::of(config),
            contexts: Contexts::default(),
            start_failures_max: config.start_failures_max,
            workers: (0..config.slot_count()).map(|_| Worker::default()).collect(),
            ledger: Vec::new(),
            batches: BTreeMap::new(),
            ring_max,
            memory,
            started: Vec::new(),
            refused: BTreeSet::new(),
            is_alone: true,
            engine: 0,
            is_ending: false,
            now: 1,
            trace: None,
            who: None,
        }
    }

    /// Writes a line of the trace, if one is kept.
    pub fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let now = self.who.as_ref().map_or(self.now, |(_, at)| *at) / 1_000;
            let who = self.who.as_ref().map_or("", |(who, _)| who);
            trace.push(format!("{now:>9} {who} {}", line()));
        }
    }

    /// The worker of a slot.
    pub fn worker(&mut self, slot: SlotId) -> &mut Worker {
        &mut self.workers[usize::from(slot.0)]
    }
}

impl Port for World {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let bytes = self.memory.get(frame.payload);
        let calls = if frame.flags.has(TaskFlags::BATCH) { calls_of(bytes) } else { Vec::new() };
        let number = calls.first().copied().unwrap_or_else(|| number_of(bytes));
        let saw = self.values(number, frame.parents.clone().map(|(_, value)| value));
        let entry = &self.ledger[number];
        assert!(!self.is_alone || entry.status.is_none(), "a final task was sent");
        if !calls.is_empty() {
            // The world hears of a batch before the program is told its id.
            let known = self.batches.entry(frame.id).or_insert_with(|| (calls.clone(), 0));
            assert_eq!(calls, known.0, "a batch is sent with its own calls");
        }
        if entry.is_unsendable {
            return Sent::Failed(Payload::copy_from(b"too large"));
        }
        let equipment = frame.extension.map_or(Equipment::NONE, |one| one.equipment);
        self.check_equipment(slot, number, equipment);
        self.check_places_given(slot, frame.places, equipment);
        let told = frame.extension.map(|one| one.context);
        self.check_context(slot, number, told, frame.flags);
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
            saw,
            devices: equipment.devices,
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
        let batch = worker.batch.iter().map(|(frame, _)| frame);
        let mut frames = worker.stack.iter().chain(batch);
        let is_just = match why {
            KillReason::TimedOut(task) | KillReason::Cancelled(task) => {
                frames.any(|frame| frame.record.task == task)
            }
            KillReason::Stayed => worker.is_retired,
        };
        assert!(is_just || worker.dead.is_some(), "a worker was killed without a reason: {why:?}");
        worker.dead.get_or_insert(9);
        self.log(|| format!("kill {slot}: {why:?}"));
    }

    fn spawn(&mut self, slot: SlotId, context: ContextId, outfit: Outfit) {
        self.spawn_with(slot, context, outfit);
    }

    fn retire(&mut self, slot: SlotId) {
        let is_ending = self.is_ending;
        let is_refused = |frame: &Frame| {
            let Record { number, task, .. } = frame.record;
            self.ledger[number].status == Some(Status::Refused) || self.refused.contains(&task)
        };
        let worker = &self.workers[usize::from(slot.0)];
        let is_idle = worker.is_up && worker.stack.iter().all(is_refused);
        assert!(is_idle || is_ending, "an idle worker is asked to leave");
        let stays = self.contexts.known[&worker.context].stays;
        let worker = self.worker(slot);
        (worker.is_retired, worker.stays) = (true, stays);
        self.check_retired(slot);
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
        self.end_task(task, number, status);
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
    /// Ends a task.
    pub fn end_task(&mut self, task: TaskId, number: usize, status: Status) {
        self.log(|| format!("finished {number}: {status:?}"));
        let entry = &mut self.ledger[number];
        assert!(entry.id.is_none_or(|id| id == task), "the handle is the task's");
        assert_eq!(entry.status, None, "task {number} got a second final state");
        entry.status = Some(status);
        self.check_end(number, status);
    }

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
            Status::Succeeded => entry.runs.iter().any(|run| run.end == Some(Verdict::Returned)),
            Status::Failed => entry.is_unsendable || entry.has_spent_retries(),
            Status::Cancelled => entry.may_cancel,
            Status::TimedOut => entry.has_time,
            Status::DependencyFailed => entry.parents.iter().any(failed),
            Status::Lost => entry.has_spent_losses(),
            Status::Refused => self.may_refuse(number),
        };
        assert!(has_cause, "task {number} ended as {status:?} without a cause: {entry:?}");
    }
}

/// The handle of a task that was split off a batch.
const SINGLE: u64 = u64::MAX;

/// The numbers that the calls of a batch carry.
fn calls_of(bytes: &[u8]) -> Vec<usize> {
    let mut calls = BatchCalls::new(bytes);
    std::iter::from_fn(|| calls.take().expect("whole calls")).map(number_of).collect()
}
