//! Whether those who wait for workers get them in time.
//!
//! Time passes in small steps while anybody can do something, and else to the next moment at which somebody wants to. So
//! what lasts for longer than its bound was forgotten, not late.

use std::collections::BTreeMap;

use gristmill_core::{Config, ContextId, Core, SlotState, Whereabouts};

use crate::contexts::{PLAIN, SETUP_MAX_NS};
use crate::worker::{Course, Worker};
use crate::world::World;

/// How long it may take that somebody sees what can be done: the longest way of a few hundred steps.
const STEPS_NS: u64 = 100_000;
/// The longest run of a task that ends by itself.
const RUN_MAX_NS: u64 = 500_000;

/// The tasks and the ordinary workers of a context, or of none.
#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    /// Tasks that wait for a worker.
    waiting: u32,
    /// Workers that have something to do, and what they have behind that.
    work: u32,
    /// Workers that are there, or are asked for.
    live: u32,
    /// Those of them that have nothing to do.
    idle: u32,
    /// Processes that have the context, those that leave too.
    all: u32,
    workers_max: u32,
    may_start: bool,
}

impl Pool {
    /// Whether one more worker would have something to do, and may be asked for.
    const fn lacks(&self) -> bool {
        let has_more = self.waiting + self.work > self.live;
        self.may_start && self.waiting > 0 && has_more && self.all < self.workers_max
    }

    /// Whether it has a worker that it can certainly spare.
    const fn has_spare(&self) -> bool {
        self.waiting == 0 && self.idle > 0 && self.live > self.work
    }
}

/// Since when something has been so without a break, by whom it concerns.
#[derive(Debug)]
struct Since<K>(BTreeMap<K, u64>);

impl<K: Ord> Since<K> {
    /// For how long something has been so.
    fn lasts(&mut self, key: K, is_so: bool, now: u64) -> u64 {
        if !is_so {
            self.0.remove(&key);
            return 0;
        }
        now - *self.0.entry(key).or_insert(now)
    }
}

impl<K> Default for Since<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What has lasted for how long.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// A context lacks workers beside one that nobody needs.
    wasted: Since<ContextId>,
    /// It has none, or others have many more.
    wronged: Since<ContextId>,
    /// A worker in a slot keeps what was forgotten.
    kept: Since<usize>,
}

impl Watch {
    /// Looks at an engine between two steps; what should not be so, if there is something.
    pub fn look(&mut self, core: &Core, world: &World, config: &Config) -> Option<String> {
        self.forgotten_kept(core, world).or_else(|| self.unfair(core, world, config))
    }

    /// The workers of a forgotten context leave as soon as they have nothing to do.
    fn forgotten_kept(&mut self, core: &Core, world: &World) -> Option<String> {
        for (place, slot) in core.stats().slots.iter().enumerate() {
            let context = world.workers[place].context;
            let is_forgotten = world.contexts.known[&context].is_forgotten;
            let is_kept = is_forgotten && slot.state == SlotState::Ready && slot.in_flight == 0;
            if self.kept.lasts(place, is_kept, world.now) > STEPS_NS {
                return Some(format!("{context} was forgotten, and slot {place} keeps it"));
            }
        }
        None
    }

    fn unfair(&mut self, core: &Core, world: &World, config: &Config) -> Option<String> {
        let Some(pools) = pools(core, world, config) else {
            *self = Self { kept: std::mem::take(&mut self.kept), ..Self::default() };
            return None;
        };
        let absent = core.stats().slots[..usize::from(config.workers)]
            .iter()
            .any(|slot| slot.state == SlotState::Absent);
        let is_spare = absent || pools.values().any(Pool::has_spare);
        let look_ns = config.recheck_ns.max(config.context_tenure_ns / 10) + STEPS_NS;
        let turn_ns = config.context_tenure_ns + 2 * look_ns + 2 * RUN_MAX_NS + SETUP_MAX_NS;
        let turns = pools.len() as u64 + 1;
        let is_blocked = world.workers[..usize::from(config.workers)].iter().any(is_occupied);
        for (&context, pool) in &pools {
            let lacks = pool.lacks();
            if self.wasted.lasts(context, lacks && is_spare, world.now) > look_ns {
                return Some(format!(
                    "tasks in {context} wait beside a worker that idles: {pools:?}"
                ));
            }
            let has_more = |other: &Pool| other.live > pool.live + u32::from(pool.live > 0);
            let is_wronged = lacks && !is_blocked && pools.values().any(has_more);
            if self.wronged.lasts(context, is_wronged, world.now) > turns * turn_ns {
                return Some(format!("tasks in {context} wait for others with more: {pools:?}"));
            }
        }
        None
    }
}

/// Whether a worker does not end what it does by itself.
fn is_occupied(worker: &Worker) -> bool {
    let is_endless = |course| matches!(course, Course::Hang { .. });
    worker.is_up && worker.stack.iter().any(|frame| frame.waits || is_endless(frame.course))
}

/// Who has which workers; none where tasks need more than workers, or wait in queues of workers, or nothing runs any more.
fn pools(core: &Core, world: &World, config: &Config) -> Option<BTreeMap<ContextId, Pool>> {
    let is_demanding = world.ledger.iter().any(|one| one.status.is_none() && !one.demand.is_none());
    if is_demanding || core.failure().is_some() {
        return None;
    }
    let mut pools = BTreeMap::new();
    for (&id, known) in &world.contexts.known {
        let pause_ns = config.backoff_max_ns;
        let is_paused = known.fruitless_at.is_some_and(|at| at + pause_ns >= world.now);
        let workers_max = known.workers_max.min(config.workers).into();
        let may_start = !is_paused && !known.is_forgotten;
        pools.insert(id, Pool { workers_max, may_start, ..Pool::default() });
    }
    for (place, slot) in core.stats().slots.iter().enumerate() {
        let context = world.workers[place].context;
        let pool = pools.get_mut(&context)?;
        let is_ordinary = u32::from(place < usize::from(config.workers));
        let is_starting = slot.state == SlotState::Starting;
        pool.may_start &= !is_starting || world.contexts.known[&context].is_proven;
        if slot.state == SlotState::Absent {
            continue;
        }
        pool.all += is_ordinary;
        pool.work += is_ordinary * u32::from(slot.in_flight > 0);
        pool.work += slot.in_flight.saturating_sub(slot.waiting + 1);
        pool.live += is_ordinary * u32::from(is_starting || slot.state == SlotState::Ready);
        let is_idle = slot.state == SlotState::Ready && slot.in_flight == 0;
        pool.idle += is_ordinary * u32::from(is_idle);
    }
    for id in core.outstanding(None) {
        let context = match core.whereabouts(id) {
            Whereabouts::Ready { .. } => PLAIN,
            Whereabouts::InContext { context, .. } => context,
            Whereabouts::Nested { .. } => return None,
            _ => continue,
        };
        pools.get_mut(&context)?.waiting += 1;
    }
    Some(pools)
}
