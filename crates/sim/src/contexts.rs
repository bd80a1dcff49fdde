//! The contexts of an engine: which there are, how their workers' starts go, and who may have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_client::ContextDefinition;
use gristmill_core::{Config, ContextId, ContextOptions, Outfit, SlotId, Status, TaskId};
use gristmill_wire::{Demand, TaskFlags};

use crate::plan::{Plan, pick};
use crate::random::Random;
use crate::run::Simulation;
use crate::worker::{Message, Record, Worker};
use crate::world::World;

/// No context.
pub const PLAIN: ContextId = ContextId(0);
/// The longest start of a worker with a context.
pub const SETUP_MAX_NS: u64 = 3_000_000;

/// Contexts that are defined, one after the other.
const DEFINITIONS_MAX: u32 = 10;

/// What a seed does with contexts.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContextPlan {
    /// How many it knows at the same time; 0: it has nothing to do with them.
    pub count: usize,
    /// A task that could names one.
    pub named: u64,
    /// One that no task names is forgotten, at a step that could do so.
    pub forgets: u64,
    /// One asks for more than workers.
    pub demands: u64,
    /// Those whose workers do not leave by themselves, a bit each: the rest of the setup does not end.
    pub stay: u64,
}

/// How the starts of workers with a context go, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    /// The longest.
    longest_ns: u64,
    /// It comes to nothing.
    fails: u64,
    /// One that comes to nothing kills the process.
    dies: u64,
    /// One that comes to nothing, and does not, never will be another.
    permanent: u64,
}

/// How a start ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The worker is up.
    Up,
    /// It says that it cannot.
    Failed {
        /// Nobody ever can.
        permanent: bool,
    },
    /// It dies.
    Died,
}

/// What is known of a context, or of workers without one.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub workers_max: u16,
    /// How long it is kept while nobody uses it.
    linger_ns: u64,
    /// What each of its workers has.
    pub demand: Demand,
    setup: Setup,
    /// Its workers do not leave by themselves.
    pub stays: bool,
    pub is_forgotten: bool,
    /// A worker came up with it.
    pub is_proven: bool,
    /// Starts that came to nothing since one did not.
    failures: u32,
    /// One of them for good.
    has_failed_for_good: bool,
    /// When the last worker ended that had not run anything.
    pub fruitless_at: Option<u64>,
}

/// All contexts of an engine.
#[derive(Debug)]
pub struct Contexts {
    pub known: BTreeMap<ContextId, Known>,
    /// What they are called by whoever talks of those of several engines, where that is something else.
    kinds: BTreeMap<ContextId, ContextId>,
    random: Random,
    /// What their demands are drawn from, so that seeds without any stay what they are.
    demands: Random,
    last: u32,
    /// How long a worker keeps its context as long as it has work in it; 0: it may leave for other reasons.
    tenure_ns: u64,
}

impl Default for Contexts {
    fn default() -> Self {
        let plain = Known { workers_max: u16::MAX, is_proven: true, ..Known::default() };
        let known = BTreeMap::from([(PLAIN, plain)]);
        let kinds = BTreeMap::new();
        let (random, demands) = (Random::new(0), Random::new(0));
        Self { known, kinds, random, demands, last: 0, tenure_ns: 0 }
    }
}

impl Plan {
    /// The same with contexts, if the choices would have it: they are not those of the rest, so that seeds without contexts
    /// stay what they are.
    pub fn with_contexts(mut self, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x00c0_17e7);
        if random.chance(50) {
            return self;
        }
        self.contexts = ContextPlan {
            count: 1 + random.index(4),
            named: pick(&mut random, &[20, 60, 95, 100]),
            forgets: pick(&mut random, &[0, 10, 50]),
            demands: pick(&mut Random::new(seed ^ 0x6ea5), &[0, 0, 50, 90]),
            stay: pick(&mut Random::new(seed ^ 0x57a7), &[0, 0, 0b10, 0b10_0100, 0b111_1110]),
        };
        self.tasks *= pick(&mut random, &[1, 2, 4]);
        if random.chance(4) {
            // Whoever needs no context cannot be had, and others can.
            self.start_failures = 100;
        }
        let config = &mut self.config;
        // A step takes 150 ns: what is to happen while others work has to be due within some of them.
        config.context_tenure_ns = pick(&mut random, &[2_000, 50_000, 1_000_000, 100_000_000]);
        config.recheck_ns = pick(&mut random, &[2_000, 50_000, 1_000_000]);
        config.backoff_min_ns = pick(&mut random, &[20_000, 500_000]);
        config.backoff_max_ns = 10 * config.backoff_min_ns;
        config.leave_grace_ns = pick(&mut Random::new(seed ^ 0x1ea7e), &[2_000, 1_000_000]);
        self
    }
}

impl Known {
    /// Draws what one is like.
    pub fn draw(random: &mut Random) -> Self {
        let setup = Setup {
            longest_ns: pick(random, &[1_000, 100_000, SETUP_MAX_NS]),
            fails: pick(random, &[0, 0, 0, 20, 60, 100]),
            dies: pick(random, &[0, 50, 100]),
            permanent: pick(random, &[0, 10, 100]),
        };
        let workers_max = pick(random, &[1, 1, 2, 3, u16::MAX]);
        let linger_ns = pick(random, &[u64::MAX, u64::MAX, 1_000_000]);
        Self { workers_max, linger_ns, setup, ..Self::default() }
    }

    /// What engines are told of it, if its definition is that text.
    pub fn definition(&self, setup: &[u8]) -> ContextDefinition {
        ContextDefinition {
            name: "context".into(),
            setup: setup.into(),
            workers_max: self.workers_max,
            is_fork_safe: true,
            linger_ns: self.linger_ns,
            files: Arc::default(),
            demand: self.demand,
        }
    }
}

impl Contexts {
    /// Those of one of several engines: their starts are drawn from this.
    pub fn of_engine(random: Random) -> Self {
        Self { random, ..Self::default() }
    }

    /// Notes what one is like that an engine has heard of, and what it is called elsewhere.
    pub fn learn(&mut self, id: ContextId, kind: ContextId, known: Known) {
        self.kinds.insert(id, kind);
        self.known.entry(id).or_insert(known);
    }

    /// What one is called in the ledger.
    pub fn kind(&self, id: ContextId) -> ContextId {
        self.kinds.get(&id).copied().unwrap_or(id)
    }

    /// Draws what each worker with a context has.
    fn draw_demand(&mut self, plan: &Plan) -> Demand {
        if plan.contexts.demands == 0 || !self.demands.chance(plan.contexts.demands) {
            return Demand::NONE;
        }
        pick(&mut self.demands, &plan.rooms).draw_demand(&mut self.demands)
    }

    /// Those that tasks may name.
    pub fn named(&self) -> Vec<ContextId> {
        let named = self.known.iter().filter(|(id, one)| **id != PLAIN && !one.is_forgotten);
        named.map(|(&id, _)| id).collect()
    }

    /// Whether none was ever defined.
    pub fn are_none(&self) -> bool {
        self.known.len() == 1
    }

    /// How long a worker takes that is asked for now.
    fn draw_setup_ns(&mut self, context: ContextId) -> u64 {
        let longest_ns = self.known[&context].setup.longest_ns;
        if longest_ns == 0 { 0 } else { self.random.below(longest_ns) }
    }

    /// How the start of a worker with a context ends.
    pub fn draw_start(&mut self, context: ContextId) -> Start {
        let Setup { fails, dies, permanent, .. } = self.known[&context].setup;
        let random = &mut self.random;
        if !random.chance(fails) {
            Start::Up
        } else if random.chance(dies) {
            Start::Died
        } else {
            Start::Failed { permanent: random.chance(permanent) }
        }
    }

    /// Notes how a start has ended.
    pub fn note_start(&mut self, context: ContextId, start: Start, now: u64) {
        let known = self.known.get_mut(&context).expect("only known ones are asked for");
        if start == Start::Up {
            known.is_proven = true;
            known.failures = 0;
            return;
        }
        known.failures += 1;
        known.fruitless_at = Some(now);
        known.has_failed_for_good |= start == Start::Failed { permanent: true };
    }

    /// A worker has ended that had not run anything.
    pub fn note_fruitless(&mut self, context: ContextId, now: u64) {
        self.known.get_mut(&context).expect("it was asked for").fruitless_at = Some(now);
    }

    /// Whether there may be nobody who can have it.
    fn may_be_hopeless(&self, context: ContextId, failures_max: u32) -> bool {
        let known = &self.known[&context];
        known.has_failed_for_good || known.failures >= failures_max
    }
}

impl World {
    /// Whether a task may be refused: nobody can have its context, or any, or it is of a stack that is too deep.
    pub fn may_refuse(&self, number: usize) -> bool {
        let entry = &self.ledger[number];
        let is_hopeless = |context| self.contexts.may_be_hopeless(context, self.start_failures_max);
        !self.is_alone || entry.depth > 0 || is_hopeless(PLAIN) || is_hopeless(entry.context)
    }

    /// Asserts that a task goes to a worker with its context; one without may run in the wait of the task that submitted it,
    /// whatever that one's is.
    ///
    /// # Panics
    /// It does not.
    pub fn check_context(
        &self,
        slot: SlotId,
        number: usize,
        told: Option<ContextId>,
        flags: TaskFlags,
    ) {
        let (entry, worker) = (&self.ledger[number], &self.workers[usize::from(slot.0)]);
        let (wants, has) = (entry.context, self.contexts.kind(worker.context));
        let is_other = |told| self.contexts.kind(told) != wants;
        assert!(!told.is_some_and(is_other), "task {number} is told another context");
        let is_there = |task| worker.dead.is_some() || worker.knows(task);
        let is_home = flags.has(TaskFlags::NESTED) && entry.submitter.is_some_and(is_there);
        assert!(
            has == wants || (wants == PLAIN && is_home),
            "task {number} in {wants:?} was sent to a worker with {has:?}"
        );
    }

    /// Starts a process, if it may have its context and somebody needs it.
    ///
    /// # Panics
    /// Nobody does, or there are as many as may be.
    pub fn spawn_with(&mut self, slot: SlotId, context: ContextId, outfit: Outfit) {
        let start_ends_at = self.now + self.contexts.draw_setup_ns(context);
        let workers = usize::from(self.room.workers);
        if context != PLAIN {
            let known = &self.contexts.known[&context];
            assert!(!known.is_forgotten, "a worker gets a context that was forgotten");
            let has = |one: &&Worker| (one.is_up || one.is_starting) && one.context == context;
            let others = self.workers[..workers].iter().filter(has).count();
            let is_one_more = usize::from(slot.0) < workers;
            assert!(
                !is_one_more || others < usize::from(known.workers_max),
                "{others} workers have {context:?} already"
            );
            let is_coming =
                self.workers.iter().any(|one| one.is_starting && one.context == context);
            assert!(known.is_proven || !is_coming, "the first with {context:?} shows how it goes");
            let needs = |number: &usize| self.needs(*number, context);
            assert!(
                !self.is_alone || (0..self.ledger.len()).any(|number| needs(&number)),
                "nobody needs {context:?}"
            );
        }
        let worker = self.worker(slot);
        assert!(!worker.is_up && !worker.is_starting, "a slot has one process");
        worker.restart();
        (worker.context, worker.start_ends_at) = (context, start_ends_at);
        self.log(|| format!("spawn {slot} with {context:?}, {outfit:?}"));
        self.dress(slot, outfit);
    }

    /// Asserts that a worker that is asked to leave has had its context for some time, or no work in it.
    ///
    /// # Panics
    /// There is some.
    pub fn check_retired(&self, slot: SlotId) {
        let worker = &self.workers[usize::from(slot.0)];
        // What was with one that is dead waits, and the engine has yet to hear of it.
        let is_clear = self.workers.iter().all(|one| one.dead.is_none());
        let is_young = is_clear && worker.up_since + self.contexts.tenure_ns > self.now;
        let is_ordinary = slot.0 < self.room.workers;
        let others = (0..self.ledger.len()).filter(|&number| self.waits(number, worker.context));
        assert!(
            !is_young || !is_ordinary || others.count() == 0,
            "a worker with {} leaves, and tasks wait for one",
            worker.context
        );
    }

    /// Whether a task could begin if a worker with a context had room.
    fn waits(&self, number: usize, context: ContextId) -> bool {
        let entry = &self.ledger[number];
        let has_all = || {
            let is_done = |&parent: &usize| self.ledger[parent].status == Some(Status::Succeeded);
            entry.parents.iter().all(is_done)
        };
        let Some(id) = entry.id.filter(|_| self.needs(number, context)) else { return false };
        let is_unclaimed = |record: &Record| record.task == id && !record.revoked;
        has_all()
            && !self.workers.iter().any(|one| one.knows(id) || one.ring.iter().any(is_unclaimed))
    }

    fn needs(&self, number: usize, context: ContextId) -> bool {
        let entry = &self.ledger[number];
        entry.status.is_none() && entry.context == self.contexts.kind(context)
    }
}

impl Worker {
    /// Whether a task runs here or may, or its answer is under way.
    fn knows(&self, task: TaskId) -> bool {
        let is_answered =
            |message: &Message| matches!(message, Message::Answer(frame, _) if frame.task == task);
        let frames = self.stack.iter().chain(self.batch.iter().map(|(frame, _)| frame));
        let records = frames.map(|frame| &frame.record);
        records.chain(self.claimed.iter().map(|(record, _)| record)).any(|one| one.task == task)
            || self.results.iter().any(is_answered)
    }
}

impl Simulation {
    /// Makes the seed's contexts known from which it starts.
    pub(crate) fn define_first(&mut self, seed: u64) {
        let count = self.plan.contexts.count;
        if count > 0 {
            self.world.contexts.random = Random::new(seed ^ 0x5e70);
            self.world.contexts.demands = Random::new(seed ^ 0x6ea5_0de0);
            let Config { context_tenure_ns, cores, tasks_per_worker_max, .. } = self.plan.config;
            let demands = self.plan.demands + self.plan.contexts.demands;
            let leaves_idle = cores < u32::MAX || demands > 0;
            if !leaves_idle && tasks_per_worker_max == 0 {
                self.world.contexts.tenure_ns = context_tenure_ns;
            }
            let first = self.world.contexts.random.index(count + 1);
            (0..first).for_each(|_| self.define());
        }
    }

    fn define(&mut self) {
        let contexts = &mut self.world.contexts;
        contexts.last += 1;
        let (id, mut known) = (ContextId(contexts.last), Known::draw(&mut contexts.random));
        known.demand = contexts.draw_demand(&self.plan);
        known.stays = self.plan.contexts.stay >> contexts.last & 1 == 1;
        let Known { workers_max, linger_ns, demand, .. } = known;
        let options = ContextOptions { workers_max, linger_ns, demand };
        self.world.log(|| format!("define {id:?}: {known:?}"));
        self.world.contexts.known.insert(id, known);
        self.core.define_context(id, options);
    }

    /// Makes another context known, or forgets one that no task names.
    pub(crate) fn change_contexts(&mut self) -> bool {
        let named = self.world.contexts.named();
        let is_last = self.world.contexts.last >= DEFINITIONS_MAX;
        if named.len() < self.plan.contexts.count && !is_last && self.random.chance(20) {
            self.define();
            return true;
        }
        if named.is_empty() || is_last || !self.random.chance(self.plan.contexts.forgets) {
            return false;
        }
        let id = named[self.random.index(named.len())];
        if (0..self.world.ledger.len()).any(|number| self.world.needs(number, id)) {
            return false;
        }
        self.world.log(|| format!("forget {id:?}"));
        self.world.contexts.known.get_mut(&id).expect("it is named").is_forgotten = true;
        self.core.forget_context(id, self.world.now, &mut self.world);
        true
    }
}
