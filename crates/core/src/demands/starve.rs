//! Demands that cannot be met: at all, or because those who wait for it have it.

use gristmill_wire::{Demand, WHOLE_GPU};

use crate::outcome::Content;
use crate::port::Port;
use crate::slots::{Slot, SlotState};
use crate::{Core, NONE, Status, SubmitError};

impl Core {
    /// Whether a task, or the worker of a context, could have what it needs here if nothing else had anything. What peers
    /// have is not known for good.
    ///
    /// # Errors
    /// [`SubmitError::TooMuch`].
    pub fn check_demand(&self, demand: &Demand) -> Result<(), SubmitError> {
        if self.config.workers == 0 || demand.is_none() {
            return Ok(());
        }
        let supply = &self.config.supply;
        let gpus = u64::from(supply.gpus.count_ones() * WHOLE_GPU);
        let check = |what, asked: u64, all: u64| {
            if asked <= all { Ok(()) } else { Err(SubmitError::TooMuch { what, asked, all }) }
        };
        check("workers' places", demand.places().into(), self.config.workers.into())?;
        check("bytes of memory", demand.memory, supply.memory)?;
        check("thousandths of a GPU", u64::from(demand.devices() * demand.share()), gpus)
    }

    /// Refuses tasks whose parents wait for them and have what they need, when nothing else runs that could have it: an
    /// error where there would be a hang. Says whether there was one.
    pub(crate) fn refuse_starved(&mut self, port: &mut impl Port) -> bool {
        if !self.may_starve() {
            return false;
        }
        let mut starved: Vec<u32> = self.demands.queue.iter(&self.tasks).collect();
        starved.retain(|&index| self.is_child(index));
        for &index in &starved {
            self.unlist(index);
            self.finish(index, Status::Refused, Content::TooDeep, port);
        }
        !starved.is_empty()
    }

    /// Whether all that runs waits, and some of it perhaps for demanding tasks.
    fn may_starve(&self) -> bool {
        let is_waiting = self.demands.len() > 0 && self.waiting_slots > 0;
        if !is_waiting || self.peers.away > 0 || self.wants_workers() {
            return false;
        }
        let is_still = |slot: &Slot| match slot.state {
            SlotState::Absent | SlotState::Lent => true,
            SlotState::Ready => slot.in_flight.len == slot.waiting,
            SlotState::Starting | SlotState::Retiring | SlotState::Dying => false,
        };
        self.slots.iter().all(is_still)
    }

    /// When [`Core::poll`] should look again whether tasks starve: once those have gone on for which others were refused.
    pub(crate) fn next_starving(&self) -> Option<u64> {
        self.may_starve().then(|| self.polled_at.saturating_add(self.config.recheck_ns))
    }

    /// Whether a task that runs here submitted it.
    pub(crate) fn is_child(&self, index: u32) -> bool {
        let extra = self.tasks[index].extra;
        extra != NONE && self.extras[extra].parent != NONE
    }
}
