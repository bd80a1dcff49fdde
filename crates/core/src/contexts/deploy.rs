//! Assignment of workers to contexts: how many workers have which context, and when a worker of one context makes room
//! for another.
//!
//! All contexts that have work get the same number of workers, unless they can use fewer. A worker of a context with more
//! than that leaves: at once if it is idle, otherwise after the task that it runs, and not before its context has been
//! there for long enough to be worth its start. A context for which no task waits stays loaded until others need the CPU
//! slots, or the other resources, of its workers.

use gristmill_wire::ContextId;

use super::pools::{ContextWorkers, Pool, TaskPool};
use super::{ContextTable, PLAIN};
use crate::demands::Kinds;
use crate::machine::Phase;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

impl Core {
    /// Assigns the CPU slots of workers to the contexts that have work.
    pub(crate) fn deploy(&mut self, port: &mut impl Port) {
        self.contexts.deployed_at = Some(self.now);
        self.contexts.has_changed = false;
        self.contexts.resume(self.now);
        let (mut pools, tasks) = self.pools();
        self.contexts.count_looks(pools.len());
        self.fill_places(&mut pools, port);
        self.fill_spares(&mut pools, port);
        self.make_way(&pools, &tasks, port);
        self.hold_up_tasks(&pools, &tasks);
        if self.has_fresh {
            // A task that came back from a leaving worker may suit another worker that has room.
            self.pump(port);
        }
        let lacks = |pool: &Pool| pool.demand > pool.live || pool.lacks_spare;
        self.contexts.is_short = pools.iter().any(lacks) || !tasks.lacking.is_empty();
        let plain = self.waits(PLAIN).then(|| self.starts.pause_after(self.now)).flatten();
        let pauses = [plain, self.contexts.next_start(self.now)];
        self.contexts.paused_until = pauses.into_iter().flatten().min();
    }

    /// Returns when workers must be assigned again: soon after a task has become ready or resources are available, from
    /// time to time while a context could use more workers, and after pauses between starts.
    pub(crate) fn next_deployment(&self) -> Option<u64> {
        if self.contexts.is_empty() || self.config.workers == 0 {
            return None;
        }
        let ContextTable { deployed_at, has_changed, is_short, .. } = self.contexts;
        let has_ready = self.has_ready();
        if !(has_ready || self.could_steal()) {
            return None;
        }
        let patience_ns = self.config.recheck_ns.max(self.config.context_tenure_ns / 10);
        let pause_ns = match (has_changed, is_short) {
            (true, _) if has_ready => Some(self.config.recheck_ns),
            (false, false) => None,
            // The longer pause: nothing has changed since the last assignment, or no task is ready, so that one could only
            // be taken back from behind a running task.
            _ => Some(patience_ns),
        };
        let next = pause_ns.map(|pause_ns| deployed_at.map_or(0, |at| at.saturating_add(pause_ns)));
        [next, self.contexts.paused_until].into_iter().flatten().min()
    }

    /// Returns true if workers must be assigned again now.
    pub(crate) fn is_deployment_due(&self) -> bool {
        self.next_deployment().is_some_and(|due| due <= self.now)
    }

    /// Starts workers in absent slots for the contexts with the fewest workers, and workers without a context up to the
    /// number that is kept without work.
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

    /// Chooses the context of the worker that should start in a slot, and counts the worker in its pool. Returns `None` if no
    /// worker should start, for example while a context waits for further slots.
    fn who_gets(&self, place: usize, pools: &mut [Pool]) -> Option<ContextId> {
        let (able, unable): (Vec<usize>, Vec<usize>) = (0..pools.len())
            .filter(|&number| pools[number].lacks() > 0)
            .partition(|&number| self.can_grant(place, &pools[number].needs));
        let mut next = able.into_iter().min_by_key(|&number| pools[number].live);
        if next.is_none() && self.gathers_places() {
            // A task gathers several CPU slots. It must end before a context gets several, so this slot gets a worker
            // without a context.
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

    /// Starts a worker without a context in a slot that a task holds or gathers. No context can use that slot, even one
    /// with fewer workers.
    fn fill_held(&mut self, place: usize, pools: &mut [Pool], port: &mut impl Port) {
        let plain = pools.iter_mut().find(|pool| pool.context == PLAIN && pool.may_start);
        if let Some(plain) = plain {
            plain.live += 1;
            self.spawn(place, PLAIN, port);
        }
    }

    /// Starts spare workers if running tasks wait for other tasks and no ordinary worker is free to run those.
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
                // Contexts whose waiting tasks any worker could run come first: a demanding task may not be able to use the
                // new worker.
                (!self.waits_for_any(context), its.count())
            };
            let waiting = pools.iter_mut().filter(|pool| {
                let may_start = pool.may_start && self.can_grant(place, &pool.needs);
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

    /// Returns true if tasks wait for workers with this context, demanding tasks included.
    pub(crate) fn waits(&self, context: ContextId) -> bool {
        self.waits_for_any(context) || (context == PLAIN && self.demands.len() > 0)
    }

    /// Returns true if tasks wait that every worker with this context could run.
    pub(super) fn waits_for_any(&self, context: ContextId) -> bool {
        if context != PLAIN {
            return self.contexts.waits(context) || self.has_children_for_more(context);
        }
        !self.ready.is_empty() || self.nested_waiting(PLAIN) > 0
    }

    /// Returns true if nested tasks wait for this context and its limit allows one more worker. Spare workers count.
    fn has_children_for_more(&self, context: ContextId) -> bool {
        let Some(one) = self.contexts.table.get(&context) else { return false };
        if self.nested_waiting(context) == 0 {
            return false;
        }
        let has = |slot: &&Slot| slot.context == context && slot.has_process();
        self.slots.iter().filter(has).count() < usize::from(one.options.workers_max)
    }

    /// Returns true if there is work for a further worker that may start, now or after a pause.
    pub(crate) fn has_startable(&self) -> bool {
        let plain = self.staff(PLAIN);
        let least = if matches!(self.phase, Phase::Open) { self.config.workers_min } else { 0 };
        let is_kept = u32::from(self.config.workers) - self.absent_slots < least.into();
        is_kept
            || self.plain_waiting() + plain.work > plain.live.into()
            || self.has_startable_context()
    }

    /// Returns true if there is work for a further worker with a context that may start, now or after a pause.
    pub(crate) fn has_startable_context(&self) -> bool {
        let staffs = self.staffs();
        let is_startable = |(id, staff): (&ContextId, &ContextWorkers)| {
            let Some(one) = self.contexts.table.get(id) else { return false };
            let has_room = staff.all < one.options.workers_max.into();
            let has_more = u64::from(one.queue.len()) + staff.work > staff.live.into();
            let may_start = has_room && one.failure.is_none() && has_more;
            may_start && self.could_ever_grant(&one.options.demand)
        };
        // A context without workers can start one as soon as the resources of a worker are free.
        let mut needs = self.contexts.lines.needs(|context| !staffs.contains_key(&context));
        staffs.iter().any(is_startable) || needs.any(|demand| self.could_ever_grant(demand))
    }

    /// Returns true if a task waits that could use a spare worker.
    pub(crate) fn has_use_for_spares(&self) -> bool {
        let mut needs = self.contexts.lines.needs(|_| true);
        self.ready_count() + self.demands.len() > 0
            || needs.any(|demand| self.could_ever_grant(demand))
    }

    /// Decides which kinds of resources demanding tasks must leave to contexts. The kinds that a context waits for are held up
    /// unless a task in `tasks.lacking` needs one of them. CPU slots are held up if a context that waits has no worker at all.
    /// Without this, a stream of demanding tasks would starve contexts.
    fn hold_up_tasks(&mut self, pools: &[Pool], tasks: &TaskPool) {
        let mut held_up = Kinds::default();
        for pool in pools.iter().filter(|pool| pool.due > pool.live && pool.context != PLAIN) {
            if !self.could_ever_grant(&pool.needs) {
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
            // The order of allocation depends on this set. If one kind were released while another is added, two kinds
            // could be held up alternately without end.
            held_up.add(before);
        }
        self.demands.held_up = held_up;
        if before.has_more_than(held_up) && self.demands.len() > 0 {
            self.has_fresh = true;
            // The tasks that are no longer held up may now use workers, and no worker was requested for them yet.
            self.contexts.mark_changed();
        }
    }
}
