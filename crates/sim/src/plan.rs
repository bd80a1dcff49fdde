//! Plan of a seed's program: the number of tasks, the faults, and their likelihoods.

use gristmill_core::{Budgets, Config, TaskOptions};
use gristmill_wire::ResourceRequest;

use crate::capacity::EngineCapacity;
use crate::contexts::ContextPlan;
use crate::memory::SimMemory;
use crate::random::{SeededRandom, draw_grace, pick};
use crate::worker::Course;

/// Longest run of a task that ends by itself, nanoseconds.
pub(crate) const RUN_MAX_NS: u64 = 500_000;
/// Numbers of records that a ring may hold.
const RINGS: [usize; 4] = [1, 2, 5, 100];

/// Likelihoods of one seed, in percent, and its sizes: drawn once, so that seeds differ in kind.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of tasks that the program submits itself.
    pub tasks: u64,
    /// Likelihood that a task runs for long, and the longest run, nanoseconds.
    pub long: (u64, u64),
    /// Likelihood that a task has parents.
    pub parents: u64,
    /// Likelihood that a task submits tasks.
    pub nested: u64,
    /// Likelihood that a task raises.
    pub raises: u64,
    /// Likelihood that a task ends its worker.
    pub exits: u64,
    /// Likelihood that a task runs until it is stopped.
    pub hangs: u64,
    /// Likelihood that a hanging task ignores the interrupt.
    pub ignores: u64,
    /// Likelihood that a submission of the program is a batch.
    pub batches: u64,
    /// Likelihood that a task has options.
    pub options: u64,
    /// Likelihood that a task requests memory, GPUs or several CPU slots.
    pub demands: u64,
    /// Capacities; each task with such a request fits into one of these.
    pub rooms: Vec<EngineCapacity>,
    /// Plan for contexts.
    pub contexts: ContextPlan,
    /// Likelihood that a step of the program cancels a task.
    pub cancels: u64,
    /// Likelihood that a step kills a worker.
    pub kills: u64,
    /// Likelihood that a step kills the keeper, and with it every worker.
    pub keeper: u64,
    /// Likelihood that a start fails.
    pub start_failures: u64,
    /// Likelihood that a future is dropped before its task ends.
    pub releases: u64,
    /// True if the program shuts down before its tasks have ended.
    pub shuts_down: bool,
    /// Number of nested waits that fit on a worker's stack.
    pub stack_max: usize,
    /// Number of records that fit into a ring.
    pub ring_max: usize,
    /// Size to which payloads are padded, and size from which on they are large, bytes; 0 if none is.
    pub payload_sizes: (usize, usize),
    /// Configuration of the engine.
    pub config: Config,
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &mut SeededRandom) -> Self {
        let workers = 1 + u16::try_from(random.below(4)).expect("small");
        let config = Config {
            workers,
            workers_min: u16::try_from(random.below(5)).expect("small"),
            spare_max: u16::try_from(random.below(4)).expect("small"),
            outstanding_max: if random.chance(20) { 4 } else { 1 << 20 },
            overflow_max: if random.chance(10) { 8 } else { 1 << 20 },
            depth_max: 2 + u32::try_from(random.below(12)).expect("small"),
            unknown_run_ns: if random.chance(50) { 1_000 } else { 1_000_000 },
            cores: pick(random, &[1, 2, 3, u32::MAX]),
            tasks_per_worker_max: if random.chance(15) { 3 } else { 0 },
            budgets: Budgets {
                loss_retries: if random.chance(20) { 2 } else { 0 },
                ..Budgets::default()
            },
            grace_ns: 3_000_000,
            supply: EngineCapacity::draw_supply(random),
            numa_nodes: EngineCapacity::numa_nodes(workers),
            ..Config::default()
        };
        let mut plan = Self {
            tasks: 5 + random.below(60),
            long: (20, RUN_MAX_NS),
            parents: pick(random, &[0, 20, 60, 95]),
            nested: pick(random, &[0, 0, 10, 40]),
            raises: pick(random, &[0, 5, 20]),
            exits: pick(random, &[0, 0, 5, 20]),
            hangs: pick(random, &[0, 10, 40]),
            ignores: 50,
            batches: pick(random, &[0, 0, 20, 90]),
            options: pick(random, &[0, 20, 80]),
            demands: pick(random, &[0, 0, 10, 60]),
            rooms: vec![EngineCapacity::of(&config)],
            contexts: ContextPlan::default(),
            cancels: pick(random, &[0, 5, 20]),
            kills: pick(random, &[0, 0, 1, 3]),
            keeper: pick(random, &[0, 0, 0, 1]),
            start_failures: pick(random, &[0, 0, 10, 60]),
            releases: pick(random, &[0, 20, 80]),
            shuts_down: random.chance(30),
            stack_max: pick(random, &[1, 2, 4, 16]),
            ring_max: pick(random, &RINGS),
            payload_sizes: pick(random, &[(0, 0), (0, 0), (40, 0), (40, 30), (0, 13)]),
            config,
        };
        if plan.ring_max == RINGS[RINGS.len() - 1] {
            // Deep rings: most of the program's tasks fit into one.
            plan.config.depth_max = u32::try_from(plan.ring_max).expect("small");
        }
        plan
    }

    /// Creates the memory of an engine's payloads.
    #[must_use]
    pub fn memory(&self) -> SimMemory {
        let (padded_size, large_size) = self.payload_sizes;
        SimMemory::new(padded_size, large_size)
    }

    /// Draws the course of a run.
    pub fn draw_course(&self, random: &mut SeededRandom) -> Course {
        let drawn = random.below(100);
        if drawn < self.raises {
            Course::Raise
        } else if drawn < self.raises + self.exits {
            Course::Exit
        } else if drawn < self.raises + self.exits + self.hangs / 8 {
            Course::Hang { ignores: random.chance(self.ignores) }
        } else {
            Course::Return
        }
    }

    /// Returns whether a task never waits for the tasks that it submits.
    #[must_use]
    pub const fn forgets(&self, number: usize) -> bool {
        number.is_multiple_of(7)
    }

    fn draw_demand(&self, random: &mut SeededRandom) -> ResourceRequest {
        if self.demands == 0 || !random.chance(self.demands) {
            return ResourceRequest::NONE;
        }
        pick(random, &self.rooms).draw_demand(random)
    }

    /// Draws the options of a task.
    pub fn draw_options(&self, random: &mut SeededRandom, now: u64) -> Option<TaskOptions> {
        let demand = self.draw_demand(random);
        if !random.chance(self.options) {
            return (!demand.is_none()).then(|| TaskOptions { demand, ..TaskOptions::default() });
        }
        let mut small = |percent, limit| {
            if random.chance(percent) { random.below(limit) } else { 0 }
        };
        let counts = [small(40, 4), small(40, 5), small(40, 3)].map(|count| count.try_into());
        let [retries, loss_retries, timeout_retries] = counts.map(|count| count.expect("small"));
        Some(TaskOptions {
            timeout_ns: random.chance(40).then(|| 1 + random.below(3_000_000)),
            deadline_ns: random.chance(20).then(|| now + random.below(4_000_000)),
            grace_ns: random.chance(30).then(|| draw_grace(random, 2_000_000)),
            budgets: Some(Budgets { retries, loss_retries, timeout_retries }),
            priority: i32::try_from(random.below(5)).expect("small") - 2,
            demand,
            is_bulky: random.chance(30),
            ..TaskOptions::default()
        })
    }

    /// Adds contexts to the plan, if the seed says so. The choices are drawn separately, so that seeds without contexts do not
    /// change.
    pub fn with_contexts(mut self, seed: u64) -> Self {
        let mut random = SeededRandom::new(seed ^ 0x00c0_17e7);
        if random.chance(50) {
            return self;
        }
        self.contexts = ContextPlan {
            count: 1 + random.index(4),
            named: pick(&mut random, &[20, 60, 95, 100]),
            forgets: pick(&mut random, &[0, 10, 50]),
            demands: pick(&mut SeededRandom::new(seed ^ 0x6ea5), &[0, 0, 50, 90]),
            stay: pick(&mut SeededRandom::new(seed ^ 0x57a7), &[0, 0, 0b10, 0b10_0100, 0b111_1110]),
        };
        self.tasks *= pick(&mut random, &[1, 2, 4]);
        if random.chance(4) {
            // Workers without a context cannot start, and workers with one can.
            self.start_failures = 100;
        }
        let config = &mut self.config;
        // A step takes 150 ns: these intervals must be short enough to end while other tasks run.
        config.context_tenure_ns = pick(&mut random, &[2_000, 50_000, 1_000_000, 100_000_000]);
        config.recheck_ns = pick(&mut random, &[2_000, 50_000, 1_000_000]);
        config.backoff_min_ns = pick(&mut random, &[20_000, 500_000]);
        config.backoff_max_ns = 10 * config.backoff_min_ns;
        config.leave_grace_ns = pick(&mut SeededRandom::new(seed ^ 0x1ea7e), &[2_000, 1_000_000]);
        self
    }
}
