//! What a seed's program does: how many tasks, which faults, how likely.

use gristmill_core::{Budgets, Config, TaskOptions};
use gristmill_wire::Demand;

use crate::contexts::ContextPlan;
use crate::equipment::Room;
use crate::memory::Memory;
use crate::random::Random;
use crate::worker::Course;

/// The likelihoods of one seed, in percent, and its sizes: drawn once, so that seeds differ in
/// kind.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Tasks that the program submits itself.
    pub tasks: u64,
    /// A task has parents.
    pub parents: u64,
    /// A task submits tasks.
    pub nested: u64,
    /// A task raises.
    pub raises: u64,
    /// A task ends its worker.
    pub exits: u64,
    /// A task runs until it is stopped, if something will.
    pub hangs: u64,
    /// A hanging task ignores the interrupt.
    pub ignores: u64,
    /// A submission of the program is a batch.
    pub batches: u64,
    /// A task has options.
    pub options: u64,
    /// A task needs more than a worker.
    pub demands: u64,
    /// What there is: each task that needs more fits into one of these.
    pub rooms: Vec<Room>,
    /// What it does with contexts.
    pub contexts: ContextPlan,
    /// A step of the program cancels something.
    pub cancels: u64,
    /// A step kills a worker.
    pub kills: u64,
    /// A step kills the keeper, and with it every worker.
    pub keeper: u64,
    /// A start fails.
    pub start_failures: u64,
    /// A future is dropped before its task ends.
    pub releases: u64,
    /// The program shuts down before its tasks have ended.
    pub shuts_down: bool,
    /// Nested waits that fit on a worker's stack.
    pub stack_max: usize,
    /// Records that fit into a ring.
    pub ring_max: usize,
    /// Payloads are padded to this, and large from that size on; 0 is never.
    pub payload_sizes: (usize, usize),
    /// The engine's constants.
    pub config: Config,
}

impl Plan {
    /// Draws a plan.
    pub fn draw(random: &mut Random) -> Self {
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
            supply: Room::draw_supply(random),
            domains: Room::domains(workers),
            ..Config::default()
        };
        Self {
            tasks: 5 + random.below(60),
            parents: pick(random, &[0, 20, 60, 95]),
            nested: pick(random, &[0, 0, 10, 40]),
            raises: pick(random, &[0, 5, 20]),
            exits: pick(random, &[0, 0, 5, 20]),
            hangs: pick(random, &[0, 10, 40]),
            ignores: 50,
            batches: pick(random, &[0, 0, 20, 90]),
            options: pick(random, &[0, 20, 80]),
            demands: pick(random, &[0, 0, 10, 60]),
            rooms: vec![Room::of(&config)],
            contexts: ContextPlan::default(),
            cancels: pick(random, &[0, 5, 20]),
            kills: pick(random, &[0, 0, 1, 3]),
            keeper: pick(random, &[0, 0, 0, 1]),
            start_failures: pick(random, &[0, 0, 10, 60]),
            releases: pick(random, &[0, 20, 80]),
            shuts_down: random.chance(30),
            stack_max: pick(random, &[1, 2, 4, 16]),
            ring_max: pick(random, &[1, 2, 5, 100]),
            payload_sizes: pick(random, &[(0, 0), (0, 0), (40, 0), (40, 30), (0, 13)]),
            config,
        }
    }

    /// Where an engine's payloads are.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let (padded_size, large_size) = self.payload_sizes;
        Memory::new(padded_size, large_size)
    }

    /// Draws how a run goes on.
    pub fn draw_course(&self, random: &mut Random) -> Course {
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

    /// Whether a task never waits for what it submits.
    #[must_use]
    pub const fn forgets(&self, number: usize) -> bool {
        number.is_multiple_of(7)
    }

    fn draw_demand(&self, random: &mut Random) -> Demand {
        if self.demands == 0 || !random.chance(self.demands) {
            return Demand::NONE;
        }
        pick(random, &self.rooms).draw_demand(random)
    }

    /// Draws the options of a task.
    pub fn draw_options(&self, random: &mut Random, now: u64) -> Option<TaskOptions> {
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
            grace_ns: random.chance(30).then(|| random.below(2_000_000)),
            budgets: Some(Budgets { retries, loss_retries, timeout_retries }),
            priority: i32::try_from(random.below(5)).expect("small") - 2,
            demand,
            is_bulky: random.chance(30),
            ..TaskOptions::default()
        })
    }
}

pub(crate) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.index(from.len())]
}
