//! How many workers have which context, and when one gives way to another.
//!
//! All that have something to do get the same number of workers, unless they can use less. A worker of somebody who has more
//! than that gives way: at once if it has nothing to do, else after what it runs, and not before its context has been there
//! for long enough to be worth its start. A context that nobody waits for stays where it is until others need the place.

use std::cmp::Reverse;

use gristmill_wire::ContextId;

use super::fair::divide;
use super::{Context, Contexts, PLAIN};
use crate::list::List;
use crate::machine::Phase;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

/// The workers that have one context, or none.
#[derive(Debug)]
struct Pool {
    context: ContextId,
    /// Those that are there or were asked for, and are to stay.
    live: u32,
    /// How many it could use, as far as it may have more now.
    demand: u32,
    /// How many it is to have.
    share: u32,
    may_start: bool,
    /// Its workers are known to come up.
    is_proven: bool,
    /// When it got one last.
    served_at: u64,
}

impl Pool {
    fn lacks(&self) -> u32 {
        self.share.saturating_sub(self.live)
    }
}

/// The ordinary workers with one context.
#[derive(Debug, Clone, Copy, Default)]
struct Staff {
    /// Those that are there or were asked for, and are to stay.
    live: u32,
    /// Those that leave too.
    all: u32,
    /// For how many there is something in the rings, as far as it is not with those that leave.
    work: u64,
}

impl Core {
    /// Gives the places of workers to those that have something to do.
    pub(crate) fn deploy(&mut self, port: &mut impl Port) {
        self.contexts.deployed_at = Some(self.now);
        self.contexts.has_news = false;
        let mut pools = self.pools();
        self.fill_places(&mut pools, port);
        self.fill_spares(&mut pools, port);
        self.make_way(&pools, port);
        if self.has_fresh {
            // What came back from a worker that gives way may be for another one that has room.
            self.pump(port);
        }
        self.contexts.is_short = pools.iter().any(|pool| pool.demand > pool.live);
        let plain = self.waits(PLAIN).then(|| self.starts.pause_after(self.now)).flatten();
        let pauses = [plain, self.contexts.next_start(self.now)];
        self.contexts.paused_until = pauses.into_iter().flatten().min();
    }

    /// When somebody is to be looked for who gives way: soon after something has become ready or can be had, now and then
    /// while somebody could use more, and after pauses between starts.
    pub(crate) fn next_deployment(&self) -> Option<u64> {
        let Contexts { deployed_at, has_news, is_short, .. } = self.contexts;
        let has_ready = self.has_ready();
        if self.contexts.is_empty() || !(has_ready || self.could_steal()) {
            return None;
        }
        let patience_ns = self.config.recheck_ns.max(self.config.context_tenure_ns / 10);
        let pause_ns = match (has_news, is_short) {
            (true, _) if has_ready => Some(self.config.recheck_ns),
            (false, false) => None,
            // What is behind a task that runs may have to wait for as long as that.
            _ => Some(patience_ns),
        };
        let next = pause_ns.map(|pause_ns| deployed_at.map_or(0, |at| at.saturating_add(pause_ns)));
        [next, self.contexts.paused_until].into_iter().flatten().min()
    }

    /// Whether that is to be now.
    pub(crate) fn is_deployment_due(&self) -> bool {
        self.next_deployment().is_some_and(|due| due <= self.now)
    }

    fn pools(&self) -> Vec<Pool> {
        let mut pools: Vec<Pool> = std::iter::once(self.plain_pool())
            .chain(self.contexts.table.iter().map(|(&id, context)| self.pool_of(id, context)))
            .collect();
        // Whoever has nothing comes first, in turn; whoever has had it longest gives way first.
        pools.sort_by_key(|pool| match pool.live {
            0 => (false, pool.served_at, Reverse(0)),
            _ => (true, 0, Reverse(pool.served_at)),
        });
        let demands: Vec<u32> = pools.iter().map(|pool| pool.demand).collect();
        let shares = divide(&demands, self.config.workers.into());
        for (pool, share) in pools.iter_mut().zip(shares) {
            pool.share = share;
        }
        pools
    }

    fn plain_pool(&self) -> Pool {
        let staff = self.staff(PLAIN);
        let waiting = self.plain_waiting();
        let may_start = !self.starts.must_pause(self.now);
        let room = if may_start { u32::MAX } else { 0 };
        Pool {
            context: PLAIN,
            live: staff.live,
            demand: self.usable(&staff, waiting, room),
            share: 0,
            may_start,
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
            demand: self.usable(&staff, waiting, room),
            share: 0,
            may_start,
            is_proven: context.is_proven,
            served_at: context.served_at,
        }
    }

    /// How many workers would have something to do, as far as there are such, or room for them.
    fn usable(&self, staff: &Staff, waiting: u64, room: u32) -> u32 {
        if matches!(self.phase, Phase::Broken(_) | Phase::Poisoned(_)) {
            return 0;
        }
        let demand = u32::try_from(waiting + staff.work).unwrap_or(u32::MAX);
        demand.min(staff.live.saturating_add(room)).min(self.config.workers.into())
    }

    fn staff(&self, context: ContextId) -> Staff {
        let mut staff = Staff::default();
        for (place, slot) in self.slots.iter().enumerate() {
            if slot.context != context || slot.state == SlotState::Absent {
                continue;
            }
            let is_there = matches!(slot.state, SlotState::Starting | SlotState::Ready);
            let stays = is_there && !slot.is_leaving;
            let is_ordinary = place < usize::from(self.config.workers);
            staff.all += u32::from(is_ordinary);
            staff.live += u32::from(is_ordinary && stays);
            if stays {
                // What runs, or waits, keeps its own worker; others could do what is behind that.
                staff.work += u64::from(is_ordinary && slot.in_flight.len > 0);
                staff.work += self.spare_work(slot);
            }
        }
        staff
    }

    /// What is behind the task that a worker runs, and is for others with its context too: not all, where there is more than
    /// workers.
    fn spare_work(&self, slot: &Slot) -> u64 {
        let first = slot.waiting + 1;
        if slot.context == PLAIN || slot.in_flight.len <= first {
            return slot.in_flight.len.saturating_sub(first).into();
        }
        let behind = List::from(&self.tasks, slot.in_flight.head).skip(first as usize);
        let few = behind.take(self.config.workers.into());
        few.filter(|&index| self.context_of(index) == slot.context).count() as u64
    }

    /// Tasks that wait for workers without a context, and places of those that need several.
    fn plain_waiting(&self) -> u64 {
        let wanted = if self.could_gather() { self.demands.wanted_places } else { 0 };
        let places = wanted + self.demands.lent_places;
        u64::from(self.ready.len()) + self.nested_waiting(PLAIN) + places
    }

    /// Tasks for workers with a context that wait in the queues of those whose tasks submitted them: not all, where there are
    /// more than workers.
    fn nested_waiting(&self, context: ContextId) -> u64 {
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

    /// How many ordinary workers have a context and are to stay; how many tasks all that have it run.
    pub(crate) fn workers_with(&self, context: ContextId) -> (u32, u64) {
        let (mut live, mut in_flight) = (0, 0);
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, one)| one.context == context)
        {
            in_flight += u64::from(slot.in_flight.len);
            let is_there = matches!(slot.state, SlotState::Starting | SlotState::Ready);
            let is_ordinary = place < usize::from(self.config.workers);
            live += u32::from(is_there && is_ordinary && !slot.is_leaving);
        }
        (live, in_flight)
    }

    /// Starts workers where there are none, for those who have fewest; for nobody's tasks, as many as are kept without work.
    fn fill_places(&mut self, pools: &mut [Pool], port: &mut impl Port) {
        let least = if matches!(self.phase, Phase::Open) { self.config.workers_min } else { 0 };
        for place in 0..usize::from(self.config.workers) {
            if self.slots[place].state != SlotState::Absent {
                continue;
            }
            if self.slots[place].holder != NONE {
                self.fill_held(place, pools, port);
                continue;
            }
            let there = u32::from(self.config.workers) - self.absent_slots;
            let lacking = pools.iter_mut().filter(|pool| pool.lacks() > 0);
            let next = lacking.min_by_key(|pool| pool.live).map(|pool| {
                pool.live += 1;
                pool.may_start &= pool.is_proven;
                pool.context
            });
            let kept = (there < least.into() && !self.starts.must_pause(self.now)).then_some(PLAIN);
            let Some(context) = next.or(kept) else { return };
            self.spawn(place, context, port);
        }
    }

    /// Starts a worker without a context in a place that a task has, or gathers: whoever else has fewer, it is nobody else's.
    fn fill_held(&mut self, place: usize, pools: &mut [Pool], port: &mut impl Port) {
        let plain = pools.iter_mut().find(|pool| pool.context == PLAIN && pool.may_start);
        if let Some(plain) = plain {
            plain.live += 1;
            self.spawn(place, PLAIN, port);
        }
    }

    /// Starts spares where stacks wait for something that no worker is left for.
    fn fill_spares(&mut self, pools: &mut [Pool], port: &mut impl Port) {
        let (_, spares) = self.wanted();
        for place in self.spare_places(spares) {
            let slot = &self.slots[place];
            let (is_absent, held) = (slot.state == SlotState::Absent, slot.holder != NONE);
            if held && is_absent {
                self.fill_held(place, pools, port);
                continue;
            }
            let current = (!is_absent).then_some(slot.context);
            let is_there = |slot: &&Slot| slot.state != SlotState::Absent;
            let has = |context| {
                let its = self.slots.iter().filter(is_there).filter(|slot| slot.context == context);
                // Tasks that need more than a worker may not be able to use it.
                (!self.waits_for_any(context), its.count())
            };
            let waiting = pools.iter_mut().filter(|pool| {
                pool.may_start && Some(pool.context) != current && self.waits(pool.context)
            });
            let Some(next) = waiting.min_by_key(|pool| has(pool.context)) else { continue };
            if is_absent {
                next.may_start &= next.is_proven;
                let context = next.context;
                self.spawn(place, context, port);
            } else if self.is_useless(place) {
                self.retire(place, port);
            }
        }
    }

    /// Whether tasks wait for workers with a context.
    pub(crate) fn waits(&self, context: ContextId) -> bool {
        self.waits_for_any(context) || (context == PLAIN && self.demands.len() > 0)
    }

    /// Whether tasks wait that any worker with a context could run.
    fn waits_for_any(&self, context: ContextId) -> bool {
        if context != PLAIN {
            return self.contexts.waits(context);
        }
        !self.ready.is_empty() || self.nested_waiting(PLAIN) > 0
    }

    /// Whether somebody could use a further worker, and may have one, now or after a pause.
    pub(crate) fn has_startable(&self) -> bool {
        let plain = self.staff(PLAIN);
        let least = if matches!(self.phase, Phase::Open) { self.config.workers_min } else { 0 };
        let is_kept = u32::from(self.config.workers) - self.absent_slots < least.into();
        is_kept
            || self.plain_waiting() + plain.work > plain.live.into()
            || self.has_startable_context()
    }

    /// The same of those with a context.
    pub(crate) fn has_startable_context(&self) -> bool {
        self.contexts.table.iter().any(|(&id, one)| {
            let staff = self.staff(id);
            let has_room = staff.all < one.options.workers_max.into();
            let has_more = u64::from(one.queue.len()) + staff.work > staff.live.into();
            has_room && one.failure.is_none() && has_more
        })
    }

    /// Whether a worker idles whose context nobody waits for. What needs several places has those that idle already.
    fn is_useless(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        slot.is_idle() && slot.holder == NONE && !self.waits_for_any(slot.context)
    }

    /// Has workers of those who have more than their share give way to those who have less.
    fn make_way(&mut self, pools: &[Pool], port: &mut impl Port) {
        let lacking: u32 = pools.iter().map(Pool::lacks).sum();
        let mut surplus: Vec<(ContextId, u32)> =
            pools.iter().map(|pool| (pool.context, pool.live.saturating_sub(pool.share))).collect();
        // Whoever has nothing to do goes at once, though somebody else may go some time.
        for is_idle in [true, false] {
            for _ in self.leaving(is_idle)..lacking {
                let Some(place) = self.who_gives_way(&surplus, is_idle) else { break };
                let context = self.slots[place].context;
                let its = surplus.iter_mut().find(|(one, _)| *one == context);
                if let Some((_, count)) = its {
                    *count -= 1;
                }
                self.send_worker_away(place, port);
            }
        }
    }

    /// How many ordinary workers leave; how many do so now.
    fn leaving(&self, is_now: bool) -> u32 {
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let leaves = |slot: &&Slot| {
            slot.state == SlotState::Retiring || (!is_now && slot.is_leaving && slot.waiting == 0)
        };
        u32::try_from(ordinary.iter().filter(leaves).count()).unwrap_or(u32::MAX)
    }

    /// The ordinary worker that has had nothing to do for longest; else, of those whose context was there for long enough,
    /// the one with least to do.
    fn who_gives_way(&self, surplus: &[(ContextId, u32)], is_idle: bool) -> Option<usize> {
        let since = self.now.saturating_sub(self.config.context_tenure_ns);
        let may = |&place: &usize| {
            let slot = &self.slots[place];
            let has_more = surplus.iter().any(|&(one, count)| one == slot.context && count > 0);
            let is_there = slot.state == SlotState::Ready && slot.holder == NONE;
            // What a stack waits for may be what the place is for.
            let is_settled = slot.waiting == 0 && slot.ready_at <= since;
            let is_meant = if is_idle { self.is_useless(place) } else { is_settled };
            has_more && is_there && is_meant && !slot.is_leaving
        };
        let rank = |&place: &usize| {
            let slot = &self.slots[place];
            (slot.in_flight.len > 0, slot.backlog_ns, slot.idle_since)
        };
        (0..usize::from(self.config.workers)).filter(may).min_by_key(rank)
    }

    /// Has a worker leave, once it has nothing to do; what waits there goes elsewhere.
    pub(crate) fn send_worker_away(&mut self, place: usize, port: &mut impl Port) {
        if self.slots[place].is_idle() && self.slots[place].holder == NONE {
            return self.retire(place, port);
        }
        self.slots[place].is_leaving = true;
        let waiting = self.unclaimed(place, port);
        let taken = self.recall(place, &waiting, port);
        self.return_all(&taken, port);
        self.retire_vacated(port);
    }

    /// Lets workers go that were to leave and have nothing to do any more, be it that all they had was taken back.
    pub(crate) fn retire_vacated(&mut self, port: &mut impl Port) {
        if !std::mem::take(&mut self.contexts.has_vacated) {
            return;
        }
        for place in 0..self.live_end {
            if self.slots[place].is_leaving && self.slots[place].is_idle() {
                self.retire(place, port);
            }
        }
    }
}
