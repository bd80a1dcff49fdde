//! Work stealing: an idle worker gets tasks from one that has more than it can run soon.

use gristmill_wire::ContextId;

use crate::contexts::{ContextTable, PLAIN};
use crate::machine::slot_id;
use crate::port::{Port, RingProgress};
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

impl Core {
    /// Finds work for a slot that has just become idle, and places waiting tasks: they can use the core that is free
    /// now, even if the worker was asked to leave with the last task of its context.
    pub(crate) fn use_idle(&mut self, place: usize, port: &mut impl Port) {
        if self.slots[place].is_idle() {
            self.employ(place, port);
        }
        if self.ready_count() + self.contexts.waiting() > 0 {
            self.pump(port);
        }
    }

    /// Asks an idle worker to leave if it must; else gives it tasks that wait behind the running task of another
    /// worker.
    fn employ(&mut self, place: usize, port: &mut impl Port) {
        let slot = &self.slots[place];
        let (limit, context) = (self.config.tasks_per_worker_max, slot.context);
        let is_used_up = limit > 0 && slot.sent >= limit;
        if is_used_up || (slot.is_leaving && slot.holder == NONE) {
            self.retire(place, port);
        } else if self.deep_slots > 0 && !self.is_ready_for(context) && self.serves(place, context)
        {
            self.steal_from_busiest(context, 2 * self.wake_cost_ns(), port);
        }
    }

    /// Returns true if a worker could become idle, or ready, while tasks wait behind the running task of another
    /// worker. The report of that comes through a ring, so the caller must poll.
    pub(crate) fn could_steal(&self) -> bool {
        let has_others = self.config.workers > 1 || self.waiting_slots > 0 || self.live_end > 1;
        self.deep_slots > 0 && has_others
    }

    /// Returns true if a worker idles while tasks wait behind the running task of another worker.
    pub(crate) fn may_steal(&self) -> bool {
        self.deep_slots > 0 && (self.has_idle_beside_busy() || self.has_strayed())
    }

    fn has_idle_beside_busy(&self) -> bool {
        if self.contexts.is_empty() {
            return self.live_slots().iter().any(Slot::has_more) && self.has_idle_worker(PLAIN);
        }
        let mut busy = self.live_slots().iter().filter(|slot| slot.has_more());
        busy.any(|slot| self.has_idle_worker(slot.context) || self.has_inbound_for_others(slot))
    }

    /// Returns true if children without a context wait behind the running task of a worker with one, while another
    /// worker idles or an ordinary slot is empty. The children do not need that context.
    fn has_inbound_for_others(&self, slot: &Slot) -> bool {
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let could_have_them = |other: &Slot| {
            let is_there = other.is_idle() && !other.is_leaving;
            other.holder == NONE && (is_there || other.state == SlotState::Absent)
        };
        slot.context != PLAIN
            && ordinary.iter().any(could_have_them)
            && self.few_behind(slot, PLAIN) > 0
    }

    /// Returns true if tasks are ready that an idle worker with a context can begin.
    fn is_ready_for(&self, context: ContextId) -> bool {
        let is_ready =
            if context == PLAIN { self.ready_count() > 0 } else { self.contexts.waits(context) };
        is_ready && (!self.priorities.is_used() || self.is_above_floor(context))
    }

    /// Takes half of the tasks that wait at the busiest worker with a context, if they are worth a wake-up.
    fn steal_from_busiest(&mut self, context: ContextId, least_ns: u64, port: &mut impl Port) {
        let busiest = (0..self.live_end)
            .filter(|&place| self.slots[place].context == context)
            .filter(|&place| self.is_worth_stealing_from(place, least_ns))
            .max_by_key(|&place| self.slots[place].backlog_ns);
        if let Some(victim) = busiest {
            self.steal(victim, false, port);
        }
    }

    /// Returns true if half of the worker's backlog is still worth a wake-up.
    fn is_worth_stealing_from(&self, place: usize, least_ns: u64) -> bool {
        let slot = &self.slots[place];
        slot.has_more() && slot.backlog_ns > least_ns
    }

    /// Fills all workers up with ready tasks, and gives idle ones half of the tasks that wait elsewhere. The caller is
    /// about to wait, and leaves its core to the workers.
    pub fn spread(&mut self, now: u64, port: &mut impl Port) {
        self.now = now;
        self.is_caller_waiting = true;
        if self.has_ready() {
            self.recall_older(PLAIN, port);
            self.pump(port);
        }
        self.steal_for_idle(PLAIN, port);
        if self.deep_slots > 0 && !self.contexts.is_empty() {
            let contexts = ContextTable::of_slots(self.live_slots());
            contexts.into_iter().for_each(|one| self.steal_for_idle(one, port));
        }
        self.is_caller_waiting = false;
    }

    /// Works as [`Self::spread`] if tasks are ready. For a caller that waits for results that come together: what a single
    /// worker has in its ring is not worth another worker, and more is.
    pub fn spread_ready(&mut self, now: u64, port: &mut impl Port) {
        if self.has_ready() {
            self.spread(now, port);
        }
    }

    /// Takes back tasks that wait behind long ones, if an idle worker would otherwise begin later ones. So tasks that
    /// are about to wait for each other begin in the order in which they were submitted. Tasks that wait for little
    /// more than a window begin soon enough where they are.
    pub(crate) fn recall_older(&mut self, context: ContextId, port: &mut impl Port) {
        if self.deep_slots == 0 {
            return;
        }
        for victim in 0..self.live_end {
            if !self.is_ready_for(context) || !self.has_idle_worker(context) {
                return;
            }
            let slot = &self.slots[victim];
            let waits_long = slot.has_more() && slot.backlog_ns > 2 * self.config.window_ns;
            if slot.context != context || slot.waiting > 0 || !waits_long {
                continue;
            }
            let in_flight = slot.in_flight.len as usize;
            let mut older = self.unclaimed(victim, port);
            if older.len() == in_flight {
                older.remove(0); // The first task is about to begin.
            }
            if !older.is_empty() {
                self.take(victim, &older, port);
            }
        }
    }

    fn steal_for_idle(&mut self, context: ContextId, port: &mut impl Port) {
        if self.deep_slots > 0 && !self.waits(context) && self.has_idle_worker(context) {
            self.steal_from_busiest(context, 2 * self.config.wake_cost_ns, port);
        }
    }

    /// Takes the tasks that wait behind a long task, and half of those that wait elsewhere, while there are idle
    /// workers.
    pub(crate) fn steal_from_long(&mut self, port: &mut impl Port) {
        for victim in 0..self.live_end {
            if self.deep_slots == 0 {
                return;
            }
            let slot = &self.slots[victim];
            if !slot.has_more() {
                continue;
            }
            let is_wanted = !self.is_ready_for(slot.context) && self.has_idle_worker(slot.context);
            let is_long = || self.runs_long(&port.progress(slot_id(victim)));
            if is_wanted {
                let (is_long, waits) = (is_long(), slot.waiting > 0);
                if is_long || self.is_worth_stealing_from(victim, 2 * self.wake_cost_ns()) {
                    self.steal(victim, is_long && !waits, port);
                }
            } else if self.has_inbound_for_others(slot) && !self.is_ready_for(PLAIN) && is_long() {
                self.steal_inbound(victim, port);
            }
        }
    }

    pub(crate) fn runs_long(&self, progress: &RingProgress) -> bool {
        progress.ended < progress.started
            && self.now.saturating_sub(progress.started_at_ns) >= self.config.steal_after_ns
    }

    fn steal(&mut self, victim: usize, all: bool, port: &mut impl Port) {
        let unclaimed = self.unclaimed(victim, port);
        let share = if all { &unclaimed[..] } else { &unclaimed[unclaimed.len() / 2..] };
        // The later calls of a running batch wait behind a long task too.
        let running = if all { self.running_batch(victim, port) } else { None };
        let most = share.len().min(self.config.steal_max as usize);
        let last = &share[share.len() - most..];
        let wanted: Vec<u32> = running.into_iter().chain(last.iter().copied()).collect();
        self.take(victim, &wanted, port);
    }

    /// Takes back half of the children without a context that wait at a worker with one.
    fn steal_inbound(&mut self, victim: usize, port: &mut impl Port) {
        let mut unclaimed = self.unclaimed(victim, port);
        unclaimed.retain(|&index| self.context_of(index) == PLAIN);
        let half = unclaimed.split_off(unclaimed.len() / 2);
        self.take(victim, &half, port);
    }

    fn take(&mut self, victim: usize, wanted: &[u32], port: &mut impl Port) {
        self.slots[victim].stuck = true;
        let taken = self.recall(victim, wanted, port);
        self.counts.stolen += taken.len() as u64;
        self.return_all(&taken, port);
        self.pump(port);
    }
}
