//! Requests that cannot be met: the engine has too few resources, or the tasks that wait for the requesting task hold
//! them.

use gristmill_wire::{ResourceRequest, WHOLE_GPU};

use crate::outcome::TaskContent;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE, Resource, Status, SubmitError};

impl Core {
    /// Checks that a task, or the worker of a context, could have what it needs here if nothing else had any resources.
    /// An engine without workers accepts every request, because what peers have may change.
    ///
    /// # Errors
    /// [`SubmitError::TooMuch`] if the engine has less than that.
    pub fn check_demand(&self, demand: &ResourceRequest) -> Result<(), SubmitError> {
        if self.config.workers == 0 || demand.is_none() {
            return Ok(());
        }
        let supply = &self.config.supply;
        let gpus = u64::from(supply.gpus.count_ones() * WHOLE_GPU);
        let check = |what, asked: u64, all: u64| {
            if asked <= all { Ok(()) } else { Err(SubmitError::TooMuch { what, asked, all }) }
        };
        check(Resource::Workers, demand.places().into(), self.config.workers.into())?;
        check(Resource::Memory, demand.memory, supply.memory)?;
        check(Resource::Gpus, u64::from(demand.devices() * demand.share()), gpus)
    }

    /// Refuses tasks whose parents wait for them and have what they need, if nothing else runs that could give it back:
    /// they end with an error instead of waiting forever. Returns true if there was such a task.
    pub(crate) fn refuse_starved(&mut self, port: &mut impl Port) -> bool {
        if !self.may_starve() {
            return false;
        }
        let mut starved: Vec<u32> = self.demands.queue.iter(&self.tasks).collect();
        starved.retain(|&index| self.is_child(index));
        for &index in &starved {
            self.unlist(index);
            self.finish(index, Status::Refused, TaskContent::TooDeep, port);
        }
        !starved.is_empty()
    }

    /// Returns true if all running tasks wait, and some of them perhaps for demanding tasks.
    fn may_starve(&self) -> bool {
        let is_waiting = self.demands.len() > 0 && self.waiting_slots > 0;
        if !is_waiting || self.peers.delegated > 0 || self.wants_workers() {
            return false;
        }
        let is_still = |slot: &Slot| match slot.state {
            SlotState::Absent | SlotState::Lent => true,
            SlotState::Ready => slot.in_flight.len == slot.waiting,
            SlotState::Starting | SlotState::Retiring | SlotState::Dying => false,
        };
        self.slots.iter().all(is_still)
    }

    /// Returns when [`Core::poll`] should check for starving tasks again: after the tasks have gone on whose children
    /// were refused.
    pub(crate) fn next_starving(&self) -> Option<u64> {
        self.may_starve().then(|| self.polled_at.saturating_add(self.config.recheck_ns))
    }

    /// Returns true if a task that runs here submitted this task.
    pub(crate) fn is_child(&self, index: u32) -> bool {
        let extra = self.tasks[index].extra;
        extra != NONE && self.extras[extra].parent != NONE
    }
}
