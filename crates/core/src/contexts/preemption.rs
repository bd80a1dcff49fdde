//! Preemption: choice of the workers that must leave because other contexts or tasks are due their CPU slots or other
//! resources.

use gristmill_wire::{ContextId, ResourceRequest};

use super::PLAIN;
use super::pools::{Pool, TaskPool};
use crate::demands::FreeResources;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

/// Number of workers that each context has beyond its share.
type Surplus = Vec<(ContextId, u32)>;

/// Selection of the workers that may be asked to leave.
#[derive(Debug, Clone, Copy)]
struct PreemptionFilter {
    /// True to select workers that are idle, false to select the others.
    is_idle: bool,
    /// True if the requester has nothing: workers of contexts that have no more than their share may then leave too.
    has_nothing: bool,
    /// The context that requests, whose own workers stay; `PLAIN` if tasks request.
    except: ContextId,
}

fn take_from(surplus: &mut Surplus, context: ContextId) {
    let its = surplus.iter_mut().find(|(one, _)| *one == context);
    if let Some((_, count)) = its {
        *count = count.saturating_sub(1);
    }
}

impl Core {
    /// Returns true if a worker is idle and no task waits for its context, or if it is a spare worker that no task can
    /// use now. Tasks that need several CPU slots do not count: they use slots that are idle already.
    pub(super) fn is_useless(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        if !slot.is_idle() || slot.holder != NONE {
            return false;
        }
        // Nested tasks of this context count as waiting too: they are sent to this worker once its ring has room.
        let waits = self.waits_for_any(slot.context) || self.nested_waiting(slot.context) > 0;
        !(waits && self.serves(place, slot.context))
    }

    /// Makes workers of contexts with more than their share leave, in favour of those with less.
    pub(super) fn make_way(&mut self, pools: &[Pool], tasks: &TaskPool, port: &mut impl Port) {
        let more = |pool: &Pool| (pool.context, pool.live.saturating_sub(pool.share));
        let mut surplus: Surplus = pools.iter().map(more).collect();
        let lacking = self.lacking_places(pools);
        // An idle worker leaves at once, even if another worker leaves later.
        for is_idle in [true, false] {
            let mut left = lacking.saturating_sub(self.leaving(is_idle));
            while left > 0 {
                let Some(place) = self.who_gives_way(&surplus, is_idle) else { break };
                let slot = &self.slots[place];
                left = left.saturating_sub(slot.demand.places().into());
                take_from(&mut surplus, slot.context);
                self.send_worker_away(place, port);
            }
        }
        if !tasks.lacking.is_empty() || pools.iter().any(|pool| !pool.needs.is_none()) {
            self.free_grants((pools, tasks), &mut surplus, port);
        }
    }

    /// Returns the number of CPU slots that workers lack beyond the free ones.
    fn lacking_places(&self, pools: &[Pool]) -> u32 {
        let lacking: u32 =
            pools.iter().map(|pool| pool.lacks() * u32::from(pool.needs.places())).sum();
        let is_free = |slot: &&Slot| slot.state == SlotState::Absent && slot.holder == NONE;
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let free = ordinary.iter().filter(is_free).count();
        lacking.saturating_sub(u32::try_from(free).unwrap_or(u32::MAX))
    }

    /// Returns the number of CPU slots of leaving workers. If `is_now` is set, counts only workers that leave at once.
    fn leaving(&self, is_now: bool) -> u32 {
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let leaves = |slot: &&Slot| {
            slot.state == SlotState::Retiring || (!is_now && slot.is_leaving && slot.waiting == 0)
        };
        ordinary.iter().filter(leaves).map(|slot| u32::from(slot.demand.places())).sum()
    }

    /// Returns the ordinary worker that should leave. If `is_idle` is set, this is the one that has been idle for longest.
    /// Otherwise it is the one with the least work among the workers that have been up for the tenure of a context.
    fn who_gives_way(&self, surplus: &Surplus, is_idle: bool) -> Option<usize> {
        let since = self.now.saturating_sub(self.config.context_tenure_ns);
        let may = |&place: &usize| {
            let slot = &self.slots[place];
            let has_more = surplus.iter().any(|&(one, count)| one == slot.context && count > 0);
            let is_there = slot.state == SlotState::Ready && slot.holder == NONE;
            // The tasks for which this worker waits may be those that need the CPU slot.
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

    /// Makes workers leave whose resources are due to contexts and demanding tasks that lack them.
    fn free_grants(
        &mut self,
        (pools, tasks): (&[Pool], &TaskPool),
        surplus: &mut Surplus,
        port: &mut impl Port,
    ) {
        let of_pool = |pool: &Pool| {
            let lacking = pool.due.saturating_sub(pool.live).max(pool.lacks_spare.into());
            (pool.needs, pool.live == 0 || pool.lacks_spare, pool.context, lacking)
        };
        let of_task = |&needs: &ResourceRequest| (needs, tasks.live == 0, PLAIN, 1);
        let lacking = || pools.iter().map(of_pool).chain(tasks.lacking.iter().map(of_task));
        // An idle worker leaves at once, even if another worker leaves later.
        for is_idle in [true, false] {
            let mut coming = self.demands.claims.clone();
            let goes = |slot: &&Slot| {
                let is_going = matches!(slot.state, SlotState::Retiring | SlotState::Dying);
                is_going || (slot.is_leaving && !is_idle)
            };
            for slot in self.slots.iter().filter(goes) {
                coming.give_back(&slot.demand, slot.devices);
            }
            for (needs, has_nothing, except, count) in lacking() {
                let whose = PreemptionFilter { is_idle, has_nothing, except };
                for _ in 0..count {
                    self.free_for(&needs, whose, (surplus, &mut coming), port);
                }
            }
        }
    }

    /// Makes workers leave until the requested resources will be free.
    fn free_for(
        &mut self,
        needs: &ResourceRequest,
        whose: PreemptionFilter,
        (surplus, coming): (&mut Surplus, &mut FreeResources),
        port: &mut impl Port,
    ) {
        loop {
            if let Some(devices) = coming.find(needs, std::iter::empty()) {
                return coming.take(needs, devices);
            }
            let short = coming.short_of(needs);
            let Some(place) = self.who_gives_up(&short, whose, surplus) else { return };
            let slot = &self.slots[place];
            coming.give_back(&slot.demand, slot.devices);
            take_from(surplus, slot.context);
            self.send_worker_away(place, port);
        }
    }

    /// Returns the worker that should leave, of those that have some of the resources in `short`: one of a context with
    /// more than its share first, then the one with the least work, then the one that has been idle for longest. If
    /// `whose.is_idle` is not set, the worker's context must have been there for long enough.
    fn who_gives_up(
        &self,
        short: &ResourceRequest,
        whose: PreemptionFilter,
        surplus: &Surplus,
    ) -> Option<usize> {
        let since = self.now.saturating_sub(self.config.context_tenure_ns);
        let rank = |&place: &usize| {
            let slot = &self.slots[place];
            let has_it = (slot.demand.gpus > 0 && short.gpus > 0)
                || (slot.demand.memory > 0 && short.memory > 0);
            let is_there = slot.state == SlotState::Ready && !slot.is_leaving;
            let is_meant = is_there && !self.serves(place, whose.except);
            let has_more = surplus.iter().any(|&(one, count)| one == slot.context && count > 0);
            let is_settled = slot.waiting == 0 && slot.ready_at <= since;
            let may_go = match whose.is_idle {
                true => self.is_useless(place),
                false => is_settled && (has_more || whose.has_nothing),
            };
            (has_it && is_meant && may_go).then_some((!has_more, slot.backlog_ns, slot.idle_since))
        };
        let ranked = (0..self.live_end).filter_map(|place| Some((rank(&place)?, place)));
        ranked.min().map(|(_, place)| place)
    }

    /// Makes a worker leave once it is idle. The tasks that wait there go elsewhere.
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

    /// Retires the leaving workers that have become idle, including those whose tasks were all taken back.
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
