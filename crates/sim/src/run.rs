//! One seed from its first task to its last process.

use std::collections::BTreeMap;

use gristmill_core::{
    Budgets, CancelMode, CancelOutcome, Config, Core, Loss, LossCause, Origin, Payload, SlotState,
    StartFailure, Status, Submission, SubmitError, TaskId,
};
use gristmill_wire::FunctionId;

use crate::plan::Plan;
use crate::random::Random;
use crate::worker::{Message, Worker};
use crate::world::{Entry, World};

/// Steps after which a seed is said to hang: the longest one needs a tenth.
const STEPS_MAX: u64 = 200_000;
/// Kinds of steps.
const KINDS: u64 = 16;

/// What one seed did.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Steps.
    pub steps: u64,
    /// Tasks by final state.
    pub finished: [u64; Status::COUNT],
    /// Workers lost.
    pub losses: u64,
    /// Tasks taken back from one worker for another.
    pub stolen: u64,
    /// Answers of given-up placements.
    pub stale: u64,
    /// What happened, if asked for.
    pub trace: Vec<String>,
}

/// A machine, its world and the choices of a seed.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) core: Core,
    pub(crate) world: World,
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    submitted: u64,
    is_closed: bool,
    steps: u64,
}

impl Simulation {
    /// Sets a seed up; with a trace if asked for.
    #[must_use]
    pub fn new(seed: u64, with_trace: bool) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random);
        let config: Config = plan.config.clone();
        let world = World {
            workers: (0..config.slot_count()).map(|_| Worker::default()).collect(),
            ledger: Vec::new(),
            batches: BTreeMap::new(),
            ring_max: plan.ring_max,
            now: 1,
            trace: with_trace.then(Vec::new),
        };
        let core = Core::new(config);
        Self { core, world, plan, random, submitted: 0, is_closed: false, steps: 0 }
    }

    /// The trace so far.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.world.trace.as_deref().unwrap_or_default()
    }

    /// Runs the seed.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn run(&mut self) -> Report {
        self.core.start(self.world.now, &mut self.world);
        while !(self.submitted == self.plan.tasks && self.core.is_drained()) {
            self.step();
        }
        if !self.is_closed {
            self.close(false);
        }
        while !self.core.is_empty() {
            self.step();
        }
        self.check_end()
    }

    fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "it goes on and on");
        if self.steps.is_multiple_of(5) {
            self.core.audit();
        }
        self.world.now += self.random.below(300);
        let wake = self.core.next_wake(self.world.now);
        assert!(wake.is_none() || self.core.has_obligations(), "a wake-up that nobody owes");
        let first = self.random.below(KINDS);
        if (0..KINDS).any(|kind| self.act((first + kind) % KINDS)) {
            return;
        }
        self.spread();
        let is_impatient = self.random.chance(2);
        if is_impatient && let Some(number) = self.world.hanging() {
            self.stop(number);
            return;
        }
        let later = [self.core.next_wake(self.world.now), self.world.next_end()];
        if let Some(later) = later.into_iter().flatten().min() {
            self.world.now = self.world.now.max(later);
            self.poll();
        } else if let Some(number) = self.world.hanging() {
            self.stop(number);
        } else {
            let stats = self.core.stats();
            panic!("nothing can happen any more: {stats:?}");
        }
    }

    /// Ends a task that would run for ever.
    fn stop(&mut self, number: usize) {
        let outcome = self.cancel(number, CancelMode::Running { grace_ns: None });
        assert_eq!(outcome, Some(CancelOutcome::Requested), "it runs, so it can be stopped");
    }

    fn act(&mut self, kind: u64) -> bool {
        let place = self.random.index(self.world.workers.len());
        match kind {
            0..=4 => (0..self.world.workers.len()).any(|offset| {
                let slot = (place + offset) % self.world.workers.len();
                self.world.work(slot, &self.plan, &mut self.random)
            }),
            5..=8 => self.drain_some(place),
            9 | 10 => self.submit_some(),
            11 => self.random.chance(self.plan.cancels) && self.cancel_some(),
            12 => self.random.chance(self.plan.releases) && self.release_some(),
            13 => self.notice(place),
            14 => self.fault(place),
            _ => self.poll_if_due(),
        }
    }

    fn poll_if_due(&mut self) -> bool {
        if self.plan.shuts_down && !self.is_closed && self.random.chance(3) {
            let cancels = self.random.chance(50);
            self.submitted = self.plan.tasks;
            self.close(cancels);
            return true;
        }
        let is_due = self.core.next_wake(self.world.now).is_some_and(|at| at <= self.world.now);
        if is_due {
            self.poll();
        } else if self.random.chance(10) {
            self.spread();
        }
        is_due
    }

    fn spread(&mut self) {
        self.core.spread(self.world.now, &mut self.world);
        self.core.audit_spread();
    }

    fn poll(&mut self) {
        self.core.poll(self.world.now, &mut self.world);
    }

    fn close(&mut self, cancels: bool) {
        self.is_closed = true;
        self.world.log(|| format!("shut down, cancels: {cancels}"));
        if cancels {
            for entry in &mut self.world.ledger {
                entry.may_cancel = true;
            }
        }
        self.core.shut_down(cancels, self.world.now, &mut self.world);
    }

    fn submit_some(&mut self) -> bool {
        if self.submitted >= self.plan.tasks {
            return false;
        }
        if let Err(error) = self.core.admit(&Origin::External) {
            match error {
                SubmitError::LimitReached { .. } => return false,
                _ => self.submitted = self.plan.tasks,
            }
            return true;
        }
        self.submitted += 1;
        if self.random.chance(self.plan.batches) && self.plan.config.budgets == Budgets::default() {
            self.submit_batch();
            return true;
        }
        let number = self.submit(Origin::External, 0);
        assert!(number.is_some(), "what is admitted is accepted");
        true
    }

    /// Submits a task of the program or of a task; `None` when it is refused.
    fn submit(&mut self, origin: Origin, depth: u64) -> Option<usize> {
        let number = self.world.ledger.len();
        let parents = if depth == 0 { self.draw_parents() } else { Vec::new() };
        let ids: Vec<TaskId> =
            parents.iter().filter_map(|&parent| self.world.ledger[parent].id).collect();
        let options = self.plan.draw_options(&mut self.random, self.world.now);
        let budgets =
            options.and_then(|options| options.budgets).unwrap_or(self.plan.config.budgets);
        let has_time = options
            .is_some_and(|options| options.timeout_ns.is_some() || options.deadline_ns.is_some());
        self.world.log(|| format!("submit {number} with {parents:?}, {origin:?}, {options:?}"));
        self.world.ledger.push(Entry {
            parents,
            depth,
            starts_max: 1
                + u64::from(budgets.retries)
                + u64::from(budgets.loss_retries)
                + u64::from(budgets.timeout_retries),
            may_cancel: depth > 0,
            has_time,
            is_unsendable: self.random.chance(1),
            ..Entry::default()
        });
        let submission = Submission {
            function: FunctionId(u32::try_from(self.random.below(3)).expect("small")),
            payload: Payload::copy_from(&(number as u64).to_le_bytes()),
            handle: number as u64,
            submitted_ticks: self.world.now,
            parents: &ids,
            options: options.as_ref(),
            origin,
        };
        match self.core.submit(submission, self.world.now, &mut self.world) {
            Ok(id) => {
                self.world.ledger[number].id = Some(id);
                Some(number)
            }
            Err(error) => {
                self.world.log(|| format!("refused {number}: {error}"));
                self.world.ledger.pop();
                None
            }
        }
    }

    fn draw_parents(&mut self) -> Vec<usize> {
        let known: Vec<usize> = (0..self.world.ledger.len())
            .filter(|&number| {
                let entry = &self.world.ledger[number];
                !entry.is_released && entry.id.is_some()
            })
            .collect();
        let mut parents = Vec::new();
        while !known.is_empty() && parents.len() < 6 && self.random.chance(self.plan.parents) {
            let recent = known.len().min(8);
            parents.push(known[known.len() - 1 - self.random.index(recent)]);
        }
        parents
    }

    fn cancel_some(&mut self) -> bool {
        if self.world.ledger.is_empty() {
            return false;
        }
        let number = self.random.index(self.world.ledger.len());
        let grace_ns = self.random.chance(50).then(|| self.random.below(1_000_000));
        let mode = if self.random.chance(50) {
            CancelMode::Unstarted
        } else {
            CancelMode::Running { grace_ns }
        };
        self.cancel(number, mode).is_some()
    }

    fn cancel(&mut self, number: usize, mode: CancelMode) -> Option<CancelOutcome> {
        let entry = &mut self.world.ledger[number];
        if let Some((batch, _)) = entry.batch {
            return self.cancel_batch(batch, mode);
        }
        let (id, before) = (entry.id?, entry.may_cancel);
        let was_final = entry.status.is_some();
        entry.may_cancel = true;
        let outcome = self.core.cancel(id, mode, self.world.now, &mut self.world);
        self.world.log(|| format!("cancel {number} {mode:?}: {outcome:?}"));
        let entry = &mut self.world.ledger[number];
        match outcome {
            CancelOutcome::Cancelled => assert_eq!(entry.status, Some(Status::Cancelled)),
            CancelOutcome::AlreadyRunning => entry.may_cancel = before,
            CancelOutcome::AlreadyFinal => assert!(was_final, "only a final task is final"),
            CancelOutcome::Requested | CancelOutcome::Asked => {}
        }
        Some(outcome)
    }

    fn release_some(&mut self) -> bool {
        if self.world.ledger.is_empty() {
            return false;
        }
        let number = self.random.index(self.world.ledger.len());
        let entry = &mut self.world.ledger[number];
        if let Some((batch, _)) = entry.batch {
            return self.release_batch(batch);
        }
        let Some(id) = entry.id.filter(|_| !entry.is_released) else { return false };
        entry.is_released = true;
        self.core.release(id);
        true
    }

    fn drain_some(&mut self, place: usize) -> bool {
        let count = self.world.workers.len();
        let found = (0..count)
            .map(|offset| (place + offset) % count)
            .find(|&slot| self.world.workers[slot].published > 0);
        let Some(slot) = found else { return false };
        let batch = 1 + self.random.below(4);
        for _ in 0..batch {
            if self.world.workers[slot].published == 0 {
                break;
            }
            self.drain_one(slot);
        }
        true
    }

    fn drain_one(&mut self, place: usize) {
        let worker = &mut self.world.workers[place];
        worker.published -= 1;
        let message = worker.results.pop_front().expect("it was published");
        let (slot, now) = (World::slot(place), self.world.now);
        match message {
            Message::Answer(frame, payload) => {
                let _outcome = self.core.answered(slot, &frame, payload, now, &mut self.world);
            }
            Message::Result(batch, number, verdict) => {
                self.world.take_result(batch, number, verdict);
            }
            Message::Wait(task, on) => {
                self.world.log(|| format!("{task} in {slot} waits: {on}"));
                self.core.waiting(slot, task, on, now, &mut self.world);
            }
            Message::Request(parent, number) => {
                let depth = self.depth_of(parent);
                let child = self.submit(Origin::Nested { slot, parent }, depth + 1);
                let stack = &mut self.world.workers[place].stack;
                if let Some(frame) = stack.iter_mut().find(|one| one.record.number == number) {
                    frame.requested -= 1;
                    frame.children.extend(child);
                }
            }
        }
    }

    fn depth_of(&self, task: TaskId) -> u64 {
        let known = self.world.ledger.iter().find(|entry| entry.id == Some(task));
        known.map_or(3, |entry| entry.depth)
    }

    /// Gives the notice of a start or of a death.
    fn notice(&mut self, place: usize) -> bool {
        let count = self.world.workers.len();
        let has_news = |worker: &Worker| {
            worker.is_starting || (worker.is_up && (worker.dead.is_some() || worker.is_retired))
        };
        let found = (0..count)
            .map(|offset| (place + offset) % count)
            .find(|&slot| has_news(&self.world.workers[slot]));
        let Some(slot) = found else { return false };
        if self.world.workers[slot].is_starting {
            self.start(slot)
        } else {
            self.die(slot)
        }
        true
    }

    fn start(&mut self, place: usize) {
        let (slot, now) = (World::slot(place), self.world.now);
        let worker = &mut self.world.workers[place];
        worker.is_starting = false;
        if self.random.chance(self.plan.start_failures) {
            self.world.log(|| format!("{slot} does not start"));
            let permanent = self.random.chance(5);
            let failure = StartFailure { text: "no".into(), permanent, is_expiry: false };
            self.core.slot_failed(slot, failure, now, &mut self.world);
            return;
        }
        worker.is_up = true;
        let epoch = worker.epoch;
        self.world.log(|| format!("{slot} is up"));
        self.core.slot_ready(slot, epoch, now, &mut self.world);
    }

    fn die(&mut self, place: usize) {
        let (slot, now) = (World::slot(place), self.world.now);
        self.world.bury(place);
        while self.world.workers[place].published > 0 {
            self.drain_one(place);
        }
        let worker = &mut self.world.workers[place];
        worker.is_up = false;
        worker.is_retired = false;
        let cause = match worker.dead.take() {
            _ if worker.by_keeper => LossCause::Keeper,
            Some(signal) => LossCause::Signal(signal),
            None => LossCause::Exit(0),
        };
        let (progress, epoch) = (worker.progress, worker.epoch);
        let loss = Loss { cause, pid: 1, oom: false, detail: "gone".into(), progress };
        self.world.log(|| format!("{slot} is lost: {cause:?}, {progress:?}"));
        self.core.slot_lost(slot, epoch, loss, now, &mut self.world);
    }

    fn fault(&mut self, place: usize) -> bool {
        if self.random.chance(self.plan.keeper) {
            self.world.log(|| "the keeper dies".into());
            for worker in self.world.workers.iter_mut().filter(|worker| worker.is_up) {
                worker.dead.get_or_insert(9);
                worker.by_keeper = true;
            }
            return true;
        }
        let worker = &mut self.world.workers[place];
        if !self.random.chance(self.plan.kills) || !worker.is_up || worker.dead.is_some() {
            return false;
        }
        worker.dead = Some(9);
        self.world.log(|| format!("slot {place} is killed from outside"));
        true
    }

    /// Everything is over: nothing may be left.
    fn check_end(&mut self) -> Report {
        for number in 0..self.world.ledger.len() {
            let entry = &self.world.ledger[number];
            assert!(entry.status.is_some(), "task {number} has no final state");
            if let Some(id) = entry.id.filter(|_| !entry.is_released) {
                let view = self.core.task(id).expect("it is not released");
                assert_eq!(view.status, entry.status, "what was told is what is kept");
            }
        }
        for number in 0..self.world.ledger.len() {
            let entry = &self.world.ledger[number];
            if let Some(id) = entry.id.filter(|_| !entry.is_released) {
                self.core.release(id);
            }
        }
        let batches: Vec<TaskId> = self.world.batches.keys().copied().collect();
        batches.into_iter().for_each(|batch| self.core.release(batch));
        self.core.audit();
        assert_eq!(self.core.record_count(), 0, "records outlive their tasks");
        let stats = self.core.stats();
        assert!(stats.slots.iter().all(|slot| slot.state == SlotState::Absent));
        assert_eq!(stats.finished.iter().sum::<u64>(), stats.submitted, "each task ends once");
        Report {
            steps: self.steps,
            finished: stats.finished,
            losses: stats.losses,
            stolen: stats.stolen,
            stale: stats.stale_answers,
            trace: self.world.trace.take().unwrap_or_default(),
        }
    }
}
