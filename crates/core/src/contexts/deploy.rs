//! How many workers have which context, and when one gives way to another.
//!
//! All that have something to do get the same number of workers, unless they can use less. A worker of somebody who has more
//! than that gives way: at once if it has nothing to do, else after what it runs, and not before its context has been there
//! for long enough to be worth its start. A context that nobody waits for stays where it is until others need the place, or
//! what its workers have besides.

use gristmill_wire::ContextId;

use super::pools::{Pool, TaskPool};
use super::{Contexts, PLAIN};
use crate::demands::Kinds;
use crate::machine::Phase;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

impl Core {
    /// Gives the places of workers to those that have something to do.
    pub(crate) fn deploy(&mut self, port: &mut impl Port) {
        self.contexts.deployed_at = Some(self.now);
        self.contexts.has_news = false;
        let (mut pools, tasks) = self.pools();
        self.fill_places(&mut pools, port);
        self.fill_spares(&mut pools, port);
        self.make_way(&pools, &tasks, port);
        self.hold_up_tasks(&pools, &tasks);
        if self.has_fresh {
            // What came back from a worker that gives way may be for another one that has room.
            self.pump(port);
        }
        let lacks = |pool: &Pool| pool.demand > pool.live || pool.lacks_spare;
        self.contexts.is_short = pools.iter().any(lacks) || !tasks.lacking.is_empty();
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

    /// Starts workers where there are none, for those who have fewest; for nobody's tasks, as many as are kept without work.
    fn fill_places(&mut self, pools: &mut [Pool], port: &mut impl Port) {
        for place in 0..usize::from(self.config.workers) {
            if self.slots[place].state != SlotState::Absent {
                continue;
            }
            if self.slots[place].holder != NONE {
                self.fill_held(place, pools, port);
                continue;
            }
            let Some(context) = self.who_gets(place, pools) else { continue };
            self.spawn(place, context, port);
        }
    }

    /// Whose worker a place is for; nobody's while somebody waits for further ones.
    fn who_gets(&self, place: usize, pools: &mut [Pool]) -> Option<ContextId> {
        let (able, unable): (Vec<usize>, Vec<usize>) = (0..pools.len())
            .filter(|&number| pools[number].lacks() > 0)
            .partition(|&number| self.can_equip(place, &pools[number].needs));
        let mut next = able.into_iter().min_by_key(|&number| pools[number].live);
        if next.is_none() && self.gathers_places() {
            // It began first, and has to end before anybody else has several places.
            next = pools.iter().position(|pool| pool.context == PLAIN && pool.may_start);
        }
        if let Some(pool) = next.map(|number| &mut pools[number]) {
            pool.live += 1;
            pool.may_start &= pool.is_proven;
            return Some(pool.context);
        }
        let least = if matches!(self.phase, Phase::Open) { self.config.workers_min } else { 0 };
        let there = u32::from(self.config.workers) - self.absent_slots;
        let is_kept = there < least.into() && !self.starts.must_pause(self.now);
        (is_kept && unable.is_empty()).then_some(PLAIN)
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
            let is_there = |slot: &&Slot| slot.has_process();
            let has = |context| {
                let its = self.slots.iter().filter(is_there).filter(|slot| slot.context == context);
                // Tasks that need more than a worker may not be able to use it.
                (!self.waits_for_any(context), its.count())
            };
            let waiting = pools.iter_mut().filter(|pool| {
                let may_start = pool.may_start && self.can_equip(place, &pool.needs);
                may_start && Some(pool.context) != current && self.waits(pool.context)
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
    pub(super) fn waits_for_any(&self, context: ContextId) -> bool {
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
            let may_start = has_room && one.failure.is_none() && has_more;
            may_start && self.could_equip(&one.options.demand)
        })
    }

    /// Whether somebody waits who could use a spare worker.
    pub(crate) fn has_use_for_spares(&self) -> bool {
        let mut contexts = self.contexts.table.values();
        let could_have = |demand| self.could_equip(demand);
        self.ready_count() + self.demands.len() > 0
            || contexts.any(|one| !one.queue.is_empty() && could_have(&one.options.demand))
    }

    /// Has demanding tasks wait that need what contexts wait for, once they have their share of it, and those that need
    /// several places while a context has no worker at all: else none could have it beside a stream of them.
    fn hold_up_tasks(&mut self, pools: &[Pool], tasks: &TaskPool) {
        let mut held_up = Kinds::default();
        for pool in pools.iter().filter(|pool| pool.due > pool.live && pool.context != PLAIN) {
            if !self.could_equip(&pool.needs) {
                continue;
            }
            let kinds = Kinds::besides_places(&pool.needs);
            if !tasks.lacking.iter().any(|needs| Kinds::of(needs).meets(kinds)) {
                held_up.add(kinds);
            }
            if pool.live == 0 {
                held_up.add(Kinds::PLACES);
            }
        }
        let before = self.demands.held_up;
        if held_up.has_more_than(before) {
            // Who has his turn depends on it. Let go of at the same time, two things could be held up in turns without end.
            held_up.add(before);
        }
        self.demands.held_up = held_up;
        if before.has_more_than(held_up) && self.demands.len() > 0 {
            self.has_fresh = true;
            // They count among those who could use workers now, and nobody has asked for any.
            self.contexts.note_news();
        }
    }
}
