//! Who could use how many workers, and how many of them each is to have.

use std::cmp::Reverse;

use gristmill_wire::{ContextId, Demand};

use super::fair::{Places, Wish, deal, divide};
use super::{Context, PLAIN};
use crate::demands::{Claims, Kinds};
use crate::list::List;
use crate::machine::Phase;
use crate::slots::{Slot, SlotState};
use crate::task::State;
use crate::{Core, NONE, Supply};

/// The workers that have one context, or none.
#[derive(Debug)]
pub(super) struct Pool {
    pub context: ContextId,
    /// Those that are there or were asked for, and are to stay.
    pub live: u32,
    /// What each of them has besides a place, and how many places.
    pub needs: Demand,
    /// How many it could use, as far as it may have more now.
    pub demand: u32,
    /// Those whose tasks wait for others that they submitted: they keep what they have.
    pub stuck: u32,
    /// How many it is to have, if what they need besides places is somebody else's now.
    pub due: u32,
    /// How many it is to have now.
    pub share: u32,
    pub may_start: bool,
    /// All its workers wait, and a spare one could run what they may wait for, however many it may have.
    pub lacks_spare: bool,
    /// Its workers are known to come up.
    pub is_proven: bool,
    /// When it got one last.
    pub served_at: u64,
}

impl Pool {
    /// How many it could use that can be somebody else's.
    fn wants(&self) -> u32 {
        let stuck = if self.needs.is_none() { 0 } else { self.stuck };
        self.demand.saturating_sub(stuck)
    }

    pub fn lacks(&self) -> u32 {
        self.share.saturating_sub(self.live)
    }
}

/// Demanding tasks, where they need what contexts need too.
#[derive(Debug, Default)]
pub(super) struct TaskPool {
    /// Those that have what they need.
    pub live: u32,
    /// What those lack that are to have it.
    pub lacking: Vec<Demand>,
}

/// The ordinary workers with one context.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Staff {
    /// Those that are there or were asked for, and are to stay.
    pub live: u32,
    /// Those that leave too.
    pub all: u32,
    /// Of those that are to stay: their tasks wait for others that they submitted.
    pub stuck: u32,
    /// Tasks that they run and have before them, spare ones too.
    pub running: u64,
    /// For how many there is something in the rings, as far as it is not with those that leave.
    pub work: u64,
}

/// Whoever has nothing comes first, in turn; whoever has had it longest gives way first.
fn rank(live: u32, served_at: u64) -> (bool, u64, Reverse<u64>) {
    match live {
        0 => (false, served_at, Reverse(0)),
        _ => (true, 0, Reverse(served_at)),
    }
}

impl Core {
    /// Who could use workers, and how many each is to have.
    pub(super) fn pools(&self) -> (Vec<Pool>, TaskPool) {
        let mut pools: Vec<Pool> = std::iter::once(self.plain_pool())
            .chain(self.contexts.table.iter().map(|(&id, context)| self.pool_of(id, context)))
            .collect();
        pools.sort_by_key(|pool| rank(pool.live, pool.served_at));
        if pools.iter().all(|pool| pool.needs.is_none()) {
            let demands: Vec<u32> = pools.iter().map(|pool| pool.demand).collect();
            let shares = divide(&demands, self.config.workers.into());
            for (pool, share) in pools.iter_mut().zip(shares) {
                (pool.due, pool.share) = (share, share);
            }
            return (pools, TaskPool::default());
        }
        let tasks = self.deal_equipment(&mut pools);
        (pools, tasks)
    }

    /// The same where some of them need more than workers, which demanding tasks may need too.
    fn deal_equipment(&self, pools: &mut [Pool]) -> TaskPool {
        let (demands, live) = self.tasks_with_needs();
        let mut wishes: Vec<Wish> =
            pools.iter().map(|pool| Wish::Workers(pool.wants(), pool.needs)).collect();
        let its_rank = rank(live, self.demands.served_at);
        let place = pools.partition_point(|pool| rank(pool.live, pool.served_at) <= its_rank);
        wishes.insert(place, Wish::Tasks(demands.clone()));
        let places_stuck =
            |pool: &Pool| (pool.demand - pool.wants()) * u32::from(pool.needs.places());
        let stuck = pools.iter().map(places_stuck).sum();
        let places = Places {
            ordinary: u32::from(self.config.workers).saturating_sub(stuck),
            spare: self.free_spares(),
        };
        let mut shares = deal(&wishes, places, self.unstuck_claims());
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

    /// Deals places to those who have everything else for more workers, or could do without: to nobody more than he is due
    /// of what others lack.
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
        let places = |pool: &Pool| Demand { cores: pool.needs.cores, ..Demand::NONE };
        let wishes =
            pools.iter().zip(counts).map(|(pool, count)| Wish::Workers(count, places(pool)));
        let wishes: Vec<Wish> = wishes.collect();
        let places = Places { ordinary: self.config.workers.into(), spare: 0 };
        let shares = deal(&wishes, places, Claims::new(&Supply::default()));
        for (pool, share) in pools.iter_mut().zip(shares) {
            pool.share = u32::try_from(share.len()).unwrap_or(u32::MAX);
        }
    }

    /// What demanding tasks need besides places: those that have it first, and how many these are.
    fn tasks_with_needs(&self) -> (Vec<Demand>, u32) {
        let mut with: Vec<u32> = self.slots.iter().map(|slot| slot.holder).collect();
        with.push(self.demands.first);
        with.retain(|&index| index != NONE && !self.is_stuck(index));
        with.sort_unstable();
        with.dedup();
        let waiting = self.could_have_their_turn().filter(|index| !with.contains(index));
        let needs = |index: u32| Demand { cores: 0, ..self.demand(index) };
        let mut demands: Vec<Demand> = with.iter().map(|&index| needs(index)).collect();
        demands.retain(|demand| !demand.is_none());
        let live = u32::try_from(demands.len()).unwrap_or(u32::MAX);
        demands.extend(waiting.map(needs).filter(|demand| !demand.is_none()));
        (demands, live)
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
            needs: Demand::NONE,
            demand: self.usable(&staff, waiting, room),
            due: 0,
            share: 0,
            may_start,
            lacks_spare: false,
            is_proven: true,
            served_at: self.contexts.plain_served_at,
        }
    }

    fn pool_of(&self, id: ContextId, context: &Context) -> Pool {
        let staff = self.staff(id);
        let waiting = u64::from(context.queue.len()) + self.nested_waiting(id);
        let is_coming = |slot: &Slot| slot.context == id && slot.state == SlotState::Starting;
        let is_tried = context.is_proven || !self.slots.iter().any(is_coming);
        let may_start =
            is_tried && context.failure.is_none() && !context.starts.must_pause(self.now);
        let may_start = may_start && self.could_equip(&context.options.demand);
        // The first one shows whether others are worth a start.
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
            demand: self.usable(&staff, waiting, room),
            due: 0,
            share: 0,
            may_start,
            lacks_spare: may_start && self.lacks_spare(id, &staff),
            is_proven: context.is_proven,
            served_at: context.served_at,
        }
    }

    /// Whether tasks wait for workers with a context that all wait themselves, and a spare one could be had.
    fn lacks_spare(&self, id: ContextId, staff: &Staff) -> bool {
        let is_free = |slot: &Slot| {
            slot.context == id && slot.has_process() && slot.waiting == 0 && !slot.is_leaving
        };
        let could_be = staff.live > 0 && self.contexts.waits(id) && self.free_spares() > 0;
        could_be && !self.slots.iter().any(is_free)
    }

    /// How many workers would have something to do, as far as there are such, or room for them.
    fn usable(&self, staff: &Staff, waiting: u64, room: u32) -> u32 {
        if matches!(self.phase, Phase::Broken(_) | Phase::Poisoned(_)) {
            return 0;
        }
        let demand = u32::try_from(waiting + staff.work).unwrap_or(u32::MAX);
        demand.min(staff.live.saturating_add(room)).min(self.config.workers.into())
    }

    /// The workers with a context, or without one.
    pub(crate) fn staff(&self, context: ContextId) -> Staff {
        let mut staff = Staff::default();
        for (place, slot) in self.slots.iter().enumerate() {
            if slot.context != context || !slot.has_process() {
                continue;
            }
            let is_there = matches!(slot.state, SlotState::Starting | SlotState::Ready);
            let stays = is_there && !slot.is_leaving;
            let is_ordinary = place < usize::from(self.config.workers);
            staff.running += u64::from(slot.in_flight.len);
            staff.all += u32::from(is_ordinary);
            staff.live += u32::from(is_ordinary && stays);
            staff.stuck += u32::from(is_ordinary && stays && slot.waiting > 0);
            if stays {
                // What runs, or waits, keeps its own worker; others could do what is behind that.
                staff.work += u64::from(is_ordinary && slot.in_flight.len > 0);
                staff.work += self.spare_work(slot);
            }
        }
        staff
    }

    /// What is behind the task that a worker runs, and is for others with its context too.
    fn spare_work(&self, slot: &Slot) -> u64 {
        if slot.context == PLAIN {
            return slot.in_flight.len.saturating_sub(slot.waiting + 1).into();
        }
        self.few_behind(slot, slot.context)
    }

    /// Tasks in a context, or in none, behind the task that a worker runs: not all, where there are more than workers.
    pub(crate) fn few_behind(&self, slot: &Slot, context: ContextId) -> u64 {
        let behind = List::from(&self.tasks, slot.in_flight.head).skip(slot.waiting as usize + 1);
        let few = behind.take(self.config.workers.into());
        few.filter(|&index| self.context_of(index) == context).count() as u64
    }

    /// Tasks that wait for workers without a context, and places of those that need several.
    pub(super) fn plain_waiting(&self) -> u64 {
        let wanted = if self.could_gather() { self.demands.wanted_places } else { 0 };
        let places = wanted + self.ordinary_lent_places();
        u64::from(self.ready.len()) + self.nested_waiting(PLAIN) + places
    }

    /// Places of tasks that run, beyond their own workers': those of spare workers are nothing that others could use.
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

    /// Tasks for workers with a context that wait in the queues of those whose tasks submitted them: not all, where there are
    /// more than workers.
    pub(super) fn nested_waiting(&self, context: ContextId) -> u64 {
        if self.nested_ready == 0 {
            return 0;
        }
        let count = |slot: &Slot| {
            let most = usize::from(self.config.workers);
            let few = List::from(&self.tasks, slot.nested.head).take(most);
            few.filter(|&index| self.context_of(index) == context).count() as u64
        };
        self.slots.iter().map(count).sum()
    }
}
