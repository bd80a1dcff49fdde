//! Port of the simulation: rings, processes and the ledger of all tasks.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_core::{
    Attempt, Budgets, Config, ContextId, Dispatch, KillReason, Payload, Port, RingProgress, Sent,
    SlotId, Status, TakeBackResult, TaskId, WorkerGrant,
};

use gristmill_wire::{BatchCalls, FunctionId, ResourceGrant, ResourceRequest, TaskFlags, Verdict};

use crate::capacity::EngineCapacity;
use crate::contexts::SimContexts;
use crate::memory::{SimMemory, number_of};
use crate::observed::Begun;
use crate::observed::Inner;
use crate::worker::{Frame, SimTaskRecord, SimWorker};

/// One run of a task.
#[derive(Debug, Clone)]
pub struct SimRun {
    /// Verdict of the run, if it has ended.
    pub end: Option<Verdict>,
    /// True if its worker died during the run.
    pub has_died: bool,
    /// Parents of the task, and the run of each whose value it saw.
    pub saw: Vec<(usize, u32)>,
}

/// One placement of a task in a worker or at a peer.
#[derive(Debug, Clone)]
pub struct SimPlacement {
    /// Attempt that tells this placement from others.
    pub attempt: Attempt,
    /// Engine that sent the task there, see [`ProgramTask::owner`].
    pub by: usize,
    /// Link that the task went over, or `None` if it stayed.
    pub link: Option<usize>,
    /// Number of chunks that had been sent on all lines when the task was sent.
    pub given_at: u64,
    /// Number of runnable tasks that the sender had sent over that link and that were not final, including this one.
    pub beside: usize,
    /// Number of times that the task began there.
    pub starts: u64,
    /// True if the node has lost the result of this placement.
    pub is_result_lost: bool,
}

/// State of one task of the program.
#[derive(Debug, Clone, Default)]
pub struct ProgramTask {
    /// Id of the task.
    pub id: Option<TaskId>,
    /// Final state of the task.
    pub status: Option<Status>,
    /// Numbers of the task's parents.
    pub parents: Vec<usize>,
    /// Number of times that user code began.
    pub starts: u64,
    /// Budgets for further attempts.
    pub budgets: Budgets,
    /// Number of workers that run the task.
    pub running: u64,
    /// All runs of the task.
    pub runs: Vec<SimRun>,
    /// Number of times that user code raised, or ended because of an interrupt.
    pub raises: u64,
    /// Number of times that it returned when it may have timed out, so that its value does not count.
    pub late_returns: u64,
    /// Number of times that the task may have begun but no engine can tell.
    pub unknowns: u64,
    /// All placements of the task.
    pub placements: Vec<SimPlacement>,
    /// True if the program has asked to stop it even if it runs.
    pub may_stop: bool,
    /// Number of times that it died with its worker.
    pub deaths: u64,
    /// True if the program has asked to cancel it, or it can be cancelled with its parent.
    pub may_cancel: bool,
    /// True if it has a timeout or a deadline.
    pub has_time: bool,
    /// True if its future is dropped.
    pub is_released: bool,
    /// Number of tasks above it: 0 for the program's own.
    pub depth: u64,
    /// Engine that the task was submitted to: 0 is the program's client, others belong to leases.
    pub owner: usize,
    /// Large parts of its arguments.
    pub arguments: Vec<u64>,
    /// Number of large parts that it returns.
    pub outputs: u64,
    /// True if it returns different parts on each run.
    pub varies: bool,
    /// True if its result could stay where it was made, and be made again.
    pub may_stay: bool,
    /// Resources that it needs besides a worker.
    pub demand: ResourceRequest,
    /// Priority of the task; that of a batch is 0.
    pub priority: i32,
    /// Context that it runs in; [`PLAIN`](crate::contexts::PLAIN) if it names none.
    pub context: ContextId,
    /// Set of the kinds of contexts that the task knows, one bit each.
    pub handles: u32,
    /// Task that submitted it.
    pub submitter: Option<TaskId>,
    /// Function that it calls.
    pub function: FunctionId,
    /// True if it can never be sent.
    pub is_unsendable: bool,
    /// Batch that it is part of, while it is, and its index there.
    pub batch: Option<(TaskId, usize)>,
}

impl ProgramTask {
    /// Returns the largest number of times that user code may have begun, given the events so far.
    #[must_use]
    pub fn starts_max(&self) -> u64 {
        let Budgets { retries, loss_retries, timeout_retries } = self.budgets;
        1 + u64::from(retries).min(self.raises)
            + u64::from(timeout_retries).min(self.raises + self.deaths + self.late_returns)
            + u64::from(loss_retries).min(self.deaths + self.unknowns)
    }

    /// Returns whether it raised so often that it is not repeated. A task that may be cancelled is never repeated.
    fn has_spent_retries(&self) -> bool {
        self.raises > u64::from(self.budgets.retries) || (self.raises > 0 && self.may_cancel)
    }

    /// Returns whether it was lost so often that it is not repeated, or has killed too many workers. A task that may be
    /// cancelled is never repeated.
    fn has_spent_losses(&self) -> bool {
        let losses = self.deaths + self.unknowns;
        let is_killer = self.deaths >= u64::from(Config::default().kills_max);
        losses > u64::from(self.budgets.loss_retries)
            || (losses > 0 && (self.may_cancel || is_killer))
    }

    /// Returns whether the program's client owns the task, not a node's engine.
    #[must_use]
    pub const fn is_clients(&self) -> bool {
        self.owner == 0
    }

    /// Returns whether its last placement began and will not be followed by another attempt.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        let is_current = |last: &SimPlacement| last.starts > 0 && !last.is_result_lost;
        let has_begun = self.placements.last().is_some_and(is_current);
        // Older runs may continue although no engine waits for them any more.
        let is_on = |run: &SimRun| match run.end {
            None => !run.has_died,
            Some(end) => end == Verdict::Returned,
        };
        has_begun && self.runs.last().is_some_and(is_on)
    }

    /// Returns whether a run returned.
    #[must_use]
    pub fn has_returned(&self, run: u32) -> bool {
        self.runs.get(run as usize).is_some_and(|run| run.end == Some(Verdict::Returned))
    }
}

/// The world outside of the engine.
#[derive(Debug)]
pub struct SimWorld {
    /// Workers, one per slot.
    pub workers: Vec<SimWorker>,
    /// Ledger of all tasks, by number.
    pub ledger: Vec<ProgramTask>,
    /// Numbers of each batch's calls, and the number of its results so far.
    pub batches: BTreeMap<TaskId, (Vec<usize>, usize)>,
    /// Capacity for the tasks.
    pub room: EngineCapacity,
    /// Contexts of the workers.
    pub contexts: SimContexts,
    /// Number of consecutive failed starts after which the engine gives up.
    pub start_failures_max: u32,
    /// Number of records that fit into a ring.
    pub ring_max: usize,
    /// Large payloads.
    pub memory: SimMemory,
    /// Tasks whose user code began since this vector was emptied.
    pub started: Vec<(TaskId, usize)>,
    /// Calls that began since this vector was emptied, for the check of priorities.
    pub begun: Vec<Begun>,
    /// Children that were sent to run in the wait of their parents, since this vector was emptied.
    pub inner: Vec<Inner>,
    /// Number of ended calls by function.
    pub ends: BTreeMap<FunctionId, u64>,
    /// Inbound tasks that were refused; the ledger has no final state for them until their owners learn of it.
    pub refused: BTreeSet<TaskId>,
    /// True if all workers belong to one engine, so that the fate of a task is known at once.
    pub is_alone: bool,
    /// Engine of this world, see [`ProgramTask::owner`].
    pub engine: usize,
    /// True if the engine was given up: its processes end regardless of their tasks.
    pub is_ending: bool,
    /// Time of the engine's clock, nanoseconds.
    pub now: u64,
    /// Trace of all events, one per line, if requested.
    pub trace: Option<Vec<String>>,
    /// Name of the world, and the time for its trace, if there are several.
    pub who: Option<(String, u64)>,
}

impl SimWorld {
    /// Creates a world in which no worker has started.
    #[must_use]
    pub fn new(config: &Config, ring_max: usize, memory: SimMemory) -> Self {
        Self {
            room: EngineCapacity::of(config),
            contexts: SimContexts::default(),
            start_failures_max: config.start_failures_max,
            workers: (0..config.slot_count()).map(|_| SimWorker::default()).collect(),
            ledger: Vec::new(),
            batches: BTreeMap::new(),
            ring_max,
            memory,
            started: Vec::new(),
            begun: Vec::new(),
            inner: Vec::new(),
            ends: BTreeMap::new(),
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

    /// Returns the record of a child that is sent to run in the wait of its parent.
    fn inner_of(&self, number: usize, slot: usize) -> Inner {
        let has_floor = |place: &usize| self.workers[*place].floor > 0;
        let places = 0..self.workers.len();
        let kept = places.filter(has_floor).fold(0, |all, place| all | 1 << place);
        Inner { number, slot, kept }
    }

    /// Returns the worker of a slot.
    pub fn worker(&mut self, slot: SlotId) -> &mut SimWorker {
        &mut self.workers[usize::from(slot.0)]
    }
}

impl Port for SimWorld {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let bytes = self.memory.get(frame.payload);
        let calls = if frame.flags.has(TaskFlags::BATCH) { calls_of(bytes) } else { Vec::new() };
        let number = calls.first().copied().unwrap_or_else(|| number_of(bytes));
        let saw = self.values(number, frame.parents.clone().map(|(_, value)| value));
        let entry = &self.ledger[number];
        assert!(!self.is_alone || entry.status.is_none(), "a final task was sent");
        if !calls.is_empty() {
            // The world gets a batch before the program is told its id.
            let known = self.batches.entry(frame.id).or_insert_with(|| (calls.clone(), 0));
            assert_eq!(calls, known.0, "a batch is sent with its own calls");
        }
        if entry.is_unsendable {
            return Sent::Failed(Payload::copy_from(b"too large"));
        }
        let grant = frame.extension.map_or(ResourceGrant::NONE, |one| one.grant);
        self.check_grant(slot, number, grant);
        self.check_places_given(slot, frame.places, grant);
        let named = frame.extension.map(|one| one.context);
        self.check_context(slot, number, named, frame.flags);
        let ring_max = self.ring_max;
        let worker = self.worker(slot);
        assert!(worker.is_up && !worker.is_retired, "a task was sent to a slot without a worker");
        if worker.ring.len() >= ring_max {
            return Sent::Full;
        }
        let sequence = worker.next_sequence;
        worker.next_sequence += 1;
        worker.ring.push_back(SimTaskRecord {
            sequence,
            task: frame.id,
            number,
            calls,
            attempt: frame.attempt,
            flags: frame.flags,
            saw,
            devices: grant.devices,
            deadline_ns: frame.extension.map_or(0, |extension| extension.deadline_ns),
            priority: frame.extension.map_or(0, |extension| extension.priority),
            revoked: false,
        });
        if frame.flags.has(TaskFlags::NESTED) {
            let inner = self.inner_of(number, usize::from(slot.0));
            self.inner.push(inner);
        }
        self.log(|| format!("send {number} attempt {} to {slot} as {sequence}", frame.attempt.0));
        Sent::Written(sequence)
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        let worker = self.worker(slot);
        for &sequence in sequences {
            let in_ring = worker.ring.iter_mut().find(|record| record.sequence == sequence);
            let claimed = worker.claimed.as_mut().map(|claim| &mut claim.0);
            let record = in_ring.or(claimed.filter(|record| record.sequence == sequence));
            if let Some(record) = record {
                record.revoked = true;
            }
            let is_claimed = sequence < worker.progress.claimed;
            taken.push(if is_claimed { TakeBackResult::Undecided } else { TakeBackResult::Taken });
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

    fn set_floor(&mut self, slot: SlotId, priority: i32) {
        self.worker(slot).floor = priority.abs_diff(i32::MIN);
        self.log(|| format!("floor of {slot} is {priority}"));
    }

    fn progress(&self, slot: SlotId) -> RingProgress {
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

    fn spawn(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant) {
        self.spawn_with(slot, context, grant);
    }

    fn retire(&mut self, slot: SlotId) {
        let is_ending = self.is_ending;
        let is_refused = |frame: &Frame| {
            let SimTaskRecord { number, task, .. } = frame.record;
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
        let alone = |entry: &ProgramTask| entry.id == Some(task);
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

impl SimWorld {
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

    /// Processes the result of a call of a batch.
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

/// Handle of a task that was split off a batch.
const SINGLE: u64 = u64::MAX;

/// Returns the numbers that the calls of a batch carry.
fn calls_of(bytes: &[u8]) -> Vec<usize> {
    let mut calls = BatchCalls::new(bytes);
    std::iter::from_fn(|| calls.take().expect("whole calls")).map(number_of).collect()
}
