//! Who gives way: workers whose places, or what they have besides, are others' share.

use gristmill_wire::{ContextId, Demand};

use super::PLAIN;
use super::pools::{Pool, TaskPool};
use crate::demands::Claims;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

/// How many workers each has beyond its share.
type Surplus = Vec<(ContextId, u32)>;

/// Whose workers are asked for what they have.
#[derive(Debug, Clone, Copy)]
struct Whose {
    /// Those that have nothing to do.
    is_idle: bool,
    /// Others too that have no more than their share, for somebody who has nothing.
    has_nothing: bool,
    /// Who asks, and needs his own himself. `PLAIN`: tasks.
    except: ContextId,
}

fn take_from(surplus: &mut Surplus, context: ContextId) {
    let its = surplus.iter_mut().find(|(one, _)| *one == context);
    if let Some((_, count)) = its {
        *count = count.saturating_sub(1);
    }
}

impl Core {
    /// Whether a worker idles whose context nobody waits for, or a spare one that is for nobody now. What needs several
    /// places has those that idle already.
    pub(super) fn is_useless(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        if !slot.is_idle() || slot.holder != NONE {
            return false;
        }
        // Children come to it too once its ring has room.
        let waits = self.waits_for_any(slot.context) || self.nested_waiting(slot.context) > 0;
        !(waits && self.serves(place, slot.context))
    }

    /// Has workers of those who have more than their share give way to those who have less.
    pub(super) fn make_way(&mut self, pools: &[Pool], tasks: &TaskPool, port: &mut impl Port) {
        let more = |pool: &Pool| (pool.context, pool.live.saturating_sub(pool.share));
        let mut surplus: Surplus = pools.iter().map(more).collect();
        let lacking = self.lacking_places(pools);
        // Whoever has nothing to do goes at once, though somebody else may go some time.
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
            self.free_equipment((pools, tasks), &mut surplus, port);
        }
    }

    /// Places that workers lack.
    fn lacking_places(&self, pools: &[Pool]) -> u32 {
        let lacking: u32 =
            pools.iter().map(|pool| pool.lacks() * u32::from(pool.needs.places())).sum();
        let is_free = |slot: &&Slot| slot.state == SlotState::Absent && slot.holder == NONE;
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let free = ordinary.iter().filter(is_free).count();
        lacking.saturating_sub(u32::try_from(free).unwrap_or(u32::MAX))
    }

    /// How many places those workers have that leave; that do so now.
    fn leaving(&self, is_now: bool) -> u32 {
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let leaves = |slot: &&Slot| {
            slot.state == SlotState::Retiring || (!is_now && slot.is_leaving && slot.waiting == 0)
        };
        ordinary.iter().filter(leaves).map(|slot| u32::from(slot.demand.places())).sum()
    }

    /// The ordinary worker that has had nothing to do for longest; else, of those whose context was there for long enough,
    /// the one with least to do.
    fn who_gives_way(&self, surplus: &Surplus, is_idle: bool) -> Option<usize> {
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

    /// Has workers give way that have what contexts and demanding tasks are to have and lack.
    fn free_equipment(
        &mut self,
        (pools, tasks): (&[Pool], &TaskPool),
        surplus: &mut Surplus,
        port: &mut impl Port,
    ) {
        let of_pool = |pool: &Pool| {
            let lacking = pool.due.saturating_sub(pool.live).max(pool.lacks_spare.into());
            (pool.needs, pool.live == 0 || pool.lacks_spare, pool.context, lacking)
        };
        let of_task = |&needs: &Demand| (needs, tasks.live == 0, PLAIN, 1);
        let lacking = || pools.iter().map(of_pool).chain(tasks.lacking.iter().map(of_task));
        // Whoever has nothing to do goes at once, though somebody else may go some time.
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
                let whose = Whose { is_idle, has_nothing, except };
                for _ in 0..count {
                    self.free_for(&needs, whose, (surplus, &mut coming), port);
                }
            }
        }
    }

    /// Has workers give way until there will be what somebody needs.
    fn free_for(
        &mut self,
        needs: &Demand,
        whose: Whose,
        (surplus, coming): (&mut Surplus, &mut Claims),
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

    /// Of the workers that have something of what is short the one that has had nothing to do for longest; else, of those
    /// whose context was there for long enough, the one with least to do: one of those who have more than their share first.
    fn who_gives_up(&self, short: &Demand, whose: Whose, surplus: &Surplus) -> Option<usize> {
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
