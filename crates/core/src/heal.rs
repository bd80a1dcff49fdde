//! How many workers there are: starts, failures to start, pauses between them, spares.

use std::sync::Arc;

use gristmill_wire::{Epoch, SlotId};

use crate::machine::{Phase, slot_id};
use crate::port::Port;
use crate::slots::SlotState;
use crate::{Core, NONE, StartFailure};

impl Core {
    /// Tells that a slot's worker is up.
    pub fn slot_ready(&mut self, slot: SlotId, epoch: Epoch, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(place) = self.live_slot(slot) else { return };
        if self.slots[place].state != SlotState::Starting {
            return;
        }
        self.start_failures = 0;
        self.set_state(place, SlotState::Ready);
        self.slots[place].epoch = epoch;
        self.slots[place].idle_since = now;
        self.slots[place].ready_ticks = port.ticks();
        self.pump(port);
        self.use_idle(place, port);
        self.wind_down(port);
    }

    /// Tells that a slot's worker did not come up. After a permanent failure, or several rounds of
    /// them, while no worker lives, the engine is broken: all its tasks are refused.
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
        self.set_state(place, SlotState::Absent);
        self.counts.start_failures += 1;
        self.start_failures += u32::from(self.judge_worker(false));
        let is_up = |state| !matches!(state, SlotState::Absent | SlotState::Starting);
        let has_live = self.slots.iter().any(|slot| is_up(slot.state));
        let is_hopeless =
            failure.permanent || self.start_failures >= self.config.start_failures_max;
        if is_hopeless && !has_live {
            self.break_down(Phase::Broken(Arc::new(failure)), port);
        }
        if self.demands.len() > 0 {
            // One may have waited for the place of this worker.
            self.pump_demanding(port);
        }
        self.grow(port);
        self.wind_down(port);
    }

    /// Why no worker can be started, once that is certain.
    #[must_use]
    pub fn failure(&self) -> Option<&StartFailure> {
        if let Phase::Broken(failure) = &self.phase { Some(failure) } else { None }
    }

    /// Lengthens the pause before the next start if a worker ended without having run anything;
    /// says whether it did. Workers that end in the same pause count once: they were started
    /// together, and ended by one cause.
    pub(crate) fn judge_worker(&mut self, was_useful: bool) -> bool {
        if was_useful {
            self.fruitless = 0;
            return false;
        }
        if self.fruitless > 0 && self.now < self.backoff_until {
            return false;
        }
        let shift = self.fruitless.min(20);
        self.fruitless += 1;
        let pause = (self.config.backoff_min_ns << shift).min(self.config.backoff_max_ns);
        self.backoff_until = self.now.saturating_add(pause);
        true
    }

    /// How many ordinary workers and how many of the first spares there should be.
    fn wanted(&self) -> (u32, u32) {
        let least = match self.phase {
            Phase::Open => u64::from(self.config.workers_min),
            Phase::Closing { .. } => 0,
            Phase::Broken(_) | Phase::Poisoned(_) => return (0, 0),
        };
        let places = self.demands.wanted_places + self.demands.lent_places;
        let demand = self.ready_count() + self.in_flight + places;
        let workers = demand.max(least).min(u64::from(self.config.workers));
        let spares = self.waiting_slots.min(u32::from(self.config.spare_max));
        let spares = if self.waiting_count() > 0 { spares } else { 0 };
        (u32::try_from(workers).expect("at most 65,535"), spares)
    }

    fn absent_spare(&self, wanted: u32) -> Option<usize> {
        let workers = usize::from(self.config.workers);
        (workers..workers + wanted as usize)
            .find(|&place| self.slots[place].state == SlotState::Absent)
    }

    /// Whether workers are missing, be it that a pause must pass first.
    pub(crate) fn wants_workers(&self) -> bool {
        let (workers, spares) = self.wanted();
        let live = u32::from(self.config.workers) - self.absent_slots;
        workers > live || self.absent_spare(spares).is_some()
    }

    /// Asks for missing workers, unless the last ones were fruitless.
    pub(crate) fn grow(&mut self, port: &mut impl Port) {
        if self.fruitless > 0 && self.now < self.backoff_until {
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
                self.spawn(place, port);
            }
        }
        while let Some(place) = self.absent_spare(spares) {
            self.spawn(place, port);
        }
    }

    fn spawn(&mut self, place: usize, port: &mut impl Port) {
        self.set_state(place, SlotState::Starting);
        port.spawn(slot_id(place));
    }

    pub(crate) fn retire(&mut self, place: usize, port: &mut impl Port) {
        debug_assert!(self.slots[place].is_idle(), "only an idle worker is asked to leave");
        self.set_state(place, SlotState::Retiring);
        port.retire(slot_id(place));
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

    /// Lets spare workers go that had nothing to do for a while.
    pub(crate) fn retire_spares(&mut self, port: &mut impl Port) {
        let until = self.now.saturating_sub(self.config.spare_linger_ns);
        let old: Vec<usize> =
            self.idle_spares().filter(|&place| self.slots[place].idle_since <= until).collect();
        for place in old {
            self.retire(place, port);
        }
    }
}
