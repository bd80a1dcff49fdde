//! Pools of workers: how many workers each context could use, and how many of them it should have.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gristmill_wire::{ContextId, ResourceRequest};

use super::fair::{AvailableSlots, FairShareRequest, allocate, divide};
use super::{Context, PLAIN};
use crate::demands::{FreeResources, Kinds};
use crate::list::List;
use crate::machine::Phase;
use crate::slots::{Slot, SlotState};
use crate::task::State;
use crate::{Core, NONE, Supply};

/// The workers that have one context, or none.
#[derive(Debug)]
pub(super) struct Pool {
    pub context: ContextId,
    /// Number of workers that exist or were requested, and that stay.
    pub live: u32,
    /// Resources of each of them, including the number of CPU slots.
    pub needs: ResourceRequest,
    /// Number of workers that the pool could use and may have now.
    pub demand: u32,
    /// Number of workers whose tasks wait for tasks that they submitted: these workers keep their resources.
    pub stuck: u32,
    /// Number of workers that the pool should have, even if others have their resources now.
    pub due: u32,
    /// Number of workers that the pool should have now.
    pub share: u32,
    pub may_start: bool,
    /// True if all its workers wait and a spare worker could run the tasks for which they may wait, whatever the limit of
    /// workers.
    pub lacks_spare: bool,
    /// True if its workers are known to come up.
    pub is_proven: bool,
    /// Time when it last got a worker.
    pub served_at: u64,
}

impl Pool {
    /// Returns the number of workers that the pool could use, without the waiting ones that keep their resources.
    fn wants(&self) -> u32 {
        let stuck = if self.needs.is_none() { 0 } else { self.stuck };
        self.demand.saturating_sub(stuck)
    }

    pub fn lacks(&self) -> u32 {
        self.share.saturating_sub(self.live)
    }
}

/// Demanding tasks, if they need resources that contexts need too.
#[derive(Debug, Default)]
pub(super) struct TaskPool {
    /// Number of tasks that have what they need.
    pub live: u32,
    /// Requests of the tasks that are due their share of resources and do not have it yet.
    pub lacking: Vec<ResourceRequest>,
}

/// Counts of the workers with one context.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ContextWorkers {
    /// Ordinary workers that exist or were requested, and that stay.
    pub live: u32,
    /// Ordinary workers, including those that leave.
    pub all: u32,
    /// Ordinary workers that stay and whose tasks wait for tasks that they submitted.
    pub stuck: u32,
    /// Tasks that run in the workers or wait in their rings, spare workers included.
    pub running: u64,
    /// Number of workers for which there is work in the rings, without the rings of leaving workers.
    pub work: u64,
    /// True if some worker is starting.
    pub is_coming: bool,
    /// True if some worker has no task that waits for tasks that it submitted.
    pub has_free: bool,
}

/// Returns the sort key of a pool. Pools without workers come first, the one that was served longest ago before the
/// others. Of the other pools, the one that was served longest ago comes last, so that it makes room first.
fn rank(live: u32, served_at: u64) -> (bool, u64, Reverse<u64>) {
    match live {
        0 => (false, served_at, Reverse(0)),
        _ => (true, 0, Reverse(served_at)),
    }
}

impl Core {
    /// Returns the pools that could use workers, each with the number that it should have, and the demanding tasks. Of
    /// the contexts without workers, looks at no more than there are slots: no others can get a worker now.
    pub(super) fn pools(&self) -> (Vec<Pool>, TaskPool) {
        let (staffs, nested) = (self.staffs(), self.nested_by_context());
        let places = u32::from(self.config.workers) + self.wanted_spares();
        let first = self.contexts.lines.heads(places as usize, |one| !staffs.contains_key(&one));
        let mut contexts: Vec<ContextId> = first.collect();
        contexts.extend(staffs.keys().chain(nested.keys()));
        contexts.sort_unstable();
        contexts.dedup();
        let pool = |id: ContextId| {
            let staff = staffs.get(&id).copied().unwrap_or_default();
            let nested = nested.get(&id).copied().unwrap_or_default();
            Some(self.pool_of(id, self.contexts.table.get(&id)?, &staff, nested))
        };
        let mut pools = vec![self.plain_pool()];
        pools.extend(contexts.into_iter().filter_map(pool));
        pools.sort_by_key(|pool| rank(pool.live, pool.served_at));
        if pools.iter().all(|pool| pool.needs.is_none()) {
            let demands: Vec<u32> = pools.iter().map(|pool| pool.demand).collect();
            let shares = divide(&demands, self.config.workers.into());
            for (pool, share) in pools.iter_mut().zip(shares) {
                (pool.due, pool.share) = (share, share);
            }
            return (pools, TaskPool::default());
        }
        let tasks = self.allocate_grants(&mut pools);
        (pools, tasks)
    }

    /// Divides resources between pools and demanding tasks when some pools need more than workers, which the tasks may
    /// need too.
    fn allocate_grants(&self, pools: &mut [Pool]) -> TaskPool {
        let (demands, live) = self.tasks_with_needs();
        let mut wishes: Vec<FairShareRequest> =
            pools.iter().map(|pool| FairShareRequest::Workers(pool.wants(), pool.needs)).collect();
        let its_rank = rank(live, self.demands.served_at);
        let place = pools.partition_point(|pool| rank(pool.live, pool.served_at) <= its_rank);
        wishes.insert(place, FairShareRequest::Tasks(demands.clone()));
        let places_stuck =
            |pool: &Pool| (pool.demand - pool.wants()) * u32::from(pool.needs.places());
        let stuck = pools.iter().map(places_stuck).sum();
        let places = AvailableSlots {
            ordinary: u32::from(self.config.workers).saturating_sub(stuck),
            spare: self.free_spares(),
        };
        let mut shares = allocate(&wishes, places, self.unstuck_claims());
        let of_tasks = shares.remove(place);
        for (pool, share) in pools.iter_mut().zip(shares) {
            let more = u32::try_from(share.len()).unwrap_or(u32::MAX);
            pool.due = pool.demand - pool.wants() + more;
        }
        let waiting = of_tasks.iter().filter(|&&number| number >= live);
        let lacking = waiting.map(|&number| demands[number as usize]).collect();
        let tasks = TaskPool { live, lacking };
        self.deal_places(pools, &tasks);
        tasks
    }

    /// Allocates CPU slots to the pools that have all other resources for more workers, or need none. A pool gets no more
    /// than it is due of the resources that others lack.
    fn deal_places(&self, pools: &mut [Pool], tasks: &TaskPool) {
        let mut left = self.demands.claims.clone();
        let kinds = |pool: &Pool| Kinds::besides_places(&pool.needs);
        let is_wanted = |pool: &Pool| {
            let lacks = |other: &Pool| other.context != pool.context && other.due > other.live;
            let mut others = pools.iter().filter(|other| lacks(other)).map(kinds);
            let mut of_tasks = tasks.lacking.iter().map(Kinds::of);
            others.any(|one| one.meets(kinds(pool))) || of_tasks.any(|one| one.meets(kinds(pool)))
        };
        let usable = |pool: &Pool| {
            if pool.needs.is_none() {
                return pool.demand;
            }
            let most = if is_wanted(pool) { pool.due } else { pool.demand };
            let mut count = pool.live.min(most);
            while count < most
                && let Some(devices) = left.find(&pool.needs, std::iter::empty())
            {
                left.take(&pool.needs, devices);
                count += 1;
            }
            count
        };
        let counts: Vec<u32> = pools.iter().map(usable).collect();
        let places =
            |pool: &Pool| ResourceRequest { cores: pool.needs.cores, ..ResourceRequest::NONE };
        let wishes = pools
            .iter()
            .zip(counts)
            .map(|(pool, count)| FairShareRequest::Workers(count, places(pool)));
        let wishes: Vec<FairShareRequest> = wishes.collect();
        let places = AvailableSlots { ordinary: self.config.workers.into(), spare: 0 };
        let shares = allocate(&wishes, places, FreeResources::new(&Supply::default()));
        for (pool, share) in pools.iter_mut().zip(shares) {
            pool.share = u32::try_from(share.len()).unwrap_or(u32::MAX);
        }
    }

    /// Returns the needs of demanding tasks besides CPU slots, first of the tasks that have their resources, and the
    /// number of these.
    fn tasks_with_needs(&self) -> (Vec<ResourceRequest>, u32) {
        let mut with: Vec<u32> = self.slots.iter().map(|slot| slot.holder).collect();
        with.push(self.demands.first);
        with.retain(|&index| index != NONE && !self.is_stuck(index));
        with.sort_unstable();
        with.dedup();
        // A task that no worker can run is due none of the resources that workers with a context could have.
        let could_run = self.has_plain_worker() || !self.starts.are_unlikely(&self.config);
        let waiting =
            self.could_have_their_turn().filter(|index| could_run && !with.contains(index));
        let needs = |index: u32| ResourceRequest { cores: 0, ..self.demand(index) };
        let mut demands: Vec<ResourceRequest> = with.iter().map(|&index| needs(index)).collect();
        demands.retain(|demand| !demand.is_none());
        let live = u32::try_from(demands.len()).unwrap_or(u32::MAX);
        demands.extend(waiting.map(needs).filter(|demand| !demand.is_none()));
        (demands, live)
    }

    /// Returns true if a worker without a context is up.
    fn has_plain_worker(&self) -> bool {
        self.live_slots().iter().any(|slot| slot.context == PLAIN && slot.is_up())
    }

    fn plain_pool(&self) -> Pool {
        let staff = self.staff(PLAIN);
        let waiting = self.plain_waiting();
        let may_start = !self.starts.must_pause(self.now);
        let room = if may_start { u32::MAX } else { 0 };
        Pool {
            context: PLAIN,
            live: staff.live,
            stuck: staff.stuck,
            needs: ResourceRequest::NONE,
            demand: self.usable(&staff, waiting, room),
            due: 0,
            share: 0,
            may_start,
            lacks_spare: false,
            is_proven: true,
            served_at: self.contexts.plain_served_at,
        }
    }

    fn pool_of(
        &self,
        id: ContextId,
        context: &Context,
        staff: &ContextWorkers,
        nested: u64,
    ) -> Pool {
        let waiting = u64::from(context.queue.len()) + nested;
        let is_tried = context.is_proven || !staff.is_coming;
        let may_start =
            is_tried && context.failure.is_none() && !context.starts.must_pause(self.now);
        let may_start = may_start && self.could_ever_grant(&context.options.demand);
        // The first worker shows whether others are worth a start.
        let most = match (may_start, context.is_proven) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => u32::MAX,
        };
        let room = u32::from(context.options.workers_max).saturating_sub(staff.all).min(most);
        Pool {
            context: id,
            live: staff.live,
            stuck: staff.stuck,
            needs: context.options.demand,
            demand: self.usable(staff, waiting, room),
            due: 0,
            share: 0,
            may_start,
            lacks_spare: may_start && self.lacks_spare(id, staff),
            is_proven: context.is_proven,
            served_at: context.served_at,
        }
    }

    /// Returns true if tasks wait for a context whose workers all wait themselves, and a spare worker is available.
    fn lacks_spare(&self, id: ContextId, staff: &ContextWorkers) -> bool {
        let waits = staff.live > 0 && !staff.has_free && self.contexts.waits(id);
        waits && self.free_spares() > 0
    }

    /// Returns the number of workers that would have work, limited to those that exist or may start.
    fn usable(&self, staff: &ContextWorkers, waiting: u64, room: u32) -> u32 {
        if matches!(self.phase, Phase::Broken(_) | Phase::Poisoned(_)) {
            return 0;
        }
        let demand = u32::try_from(waiting + staff.work).unwrap_or(u32::MAX);
        demand.min(staff.live.saturating_add(room)).min(self.config.workers.into())
    }

    /// Returns the counts of the workers with a context, or without one.
    pub(crate) fn staff(&self, context: ContextId) -> ContextWorkers {
        let mut staff = ContextWorkers::default();
        for (place, slot) in self.slots.iter().enumerate() {
            if slot.context == context && slot.has_process() {
                self.count_worker(&mut staff, place);
            }
        }
        staff
    }

    /// Returns the counts of the workers with each context that has some.
    pub(super) fn staffs(&self) -> BTreeMap<ContextId, ContextWorkers> {
        let mut staffs = BTreeMap::<ContextId, ContextWorkers>::new();
        for (place, slot) in self.live_slots().iter().enumerate() {
            if slot.context != PLAIN && slot.has_process() {
                self.count_worker(staffs.entry(slot.context).or_default(), place);
            }
        }
        staffs
    }

    fn count_worker(&self, staff: &mut ContextWorkers, place: usize) {
        let slot = &self.slots[place];
        let is_there = matches!(slot.state, SlotState::Starting | SlotState::Ready);
        let stays = is_there && !slot.is_leaving;
        let is_ordinary = place < usize::from(self.config.workers);
        staff.running += u64::from(slot.in_flight.len);
        staff.all += u32::from(is_ordinary);
        staff.live += u32::from(is_ordinary && stays);
        staff.stuck += u32::from(is_ordinary && stays && slot.waiting > 0);
        staff.is_coming |= slot.state == SlotState::Starting;
        staff.has_free |= slot.waiting == 0 && !slot.is_leaving;
        if stays {
            // A running or waiting task keeps its own worker; other workers could run the tasks behind it.
            staff.work += u64::from(is_ordinary && slot.in_flight.len > 0);
            staff.work += self.spare_work(slot);
        }
    }

    /// Returns the number of tasks behind the one that a worker runs that other workers with its context could run.
    fn spare_work(&self, slot: &Slot) -> u64 {
        if slot.context == PLAIN {
            return slot.in_flight.len.saturating_sub(slot.waiting + 1).into();
        }
        self.few_behind(slot, slot.context)
    }

    /// Returns the number of tasks in a context, or in none, behind the task that a worker runs. Looks at no more tasks
    /// than there are workers.
    pub(crate) fn few_behind(&self, slot: &Slot, context: ContextId) -> u64 {
        let behind = List::from(&self.tasks, slot.in_flight.head).skip(slot.waiting as usize + 1);
        let few = behind.take(self.config.workers.into());
        few.filter(|&index| self.context_of(index) == context).count() as u64
    }

    /// Returns the number of tasks that wait for workers without a context, plus the CPU slots of those that need
    /// several.
    pub(super) fn plain_waiting(&self) -> u64 {
        let wanted = if self.could_gather() { self.demands.wanted_places } else { 0 };
        let places = wanted + self.ordinary_lent_places();
        u64::from(self.ready.len()) + self.nested_waiting(PLAIN) + places
    }

    /// Returns the number of CPU slots of running tasks beyond those of their own workers. Does not count the slots of
    /// spare workers, because others could not use them.
    fn ordinary_lent_places(&self) -> u64 {
        if self.demands.lent_places == 0 {
            return 0;
        }
        let is_lent = |place: &usize| {
            let holder = self.slots[*place].holder;
            let runs = holder != NONE && self.tasks[holder].state == State::Sent;
            runs && usize::from(self.tasks[holder].slot) != *place
        };
        (0..usize::from(self.config.workers)).filter(is_lent).count() as u64
    }

    /// Returns the number of tasks for workers with a context that wait in the queues of the workers whose tasks
    /// submitted them. Looks at no more tasks of each queue than there are workers.
    pub(super) fn nested_waiting(&self, context: ContextId) -> u64 {
        if self.nested_ready == 0 {
            return 0;
        }
        let count = |slot: &Slot| {
            let most = usize::from(self.config.workers);
            let few = slot.nested.iter(&self.tasks).take(most);
            few.filter(|&index| self.context_of(index) == context).count() as u64
        };
        self.slots.iter().map(count).sum()
    }

    /// Returns the number of such tasks for each context for which some wait.
    fn nested_by_context(&self) -> BTreeMap<ContextId, u64> {
        let mut waiting = BTreeMap::new();
        if self.nested_ready > 0 {
            for slot in &self.slots {
                for index in slot.nested.iter(&self.tasks).take(self.config.workers.into()) {
                    *waiting.entry(self.context_of(index)).or_default() += 1;
                }
            }
        }
        waiting
    }
}
