//! An engine with rings whose workers the test plays.

use std::cell::Cell;
use std::collections::BTreeMap;

use gristmill_core::{
    AnswerOutcome, Attempt, Config, ContextId, Core, Dispatch, Epoch, Floor, FunctionId, Holders,
    KillReason, Loss, LossCause, Origin, Payload, PayloadRef, PeerId, Port, RemoteDispatch,
    RingProgress, Sent, SlotId, Status, StoppedRun, Submission, SubmitError, TakeBackResult,
    TaskId, TaskOptions, WorkerGrant,
};
use gristmill_wire::{AnswerFrame, BatchCalls, PayloadKind, Span, TaskFlags, Verdict, WorkerState};

/// Record that was sent and not answered by the test.
#[derive(Debug, Clone)]
pub struct Sending {
    pub slot: u16,
    pub sequence: u64,
    pub task: TaskId,
    pub attempt: Attempt,
    pub is_nested: bool,
    pub is_extended: bool,
    pub timeout_ns: u64,
    pub devices: u16,
    /// Slots that the task was given, in order.
    pub places: Vec<u16>,
    pub parents: Vec<TaskId>,
}

/// Task that was sent to a peer and not answered by the test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegatedTask {
    pub peer: u16,
    pub task: TaskId,
    pub attempt: Attempt,
    /// Parents, each with true if its value came with the task.
    pub parents: Vec<(TaskId, bool)>,
}

#[derive(Debug, Default)]
pub struct Rings {
    pub sent: Vec<Sending>,
    pub finished: Vec<(TaskId, Status)>,
    pub spawned: Vec<u16>,
    /// Contexts of the spawned workers, in the same order.
    pub contexts: Vec<ContextId>,
    /// Resource grants of the spawned workers, in the same order.
    pub grants: Vec<WorkerGrant>,
    /// Contexts that need not be kept.
    pub unloaded: Vec<ContextId>,
    pub retired: Vec<u16>,
    pub killed: Vec<u16>,
    pub interrupted: Vec<(u16, u64)>,
    /// Clock of the timings.
    pub ticks: u64,
    /// Sequences of the runs whose processes were ended.
    pub ended_runs: Vec<u32>,
    pub progress: [RingProgress; 8],
    pub next: [u64; 8],
    pub asleep: [bool; 8],
    /// Number of times that the engine has checked whether a worker is asleep.
    pub looks: Cell<u32>,
    /// Least priority that may begin in each slot.
    pub floors: Vec<i32>,
    /// Results taken in, by batch.
    pub results: BTreeMap<TaskId, u32>,
    /// Number of claimed calls that a stopped batch reports.
    pub claimed_calls: Option<u32>,
    /// Sequences of the batches that were stopped.
    pub stops: Vec<u64>,
    /// Tasks that each split made.
    pub splits: Vec<Vec<TaskId>>,
    /// Number of calls of each batch that was sent.
    pub calls_sent: Vec<usize>,
    pub room: Option<usize>,
    pub refuses: bool,
    /// The only task that cannot be sent.
    pub unsendable: Option<TaskId>,
    /// Tasks that peers have.
    pub delegated: Vec<DelegatedTask>,
    /// Peers whose links take no more tasks.
    pub full_peers: Vec<u16>,
    /// Peers that have the largest argument of every task, and the time that others need to fetch it.
    pub holders: Vec<u16>,
    pub fetch_ns: u64,
    /// Tasks that peers were asked to stop, and not to start.
    pub stopped: Vec<TaskId>,
    pub withdrawn: Vec<TaskId>,
    /// Peers that were asked to return tasks, each with the number of tasks.
    pub recalled: Vec<(u16, u32)>,
    /// Floors that peers were given, in the order of the messages.
    pub floors_of_peers: Vec<(u16, ContextId, Floor)>,
    /// Floor of each peer and context, with the mark of the floor or of the last task that was sent there since.
    pub marks: BTreeMap<(u16, ContextId), (i32, u32)>,
    /// Peers that were told of vacant workers, each with the number of workers, and the context of the last ones.
    pub vacant: Vec<(u16, u32)>,
    pub vacant_in: ContextId,
    /// Mark that came with the last of these messages.
    pub vacant_at: u32,
}

impl Port for Rings {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let place = usize::from(slot.0);
        if self.refuses || self.unsendable == Some(frame.id) {
            return Sent::Failed(Payload::copy_from(b"too large"));
        }
        if self
            .room
            .is_some_and(|room| self.sent.iter().filter(|one| one.slot == slot.0).count() >= room)
        {
            return Sent::Full;
        }
        if frame.flags.has(TaskFlags::BATCH) {
            self.calls_sent.push(count_calls(frame.payload));
        }
        self.asleep[place] = false;
        let sequence = self.next[place];
        self.next[place] += 1;
        self.sent.push(Sending {
            slot: slot.0,
            sequence,
            task: frame.id,
            attempt: frame.attempt,
            is_nested: frame.flags.has(TaskFlags::NESTED),
            is_extended: frame.extension.is_some(),
            devices: frame.extension.map_or(0, |extension| extension.grant.devices),
            timeout_ns: frame.extension.map_or(0, |extension| extension.timeout_ns),
            places: frame.places.iter().map(|slot| slot.0).collect(),
            parents: frame.parents.map(|(parent, _)| parent).collect(),
        });
        Sent::Written(sequence)
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        for &sequence in sequences {
            if sequence < self.progress[usize::from(slot.0)].claimed {
                taken.push(TakeBackResult::Undecided);
            } else {
                self.sent.retain(|one| (one.slot, one.sequence) != (slot.0, sequence));
                taken.push(TakeBackResult::Taken);
            }
        }
    }

    fn stop_batch(&mut self, _: SlotId, sequence: u64) -> Option<u32> {
        self.stops.push(sequence);
        self.claimed_calls
    }

    fn results(&self, batch: TaskId) -> u32 {
        self.results.get(&batch).copied().unwrap_or(0)
    }

    fn split(&mut self, _: TaskId, rest: &[TaskId]) -> u64 {
        self.splits.push(rest.to_vec());
        0
    }

    fn set_floor(&mut self, slot: SlotId, priority: i32) {
        self.floors[usize::from(slot.0)] = priority;
    }

    fn progress(&self, slot: SlotId) -> RingProgress {
        self.progress[usize::from(slot.0)]
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        self.interrupted.push((slot.0, sequence));
    }

    fn end_started(&mut self, _: SlotId, run: StoppedRun) {
        self.ended_runs.push(run.sequence);
    }

    fn ticks(&self) -> u64 {
        self.ticks
    }

    fn kill(&mut self, slot: SlotId, _: KillReason) {
        self.killed.push(slot.0);
    }

    fn spawn(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant) {
        self.spawned.push(slot.0);
        self.contexts.push(context);
        self.grants.push(grant);
        self.next[usize::from(slot.0)] = 0;
        self.progress[usize::from(slot.0)] = RingProgress::default();
    }

    fn unload_context(&mut self, context: ContextId) {
        self.unloaded.push(context);
    }

    fn retire(&mut self, slot: SlotId) {
        self.retired.push(slot.0);
    }

    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        if self.full_peers.contains(&peer.0) {
            return Sent::Full;
        }
        if self.unsendable == Some(dispatch.task.id) {
            return Sent::Failed(Payload::copy_from(b"too large"));
        }
        let extension = dispatch.task.extension;
        let context = extension.map_or(ContextId(0), |extension| extension.context);
        if let Some((floor, mark)) = self.marks.get_mut(&(peer.0, context)) {
            *mark += u32::from(*floor != i32::MIN);
        }
        let parents = dispatch.parents.map(|(parent, _, value)| (parent, value.is_some()));
        self.delegated.push(DelegatedTask {
            peer: peer.0,
            task: dispatch.task.id,
            attempt: dispatch.task.attempt,
            parents: parents.collect(),
        });
        Sent::Written(0)
    }

    fn holders(&self, _: &Payload, _: PeerId) -> Holders {
        let peers = self.holders.iter().map(|&peer| PeerId(peer)).collect();
        Holders { peers, fetch_ns: self.fetch_ns }
    }

    fn stop_at_peer(&mut self, _: PeerId, task: TaskId, _: Attempt, _: u64) {
        self.stopped.push(task);
    }

    fn withdraw_from_peer(&mut self, _: PeerId, task: TaskId, _: Attempt) {
        self.withdrawn.push(task);
    }

    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        self.recalled.push((peer.0, count));
    }

    fn floor_at_peer(&mut self, peer: PeerId, context: ContextId, (floor, mark): (Floor, u32)) {
        self.floors_of_peers.push((peer.0, context, floor));
        self.marks.insert((peer.0, context), (floor.highest(), mark));
    }

    fn tell_vacant(&mut self, peer: PeerId, context: ContextId, (count, mark): (u32, u32)) {
        self.vacant.push((peer.0, count));
        self.vacant_in = context;
        self.vacant_at = mark;
    }

    fn finished(&mut self, task: TaskId, _: u64, status: Status) {
        self.finished.push((task, status));
    }

    fn is_asleep(&self, slot: SlotId) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.asleep[usize::from(slot.0)]
    }
}

fn count_calls(payload: &Payload) -> usize {
    let PayloadRef::Bytes(bytes) = payload.get() else { panic!("calls are bytes") };
    let mut calls = BatchCalls::new(bytes);
    std::iter::from_fn(|| calls.take().unwrap()).count()
}

/// An engine and its environment.
pub struct Engine {
    pub core: Core,
    pub port: Rings,
    pub now: u64,
    /// Worker state that answers report.
    pub worker_state: WorkerState,
    /// Name of what workers load when they die.
    pub loading: &'static str,
}

/// Returns an engine whose workers are up.
pub fn engine(workers: u16) -> Engine {
    engine_with(Config { workers, spare_max: 0, ..Config::default() })
}

/// Returns an engine with this configuration whose workers are up.
pub fn engine_with(config: Config) -> Engine {
    let mut engine = starting(config);
    for slot in engine.port.spawned.clone() {
        engine.up(slot);
    }
    engine
}

/// Returns an engine whose workers were asked for.
pub fn starting(config: Config) -> Engine {
    let mut engine = Engine {
        core: Core::new(config),
        port: Rings { floors: vec![i32::MIN; 8], ..Rings::default() },
        loading: "",
        now: 1_000,
        worker_state: WorkerState::Hot,
    };
    engine.core.start(engine.now, &mut engine.port);
    engine
}

impl Engine {
    pub fn up(&mut self, slot: u16) {
        self.core.slot_ready(SlotId(slot), Epoch(1), self.now, &mut self.port);
    }

    pub fn submit(&mut self) -> TaskId {
        self.submit_as(&[], None, Origin::External).unwrap()
    }

    /// Submits a batch of this many calls.
    pub fn submit_batch(&mut self, calls: u32) -> TaskId {
        let mut payload = Vec::new();
        for number in 0..calls {
            BatchCalls::append(&number.to_le_bytes(), &mut payload).unwrap();
        }
        let submission = Submission {
            function: FunctionId(0),
            payload: Payload::from(payload),
            handle: 0,
            submitted_ticks: 0,
            parents: &[],
            options: None,
            origin: Origin::External,
        };
        self.core.submit_batch(submission, calls, self.now, &mut self.port).unwrap()
    }

    pub fn submit_with(&mut self, options: TaskOptions) -> TaskId {
        self.submit_as(&[], Some(options), Origin::External).unwrap()
    }

    pub fn submit_after(&mut self, parents: &[TaskId]) -> TaskId {
        self.submit_as(parents, None, Origin::External).unwrap()
    }

    pub fn submit_from(&mut self, parent: TaskId) -> TaskId {
        let slot = self.core.task(parent).unwrap().slot.unwrap();
        self.submit_as(&[], None, Origin::Nested { slot, parent }).unwrap()
    }

    pub fn submit_as(
        &mut self,
        parents: &[TaskId],
        options: Option<TaskOptions>,
        origin: Origin,
    ) -> Result<TaskId, SubmitError> {
        let submission = Submission {
            function: FunctionId(0),
            payload: Payload::EMPTY,
            handle: 0,
            submitted_ticks: 0,
            parents,
            options: options.as_ref(),
            origin,
        };
        self.core.submit(submission, self.now, &mut self.port)
    }

    /// Returns the worker's record of a task.
    pub fn record(&self, task: TaskId) -> Sending {
        self.port.sent.iter().find(|one| one.task == task).expect("it was sent").clone()
    }

    pub fn is_sent(&self, task: TaskId) -> bool {
        self.port.sent.iter().any(|one| one.task == task)
    }

    /// Claims and starts a task on its worker.
    pub fn start(&mut self, task: TaskId) {
        let record = self.record(task);
        let progress = &mut self.port.progress[usize::from(record.slot)];
        progress.claimed = record.sequence + 1;
        progress.started = record.sequence + 1;
        progress.started_at_ns = self.now;
    }

    /// Claims a record on its worker and answers it after `ran_ns`.
    pub fn answer_in(&mut self, task: TaskId, verdict: Verdict, ran_ns: u64) -> AnswerOutcome {
        let record = self.record(task);
        self.port.sent.retain(|one| one.task != task);
        let progress = &mut self.port.progress[usize::from(record.slot)];
        progress.claimed = progress.claimed.max(record.sequence + 1);
        if verdict.has_started() {
            progress.started = progress.started.max(record.sequence + 1);
            progress.ended = record.sequence + 1;
        }
        self.answer_record(&record, verdict, ran_ns)
    }

    pub fn answer(&mut self, task: TaskId, verdict: Verdict) -> AnswerOutcome {
        self.answer_in(task, verdict, 1_000)
    }

    /// Delivers an answer, whatever the record's state.
    pub fn answer_record(
        &mut self,
        record: &Sending,
        verdict: Verdict,
        ran_ns: u64,
    ) -> AnswerOutcome {
        let frame = AnswerFrame {
            task: record.task,
            sequence: u32::try_from(record.sequence).unwrap(),
            attempt: record.attempt,
            verdict,
            payload: PayloadKind::Inline,
            worker_state: self.worker_state,
            started_ticks: 1,
            claimed_before: Span::from_ticks(2),
            ran: Span::from_ticks(ran_ns),
            published_after: Span::from_ticks(3),
            payload_size: 0,
        };
        let slot = SlotId(record.slot);
        self.core.answered(slot, &frame, Payload::copy_from(b"x"), self.now, &mut self.port)
    }

    /// Reports the death of a worker.
    pub fn lose(&mut self, slot: u16) {
        self.port.sent.retain(|one| one.slot != slot);
        let progress = self.port.progress[usize::from(slot)];
        let loss = Loss {
            cause: LossCause::Signal(9),
            pid: 7,
            oom: false,
            detail: "last words".into(),
            loading: self.loading.into(),
            progress,
        };
        self.core.slot_lost(SlotId(slot), Epoch(1), loss, self.now, &mut self.port);
    }

    /// Lets time pass, and polls the engine whenever it asks for it.
    pub fn pass(&mut self, ns: u64) {
        let until = self.now + ns;
        while let Some(wake) = self.core.next_wake(self.now).filter(|&wake| wake <= until) {
            self.now = wake.max(self.now + 1);
            self.core.poll(self.now, &mut self.port);
        }
        self.now = until;
        self.core.poll(self.now, &mut self.port);
    }

    pub fn status(&self, task: TaskId) -> Option<Status> {
        self.core.task(task).expect("it is not released").status
    }

    /// Lets a call end after `ran_ns`, so that the engine learns the run time of the function.
    pub fn teach(&mut self, ran_ns: u64) {
        let task = self.submit();
        let _outcome = self.answer_in(task, Verdict::Returned, ran_ns);
        self.core.release(task);
        self.port.finished.clear();
    }

    /// Ends the function often enough that it may run in the waits of parents.
    pub fn earn(&mut self, ran_ns: u64) {
        (0..100).for_each(|_| self.teach(ran_ns));
    }
}
