//! One seed from its first task to its last process.

use gristmill_core::{
    Budgets, CancelMode, CancelOutcome, Config, ContextId, Core, Origin, SlotState, Status,
    SubmitError, TaskId, TaskOutcome,
};

use crate::drive::{Drive, why};
use crate::fairness::Watch;
use crate::plan::Plan;
use crate::precedence::Precedence;
use crate::random::{SeededRandom, draw_grace};
use crate::world::SimWorld;

/// Number of steps after which a seed counts as hanging: the longest one needs a tenth.
const STEPS_MAX: u64 = 200_000;
/// Number of steps between two checks of waiting tasks: states that last too long last for hundreds of steps.
const LOOK_STEPS: u64 = 8;
/// Number of kinds of steps; one more if there are contexts.
const KINDS: u64 = 16;

/// Report of one seed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Number of steps.
    pub steps: u64,
    /// Number of tasks by final state.
    pub finished: [u64; Status::COUNT],
    /// Number of lost workers.
    pub losses: u64,
    /// Number of tasks that were taken back from one worker for another.
    pub stolen: u64,
    /// Number of answers of placements that were given up.
    pub stale: u64,
    /// Trace of all events, if requested.
    pub trace: Vec<String>,
}

/// An engine, its world and the choices of a seed.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) core: Core,
    pub(crate) world: SimWorld,
    pub(crate) plan: Plan,
    pub(crate) random: SeededRandom,
    watch: Watch,
    precedence: Precedence,
    submitted: u64,
    is_closed: bool,
    steps: u64,
}

impl Simulation {
    /// Sets up a seed; with a trace if requested.
    #[must_use]
    pub fn new(seed: u64, with_trace: bool) -> Self {
        let mut random = SeededRandom::new(seed);
        let plan = Plan::draw(&mut random).with_contexts(seed);
        let config: Config = plan.config.clone();
        let memory = plan.memory();
        let trace = with_trace.then(Vec::new);
        let world = SimWorld { trace, ..SimWorld::new(&config, plan.ring_max, memory) };
        let core = Core::new(config);
        let (watch, precedence) = (Watch::default(), Precedence::default());
        let mut simulation = Self {
            core,
            world,
            plan,
            random,
            watch,
            precedence,
            submitted: 0,
            is_closed: false,
            steps: 0,
        };
        simulation.define_first(seed);
        simulation
    }

    /// Returns the trace so far.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.world.trace.as_deref().unwrap_or_default()
    }

    /// Runs the seed.
    ///
    /// # Panics
    /// If an invariant does not hold.
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
        self.world.memory.free(self.core.freed_blocks());
        self.world.started.clear();
        self.world.now += self.random.below(300);
        let wake = self.core.next_wake(self.world.now);
        assert!(wake.is_none() || self.core.has_obligations(), "a wake-up that no thread owes");
        if self.steps.is_multiple_of(LOOK_STEPS) {
            self.watch();
        }
        let kinds = KINDS + u64::from(self.plan.contexts.count > 0);
        let first = self.random.below(kinds);
        if (0..kinds).any(|kind| self.act((first + kind) % kinds)) {
            return;
        }
        self.spread();
        if (0..kinds).any(|kind| self.act(kind)) {
            return;
        }
        let is_impatient = self.random.chance(2);
        if is_impatient && let Some(number) = self.world.hanging() {
            self.stop(number);
            return;
        }
        let later = [self.core.next_wake(self.world.now), self.world.next_end()];
        if let Some(later) = later.into_iter().flatten().min() {
            self.watch();
            self.world.now = self.world.now.max(later);
            self.poll();
        } else if let Some(number) = self.world.hanging() {
            self.stop(number);
        } else {
            let stats = self.core.stats();
            panic!("nothing can happen any more: {stats:?}");
        }
    }

    /// Ends a task that would run forever.
    fn stop(&mut self, number: usize) {
        let outcome = self.cancel(number, CancelMode::Running { grace_ns: None });
        assert_eq!(outcome, Some(CancelOutcome::Requested), "it runs, so it can be stopped");
    }

    fn drive(&mut self) -> Drive<'_, SimWorld> {
        let Self { core, world, plan, random, .. } = self;
        Drive { core, port: world, plan, random }
    }

    fn act(&mut self, kind: u64) -> bool {
        let place = self.random.index(self.world.workers.len());
        match kind {
            0..=4 => (0..self.world.workers.len()).any(|offset| {
                let slot = (place + offset) % self.world.workers.len();
                self.world.work(slot, &self.plan, &mut self.random)
            }),
            5..=8 => self.drive().drain_some(place),
            9 | 10 => self.submit_some(),
            11 => self.random.chance(self.plan.cancels) && self.cancel_some(),
            12 => self.random.chance(self.plan.releases) && self.release_some(),
            13 => self.drive().notice(place),
            14 => self.drive().fault(place),
            16 => self.change_contexts(),
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
                SubmitError::LimitReached { .. } | SubmitError::BytesReached { .. } => {
                    return false;
                }
                _ => self.submitted = self.plan.tasks,
            }
            return true;
        }
        self.submitted += 1;
        if self.random.chance(self.plan.batches) && self.plan.config.budgets == Budgets::default() {
            self.submit_batch();
            return true;
        }
        let parents = self.drive().draw_parents();
        let number = self.drive().submit((Origin::External, None), parents);
        assert!(number.is_ok(), "an admitted task is accepted");
        true
    }

    fn cancel_some(&mut self) -> bool {
        if self.world.ledger.is_empty() {
            return false;
        }
        let number = self.random.index(self.world.ledger.len());
        let grace_ns = self.random.chance(50).then(|| draw_grace(&mut self.random, 1_000_000));
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

    fn watch(&mut self) {
        if let Some(complaint) = self.precedence.look(&self.core, &mut self.world) {
            panic!("{complaint}");
        }
        if self.world.contexts.are_none() {
            return;
        }
        let config = &self.plan.config;
        if let Some(complaint) = self.watch.look(&self.core, &self.world, config) {
            panic!("{complaint}");
        }
    }

    /// Asserts that a task which is refused because of failed starts gets a failure of its own context, or of workers without
    /// one, which every task needs.
    fn check_refusals(&self) {
        for entry in &self.world.ledger {
            let Some(id) = entry.id.filter(|_| !entry.is_released) else { continue };
            if let Some(TaskOutcome::StartFailed(failure) | TaskOutcome::ContextFailed(failure)) =
                self.core.outcome(id)
            {
                let is_its = [ContextId(0), entry.context].map(why).contains(&failure.text);
                assert!(is_its, "a task in {} is refused as {}", entry.context, failure.text);
            }
        }
    }

    /// Asserts that nothing is left at the end, and returns the report.
    fn check_end(&mut self) -> Report {
        for number in 0..self.world.ledger.len() {
            let entry = &self.world.ledger[number];
            assert!(entry.status.is_some(), "task {number} has no final state");
            if let Some(id) = entry.id.filter(|_| !entry.is_released) {
                let view = self.core.task(id).expect("it is not released");
                assert_eq!(view.status, entry.status, "the reported tasks are those that are kept");
            }
        }
        self.world.check_values(&self.core);
        self.check_refusals();
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
        self.world.memory.free(self.core.freed_blocks());
        assert_eq!(self.world.memory.block_count(), 0, "payloads outlive their tasks");
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
