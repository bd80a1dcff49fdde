//! How many workers have which context, and when one gives way to another.
//!
//! All that have something to do get the same number of workers, unless they can use less. A worker of somebody who has more
//! than that gives way: at once if it has nothing to do, else after what it runs, and not before its context has been there
//! for long enough to be worth its start. A context that nobody waits for stays where it is until others need the place.

use std::cmp::Reverse;

use gristmill_wire::ContextId;

use super::fair::divide;
use super::{Context, Contexts, PLAIN};
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
    /// How many it could use.
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
        // The first one shows whether others are worth a start.
        let most = if !self.may_start {
            0
        } else if self.is_proven {
            u32::MAX
        } else {
            1
        };
        self.share.saturating_sub(self.live).min(most)
    }
}

impl Core {
    /// Gives the places of workers to those that have something to do.
    pub(crate) fn deploy(&mut self, port: &mut impl Port) {
        self.contexts.deployed_at = Some(self.now);
        self.contexts.has_news = false;
        let mut pools = self.pools();
        self.fill_places(&mut pools, port);
        self.fill_spares(&pools, port);
        self.contexts.is_short = !self.make_way(&pools, port);
    }

    /// When somebody is to be looked for who gives way, while something waits, be it behind what runs: soon after it has
    /// become ready, now and then while nobody can, and when a pause is over.
    pub(crate) fn next_deployment(&self) -> Option<u64> {
        if self.contexts.is_empty() || !(self.has_ready() || self.deep_slots > 0) {
            return None;
        }
        let Contexts { deployed_at, has_news, is_short, .. } = self.contexts;
        let Some(deployed_at) = deployed_at else { return Some(0) };
        let pause_ns = match (has_news, is_short) {
            (true, _) => Some(self.config.recheck_ns),
            (false, true) => Some(self.config.context_tenure_ns / 10),
            (false, false) => None,
        };
        let next_look = pause_ns.map(|pause_ns| deployed_at.saturating_add(pause_ns));
        let pauses = [self.contexts.next_start(deployed_at), self.starts.pause_after(deployed_at)];
        next_look.into_iter().chain(pauses.into_iter().flatten()).min()
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
        let (live, in_flight) = self.workers_with(PLAIN);
        let places = self.demands.wanted_places + self.demands.lent_places;
        let demand = self.ready_count() + in_flight + places;
        Pool {
            context: PLAIN,
            live,
            demand: self.at_most(demand, self.config.workers),
            share: 0,
            may_start: !self.starts.must_pause(self.now),
            is_proven: true,
            served_at: self.contexts.plain_served_at,
        }
    }

    fn pool_of(&self, id: ContextId, context: &Context) -> Pool {
        let (live, in_flight) = self.workers_with(id);
        let demand = u64::from(context.queue.len()) + in_flight;
        let is_coming = |slot: &Slot| slot.context == id && slot.state == SlotState::Starting;
        let is_tried = context.is_proven || !self.slots.iter().any(is_coming);
        let may_start =
            is_tried && context.failure.is_none() && !context.starts.must_pause(self.now);
        Pool {
            context: id,
            live,
            demand: self.at_most(demand, context.options.workers_max),
            share: 0,
            may_start,
            is_proven: context.is_proven,
            served_at: context.served_at,
        }
    }

    fn at_most(&self, demand: u64, limit: u16) -> u32 {
        if matches!(self.phase, Phase::Broken(_) | Phase::Poisoned(_)) {
            return 0;
        }
        u32::try_from(demand).unwrap_or(u32::MAX).min(limit.into())
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

    /// Starts spares where stacks wait for something that no worker is left for.
    fn fill_spares(&mut self, pools: &[Pool], port: &mut impl Port) {
        let (_, spares) = self.wanted();
        for place in self.spare_places(spares) {
            let waiting = pools.iter().filter(|pool| pool.may_start && self.waits(pool.context));
            let has = |context| self.slots.iter().filter(|slot| slot.context == context).count();
            let next = waiting.map(|pool| pool.context).min_by_key(|&context| has(context));
            match (self.slots[place].state, next) {
                (SlotState::Absent, Some(context)) => self.spawn(place, context, port),
                (SlotState::Ready, Some(_)) if self.is_useless(place) => self.retire(place, port),
                _ => {}
            }
        }
    }

    /// Whether tasks wait for workers with a context.
    pub(crate) fn waits(&self, context: ContextId) -> bool {
        if context == PLAIN {
            self.ready_count() + self.demands.len() > 0
        } else {
            self.contexts.waits(context)
        }
    }

    /// Whether a worker idles whose context nobody waits for.
    fn is_useless(&self, place: usize) -> bool {
        let slot = &self.slots[place];
        slot.is_idle() && slot.holder == NONE && !self.waits(slot.context)
    }

    /// Has workers of those who have more than their share give way to those who have less; says whether enough of them do.
    fn make_way(&mut self, pools: &[Pool], port: &mut impl Port) -> bool {
        let lacking: u32 = pools.iter().map(Pool::lacks).sum();
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let leave = |slot: &&Slot| slot.is_leaving || slot.state == SlotState::Retiring;
        let leaving = u32::try_from(ordinary.iter().filter(leave).count()).unwrap_or(u32::MAX);
        let mut surplus: Vec<(ContextId, u32)> =
            pools.iter().map(|pool| (pool.context, pool.live.saturating_sub(pool.share))).collect();
        for _ in leaving..lacking {
            let Some(place) = self.who_gives_way(&surplus) else { return false };
            let context = self.slots[place].context;
            let its = surplus.iter_mut().find(|(one, _)| *one == context);
            if let Some((_, count)) = its {
                *count -= 1;
            }
            self.send_worker_away(place, port);
        }
        true
    }

    /// The ordinary worker that has had nothing to do for longest; else, of those whose context was there for long enough,
    /// the one with least to do.
    fn who_gives_way(&self, surplus: &[(ContextId, u32)]) -> Option<usize> {
        let since = self.now.saturating_sub(self.config.context_tenure_ns);
        let may = |&place: &usize| {
            let slot = &self.slots[place];
            let has_more = surplus.iter().any(|&(one, count)| one == slot.context && count > 0);
            let is_settled = slot.in_flight.len == 0 || slot.ready_at <= since;
            let is_there = slot.state == SlotState::Ready && slot.holder == NONE;
            has_more && is_there && is_settled && !slot.is_leaving
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
    }
}
