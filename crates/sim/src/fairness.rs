//! Check that waiting tasks get workers in time.
//!
//! Time passes in small steps while any thread can do something, and otherwise jumps to the next event. So if a state
//! lasts longer than its bound, the engine has forgotten it, and is not merely slow.

use std::collections::BTreeMap;

use gristmill_core::{Config, ContextId, Core, SlotState, Supply, TaskId, TaskLocation};
use gristmill_wire::{GPUS_MAX, ResourceRequest, WHOLE_GPU};

use crate::contexts::{PLAIN, SETUP_MAX_NS};
use crate::plan::RUN_MAX_NS;
use crate::worker::{Course, Frame, SimWorker};
use crate::world::SimWorld;

/// Longest time until the engine notices what can be done, nanoseconds: a few hundred steps.
const STEPS_NS: u64 = 100_000;

/// Tasks and ordinary workers of one context, or of none.
#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    /// Number of tasks that wait for a worker.
    waiting: u32,
    /// Number of workers that have a task, plus the tasks queued behind these that other workers could run.
    work: u32,
    /// Number of workers that are up or starting.
    live: u32,
    /// Number of workers that are up and have no task.
    idle: u32,
    /// Number of processes that have the context, including those that leave.
    all: u32,
    workers_max: u32,
    may_start: bool,
    /// Resources of each of its workers.
    demand: ResourceRequest,
    /// True if the resources of one more worker are free, or are held by workers that can certainly be spared.
    is_there: bool,
}

impl Pool {
    /// Returns whether tasks wait for one more worker, which may be started.
    const fn lacks(&self) -> bool {
        let has_room = self.all < self.workers_max;
        self.may_start && self.waiting > 0 && self.could_use_more() && has_room
    }

    /// Returns whether one more worker would have something to do.
    const fn could_use_more(&self) -> bool {
        self.waiting + self.work > self.live
    }

    /// Returns whether two pools compete for resources: one of them needs several CPU slots, or both need memory, or both GPUs.
    fn is_rival(&self, other: &Self) -> bool {
        let (one, other) = (&self.demand, &other.demand);
        let needs_both = |of: fn(&ResourceRequest) -> u64| of(one) > 0 && of(other) > 0;
        one.places() > 1
            || other.places() > 1
            || needs_both(|demand| demand.memory)
            || needs_both(|demand| demand.gpus.into())
    }

    /// Returns whether the pool has a worker that it can certainly spare.
    const fn has_spare(&self) -> bool {
        self.waiting == 0 && self.idle > 0 && self.live > self.work
    }
}

/// Times since which a state has held without a break, by the key that it concerns.
#[derive(Debug)]
struct Since<K>(BTreeMap<K, u64>);

impl<K: Ord> Since<K> {
    /// Returns for how long the state of `key` has held.
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

/// Durations of the states that must not last.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Contexts that lack workers, although the resources of one more worker are free or can be spared.
    wasted: Since<ContextId>,
    /// Contexts that lack workers while others have more.
    wronged: Since<ContextId>,
    /// Slots whose worker keeps a context that was forgotten.
    kept: Since<usize>,
}

impl Watch {
    /// Checks an engine between two steps; returns a description of the first fault.
    pub fn look(&mut self, core: &Core, world: &SimWorld, config: &Config) -> Option<String> {
        self.forgotten_kept(core, world).or_else(|| self.unfair(core, world, config))
    }

    /// Checks that the workers of a forgotten context leave as soon as they have nothing to do.
    fn forgotten_kept(&mut self, core: &Core, world: &SimWorld) -> Option<String> {
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

    fn unfair(&mut self, core: &Core, world: &SimWorld, config: &Config) -> Option<String> {
        let Some(pools) = pools(core, world, config) else {
            *self = Self { kept: std::mem::take(&mut self.kept), ..Self::default() };
            return None;
        };
        let look_ns = config.recheck_ns.max(config.context_tenure_ns / 10) + STEPS_NS;
        let turn_ns = config.context_tenure_ns + 2 * look_ns + 2 * RUN_MAX_NS + SETUP_MAX_NS;
        let turns = pools.len() as u64 + 1;
        let (ordinary, spare) = world.workers.split_at(config.workers.into());
        let is_blocked = ordinary.iter().any(is_occupied) || spare.iter().any(is_endless);
        // A worker that must leave is expected to do so; the engine asks no other worker for its CPU slot.
        let is_awaited = world.workers.iter().any(SimWorker::outstays);
        for (&context, pool) in &pools {
            let lacks = pool.lacks();
            // Resources that another context gathers are kept for it.
            let mut others = pools.iter().filter(|(other, _)| **other != context);
            let has_rival = others.any(|(_, other)| other.could_use_more() && pool.is_rival(other));
            let is_wasted = lacks && pool.is_there && !has_rival && !is_awaited;
            if self.wasted.lasts(context, is_wasted, world.now) > look_ns {
                return Some(format!(
                    "tasks in {context} wait beside a worker that idles: {pools:?}"
                ));
            }
            // Once a context that needs more than a CPU slot has a worker, the resources of others may be of no use to it.
            let is_content = pool.live > 0 && !pool.demand.is_none();
            let has_more = |other: &Pool| other.live > pool.live + u32::from(pool.live > 0);
            let is_wronged = lacks && !is_content && !is_blocked && pools.values().any(has_more);
            if self.wronged.lasts(context, is_wronged, world.now) > turns * turn_ns {
                return Some(format!("tasks in {context} wait for others with more: {pools:?}"));
            }
        }
        None
    }
}

/// Returns whether a worker waits for other tasks, or never gives up its resources.
fn is_occupied(worker: &SimWorker) -> bool {
    let waits = worker.stack.iter().any(|frame| frame.waits);
    (worker.is_up && waits) || is_endless(worker)
}

/// Returns whether a worker neither ends its task nor leaves by itself.
fn is_endless(worker: &SimWorker) -> bool {
    let hangs = |frame: &Frame| matches!(frame.course, Course::Hang { .. });
    (worker.is_up && worker.stack.iter().any(hangs)) || worker.outstays()
}

/// Counts the tasks and workers of all contexts. Returns `None` if a task requests memory, GPUs or several CPU slots, if tasks
/// wait in queues of workers, or if the engine has failed.
fn pools(core: &Core, world: &SimWorld, config: &Config) -> Option<BTreeMap<ContextId, Pool>> {
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
        let demand = known.demand;
        pools.insert(id, Pool { workers_max, may_start, demand, ..Pool::default() });
    }
    let slots = core.stats().slots;
    for (place, slot) in slots.iter().enumerate() {
        let context = world.workers[place].context;
        let pool = pools.get_mut(&context)?;
        let is_ordinary = u32::from(place < usize::from(config.workers));
        let is_starting = slot.state == SlotState::Starting;
        pool.may_start &= !is_starting || world.contexts.known[&context].is_proven;
        if !world.workers[place].is_there() {
            continue;
        }
        pool.all += is_ordinary;
        pool.work += is_ordinary * u32::from(slot.in_flight > 0);
        pool.live += is_ordinary * u32::from(is_starting || slot.state == SlotState::Ready);
        let is_idle = slot.state == SlotState::Ready && slot.in_flight == 0;
        pool.idle += is_ordinary * u32::from(is_idle);
    }
    for id in core.outstanding(None) {
        let context = match core.location(id) {
            TaskLocation::Ready { .. } => PLAIN,
            TaskLocation::InContext { context, .. } => context,
            TaskLocation::Nested { .. } => return None,
            TaskLocation::Sent { slot, ahead } => {
                let place = usize::from(slot.0);
                let (worker, waiting) = (&world.workers[place], slots[place].waiting);
                let is_behind = worker.is_there() && ahead > waiting as usize;
                // A task that names no context cannot use a further worker of the context.
                let is_for_others = is_behind && named(world, id) == worker.context;
                pools.get_mut(&worker.context)?.work += u32::from(is_for_others);
                continue;
            }
            _ => continue,
        };
        pools.get_mut(&context)?.waiting += 1;
    }
    let free = free(core, world, &pools);
    for pool in pools.values_mut() {
        pool.is_there = free.covers(&pool.demand);
    }
    Some(pools)
}

/// Returns the context that a task names; batches name none.
fn named(world: &SimWorld, id: TaskId) -> ContextId {
    let entry = world.ledger.iter().find(|entry| entry.id == Some(id));
    entry.map_or(PLAIN, |entry| entry.context)
}

/// Resources that are free, or held by workers that can certainly be spared.
struct Free {
    places: u16,
    memory: u64,
    /// Free thousandths of each GPU.
    gpus: Vec<u32>,
}

fn free(core: &Core, world: &SimWorld, pools: &BTreeMap<ContextId, Pool>) -> Free {
    let Supply { memory, gpus } = world.room.supply;
    let gpus = (0..GPUS_MAX).map(|device| WHOLE_GPU * u32::from(gpus >> device & 1)).collect();
    let mut free = Free { places: world.room.workers, memory, gpus };
    for (place, slot) in core.stats().slots.iter().enumerate() {
        let worker = &world.workers[place];
        let is_spared = slot.state == SlotState::Ready
            && slot.in_flight == 0
            && pools.get(&worker.context).is_some_and(Pool::has_spare);
        if !worker.is_there() || is_spared {
            continue;
        }
        let demand = world.contexts.known[&worker.context].demand;
        if place < usize::from(world.room.workers) {
            free.places -= demand.places();
        }
        free.memory -= demand.memory;
        let devices = worker.grant.grant.devices;
        let its = |(device, _): &(usize, &mut u32)| devices >> device & 1 == 1;
        free.gpus.iter_mut().enumerate().filter(its).for_each(|(_, left)| *left -= demand.share());
    }
    free
}

impl Free {
    fn covers(&self, demand: &ResourceRequest) -> bool {
        let devices = self.gpus.iter().filter(|&&left| left >= demand.share().max(1)).count();
        self.places >= demand.places()
            && self.memory >= demand.memory
            && devices >= demand.devices() as usize
    }
}
