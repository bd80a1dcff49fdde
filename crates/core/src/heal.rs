//! Number of workers: starts, failures to start, pauses between them, spares.

use std::sync::Arc;

use gristmill_wire::{ContextId, Epoch, SlotId};

use crate::contexts::PLAIN;
use crate::machine::{Phase, slot_id};
use crate::port::{KillReason, Port, WorkerGrant};
use crate::slots::{Slot, SlotState};
use crate::starts::StartBackoff;
use crate::{Core, NONE, StartFailure};

impl Core {
    /// Handles the report that a slot's worker is up.
    pub fn slot_ready(&mut self, slot: SlotId, epoch: Epoch, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.live_slot(slot) else { return };
        if self.slots[place].state != SlotState::Starting {
            return;
        }
        match self.slots[place].context {
            PLAIN => self.starts.succeed(),
            context => {
                self.context_came_up(context);
                self.contexts.mark_changed();
            }
        }
        self.set_state(place, SlotState::Ready);
        self.priorities.has_newcomer = true;
        self.slots[place].ready_at = now;
        self.slots[place].epoch = epoch;
        self.slots[place].idle_since = now;
        self.slots[place].ready_ticks = port.ticks();
        self.recall_older(self.slots[place].context, port);
        self.pump(port);
        self.use_idle(place, port);
        self.wind_down(port);
    }

    /// Handles the report that a slot's worker did not come up. If no worker lives, a permanent failure or several
    /// rounds of failures break the engine: all its tasks are refused.
    pub fn slot_failed(
        &mut self,
        slot: SlotId,
        failure: StartFailure,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(place) = self.live_slot(slot) else { return };
        if self.slots[place].state != SlotState::Starting {
            return;
        }
        let context = self.slots[place].context;
        self.set_state(place, SlotState::Absent);
        self.slots[place].context = PLAIN;
        self.slots[place].is_leaving = false;
        self.counts.start_failures += 1;
        let mut has_let_go = false;
        if context == PLAIN {
            has_let_go = self.plain_failed(failure, port);
        } else {
            self.context_failed(context, failure);
            self.pump_contexts(port);
        }
        if self.demands.len() > 0 && !has_let_go {
            // A task may have waited for the slot of this worker, and other tasks for the resources that it then
            // releases.
            self.pump(port);
        }
        self.grow(port);
        if has_let_go {
            // Contexts have their share of the released resources by now.
            self.pump(port);
        }
        self.wind_down(port);
    }

    /// Handles a failed start without a context. Returns whether a task has released the resources that it had
    /// gathered.
    fn plain_failed(&mut self, failure: StartFailure, port: &mut impl Port) -> bool {
        // A worker with a context cannot run other tasks, but its own tasks are not given up.
        let is_needed = |slot: &Slot| {
            slot.is_up() && (slot.context == PLAIN || slot.in_flight.len > slot.waiting)
        };
        let goes_on = self.slots.iter().any(is_needed) || self.has_startable_context();
        self.starts.fail(self.now, &self.config, !goes_on);
        let is_unlikely = failure.permanent || self.starts.are_unlikely(&self.config);
        if !goes_on && (failure.permanent || self.starts.are_hopeless(&self.config)) {
            self.break_down(Phase::Broken(Arc::new(failure)), port);
        }
        // Contexts may wait for resources that a task holds although no worker can run that task.
        is_unlikely && goes_on && self.cease_to_gather()
    }

    /// Returns the reason why no worker can be started, once that is certain.
    #[must_use]
    pub fn failure(&self) -> Option<&StartFailure> {
        if let Phase::Broken(failure) = &self.phase { Some(failure) } else { None }
    }

    /// Records the end of a worker with a context: the next start waits longer if the worker had not run a task.
    pub(crate) fn judge_worker(&mut self, context: ContextId, was_useful: bool) {
        let (now, config) = (self.now, &self.config);
        let note = |starts: &mut StartBackoff| match was_useful {
            true => starts.record_success(),
            false => starts.note_fruitless(now, config),
        };
        if context == PLAIN {
            note(&mut self.starts);
        } else {
            self.contexts.note_start(context, note);
        }
    }

    /// Records that a task has run on the worker in its slot.
    #[inline]
    pub(crate) fn record_success(&mut self, index: u32, ticks: u64) {
        match self.slots[usize::from(self.tasks[index].slot)].context {
            PLAIN => _ = self.starts.record_success(),
            context => {
                let extra = self.tasks[index].extra;
                let is_nested = extra != NONE && self.extras[extra].is_nested;
                self.context_ran(context, (self.calls(index).into(), ticks), is_nested);
            }
        }
    }

    /// Returns how many ordinary workers and how many of the first spares the engine wants.
    pub(crate) fn wanted(&self) -> (u32, u32) {
        let least = match self.phase {
            Phase::Open => u64::from(self.config.workers_min),
            Phase::Closing { .. } => 0,
            Phase::Broken(_) | Phase::Poisoned(_) => return (0, 0),
        };
        let places = self.demands.wanted_places + self.demands.lent_places;
        let demand = self.ready_count() + self.contexts.waiting() + self.in_flight + places;
        let workers = demand.max(least).min(u64::from(self.config.workers));
        (u32::try_from(workers).expect("at most 65,535"), self.wanted_spares())
    }

    /// Returns how many of the first spares the engine wants, unless it is broken.
    pub(crate) fn wanted_spares(&self) -> u32 {
        let spares = self.waiting_slots.min(u32::from(self.config.spare_max));
        if self.waiting_count() > 0 { spares } else { 0 }
    }

    fn absent_spare(&self, wanted: u32) -> Option<usize> {
        self.spare_places(wanted).find(|&place| self.slots[place].state == SlotState::Absent)
    }

    /// Returns true if workers are missing, even if a pause must pass first.
    #[inline]
    pub(crate) fn wants_workers(&self) -> bool {
        // Otherwise all workers are there; spares are wanted only if a task waits on a worker.
        (self.absent_slots > 0 || self.waiting_slots > 0) && self.misses_workers()
    }

    fn misses_workers(&self) -> bool {
        let (workers, spares) = self.wanted();
        let live = u32::from(self.config.workers) - self.absent_slots;
        let may_start = || self.contexts.is_empty() || self.has_startable();
        (workers > live && may_start())
            || (self.absent_spare(spares).is_some() && self.has_use_for_spares())
    }

    /// Returns the earliest time at which a missing worker may be asked for: the end of the pause, if there is one. If
    /// there are contexts, `next_deployment` decides who gets a slot.
    pub(crate) fn next_start(&self, now: u64) -> u64 {
        let pauses = [self.contexts.next_start(now), self.starts.pause_after(now)];
        let unpaused = if self.contexts.is_empty() { now } else { u64::MAX };
        pauses.into_iter().flatten().min().unwrap_or(unpaused)
    }

    /// Returns the slots of the first `count` spares.
    pub(crate) fn spare_places(&self, count: u32) -> std::ops::Range<usize> {
        let workers = usize::from(self.config.workers);
        workers..workers + count as usize
    }

    /// Asks for missing workers, unless starts are paused.
    pub(crate) fn grow(&mut self, port: &mut impl Port) {
        if !self.contexts.is_empty() {
            self.deploy(port);
            if self.nested_ready > 0 {
                // Children run in the wait of their parents if no worker is being started for them.
                self.pump_nested(port);
            }
            return;
        }
        if self.starts.must_pause(self.now) {
            return;
        }
        let (workers, spares) = self.wanted();
        let mut missing =
            workers.saturating_sub(u32::from(self.config.workers) - self.absent_slots);
        for place in 0..usize::from(self.config.workers) {
            if missing == 0 {
                break;
            }
            if self.slots[place].state == SlotState::Absent {
                missing -= 1;
                self.spawn(place, PLAIN, port);
            }
        }
        while let Some(place) = self.absent_spare(spares) {
            self.spawn(place, PLAIN, port);
        }
    }

    /// Asks for a worker. The resources that its context asks for must be free.
    pub(crate) fn spawn(&mut self, place: usize, context: ContextId, port: &mut impl Port) {
        self.set_state(place, SlotState::Starting);
        self.slots[place].context = context;
        self.grant_to_worker(place);
        self.contexts.note_served(context, self.now);
        self.floor_newcomer(context, port);
        let grant = self.grant_of_worker(place);
        let is_named = grant.named_places() > 0;
        let places = if is_named { self.places_of_worker(place) } else { Vec::new() };
        port.spawn(slot_id(place), context, WorkerGrant { grant, places });
    }

    pub(crate) fn retire(&mut self, place: usize, port: &mut impl Port) {
        debug_assert!(self.slots[place].is_idle(), "only an idle worker is asked to leave");
        self.set_state(place, SlotState::Retiring);
        self.slots[place].leave_by = self.now.saturating_add(self.config.leave_grace_ns);
        port.retire(slot_id(place));
    }

    /// Kills workers that were asked to leave and have not left: their slots cannot be reused, and the engine could not
    /// end.
    pub(crate) fn end_leavers(&mut self, port: &mut impl Port) {
        for place in self.leavers().collect::<Vec<_>>() {
            let slot = &mut self.slots[place];
            if slot.leave_by <= self.now {
                slot.leave_by = u64::MAX;
                self.counts.kills += 1;
                port.kill(slot_id(place), KillReason::Stayed);
            }
        }
    }

    fn leavers(&self) -> impl Iterator<Item = usize> + '_ {
        let end = if self.retiring_slots == 0 { 0 } else { self.live_end };
        (0..end).filter(|&place| self.slots[place].state == SlotState::Retiring)
    }

    /// Returns the time at which the next leaving worker is killed.
    pub(crate) fn next_leaving(&self) -> Option<u64> {
        self.leavers().map(|place| self.slots[place].leave_by).min()
    }

    fn idle_spares(&self) -> impl Iterator<Item = usize> + '_ {
        let spares = usize::from(self.config.workers)..self.live_end;
        spares.filter(|&place| self.slots[place].is_idle() && self.slots[place].holder == NONE)
    }

    pub(crate) fn oldest_idle_spare(&self) -> Option<u64> {
        if self.config.spare_max == 0 {
            return None;
        }
        self.idle_spares().map(|place| self.slots[place].idle_since).min()
    }

    /// Asks spare workers to leave that had nothing to do for `spare_linger_ns`.
    pub(crate) fn retire_spares(&mut self, port: &mut impl Port) {
        let until = self.now.saturating_sub(self.config.spare_linger_ns);
        let old: Vec<usize> =
            self.idle_spares().filter(|&place| self.slots[place].idle_since <= until).collect();
        for place in old {
            self.retire(place, port);
        }
    }
}
