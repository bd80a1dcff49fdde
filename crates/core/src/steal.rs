//! What happens when a worker has nothing to do while another has more than it can do soon.

use gristmill_wire::ContextId;

use crate::contexts::PLAIN;
use crate::machine::slot_id;
use crate::port::{Port, Progress};
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE};

impl Core {
    /// Finds something for a slot that has just become idle, and for others what it leaves them: its core, even if it was
    /// asked to leave with the last task of its context.
    pub(crate) fn use_idle(&mut self, place: usize, port: &mut impl Port) {
        if self.slots[place].is_idle() {
            self.employ(place, port);
        }
        if self.ready_count() + self.contexts.waiting() > 0 {
            self.pump(port);
        }
    }

    /// Has an idle worker leave that is to, or take what waits behind what another one runs.
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

    /// Whether a worker could become idle, or ready, while something waits behind what another one runs: the word of it
    /// comes through a ring, so somebody has to look.
    pub(crate) fn could_steal(&self) -> bool {
        let has_others = self.config.workers > 1 || self.waiting_slots > 0 || self.live_end > 1;
        self.deep_slots > 0 && has_others
    }

    /// Whether a worker idles while something waits behind what another one runs.
    pub(crate) fn may_steal(&self) -> bool {
        self.deep_slots > 0 && (self.has_idle_beside_busy() || self.has_strayed())
    }

    fn has_idle_beside_busy(&self) -> bool {
        if self.contexts.is_empty() {
            return self.live_slots().iter().any(Slot::has_more) && self.has_idle_worker(PLAIN);
        }
        let mut busy = self.live_slots().iter().filter(|slot| slot.has_more());
        busy.any(|slot| self.has_idle_worker(slot.context) || self.has_guests_for_others(slot))
    }

    /// Whether children without a context wait behind what a worker with one runs, while another worker idles, or a place:
    /// neither needs that context for them.
    fn has_guests_for_others(&self, slot: &Slot) -> bool {
        let ordinary = &self.slots[..usize::from(self.config.workers)];
        let could_have_them = |other: &Slot| {
            let is_there = other.is_idle() && !other.is_leaving;
            other.holder == NONE && (is_there || other.state == SlotState::Absent)
        };
        slot.context != PLAIN
            && ordinary.iter().any(could_have_them)
            && self.few_behind(slot, PLAIN) > 0
    }

    /// Whether tasks are ready that an idle worker with a context can begin.
    fn is_ready_for(&self, context: ContextId) -> bool {
        if context == PLAIN { self.ready_count() > 0 } else { self.contexts.waits(context) }
    }

    /// Takes half of what waits at the busiest worker with a context, if that is worth a wake-up.
    fn steal_from_busiest(&mut self, context: ContextId, least_ns: u64, port: &mut impl Port) {
        let busiest = (0..self.live_end)
            .filter(|&place| self.slots[place].context == context)
            .filter(|&place| self.is_worth_stealing_from(place, least_ns))
            .max_by_key(|&place| self.slots[place].backlog_ns);
        if let Some(victim) = busiest {
            self.steal(victim, false, port);
        }
    }

    /// Half of it must still be worth waking a worker up.
    fn is_worth_stealing_from(&self, place: usize, least_ns: u64) -> bool {
        let slot = &self.slots[place];
        slot.has_more() && slot.backlog_ns > least_ns
    }

    /// Fills all workers up with what is ready, and gives idle ones half of what waits elsewhere: the caller is about to wait,
    /// and leaves its core to them.
    pub fn spread(&mut self, now: u64, port: &mut impl Port) {
        self.now = now;
        self.is_caller_waiting = true;
        if self.has_ready() {
            self.pump(port);
        }
        self.steal_for_idle(PLAIN, port);
        if self.deep_slots > 0 && !self.contexts.is_empty() {
            self.contexts.known().into_iter().for_each(|one| self.steal_for_idle(one, port));
        }
        self.is_caller_waiting = false;
    }

    fn steal_for_idle(&mut self, context: ContextId, port: &mut impl Port) {
        if self.deep_slots > 0 && !self.waits(context) && self.has_idle_worker(context) {
            self.steal_from_busiest(context, 2 * self.config.wake_cost_ns, port);
        }
    }

    /// Takes what waits behind a long task, and half of what waits elsewhere, as long as there are
    /// idle workers.
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
            } else if self.has_guests_for_others(slot) && !self.is_ready_for(PLAIN) && is_long() {
                self.steal_guests(victim, port);
            }
        }
    }

    pub(crate) fn runs_long(&self, progress: &Progress) -> bool {
        progress.ended < progress.started
            && self.now.saturating_sub(progress.started_at_ns) >= self.config.steal_after_ns
    }

    fn steal(&mut self, victim: usize, all: bool, port: &mut impl Port) {
        let unclaimed = self.unclaimed(victim, port);
        let share = if all { &unclaimed[..] } else { &unclaimed[unclaimed.len() / 2..] };
        // What waits behind the running call of a batch waits behind a long task too.
        let running = if all { self.running_batch(victim, port) } else { None };
        let most = share.len().min(self.config.steal_max as usize);
        let last = &share[share.len() - most..];
        let wanted: Vec<u32> = running.into_iter().chain(last.iter().copied()).collect();
        self.take(victim, &wanted, port);
    }

    /// Takes half of the children without a context back that wait at a worker with one.
    fn steal_guests(&mut self, victim: usize, port: &mut impl Port) {
        let mut guests = self.unclaimed(victim, port);
        guests.retain(|&index| self.context_of(index) == PLAIN);
        let half = guests.split_off(guests.len() / 2);
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
