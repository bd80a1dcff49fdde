//! Rules for children that run in the wait of their parent, on its worker. Only trusted functions may.
//!
//! This is the fastest way for a child to run, and a dangerous one: if the child dies, or is killed because of its
//! timeout, the parent dies too. So a function must have ended [`RUNS_TO_EARN`] times in this engine without a death or
//! a timeout, and the call must not ask for a time limit or for another attempt. Any other child runs on another worker
//! or on a spare. If half of the spares wait themselves, such a child runs in the wait of its parent: the other half is
//! for children whose parents' stacks have no room left. If single children could use all spares, a chain of tasks
//! could be no longer than the number of spares plus the tasks that fit on one stack.
//!
//! In an engine whose workers have contexts, the next free slot goes to the context with the fewest workers, which is
//! not known in advance. There a child waits only while a worker with its context is being started, or until slots are
//! assigned again. After that the child runs in the wait of its parent: its context has as many workers as it may have,
//! or the resources of another worker are not free, or other contexts come first.

use gristmill_wire::ContextId;

use crate::estimate::Estimate;
use crate::floor::NO_FLOOR;
use crate::options::Budgets;
use crate::port::Port;
use crate::slots::SlotState;
use crate::{Core, NONE};

/// Calls that a function must end in a row, by returning or raising.
pub(crate) const RUNS_TO_EARN: u16 = 100;

impl Estimate {
    /// Returns true if the function may run in the wait of a parent.
    pub const fn has_earned(&self) -> bool {
        self.clean_runs() >= RUNS_TO_EARN
    }
}

impl Core {
    /// Returns true if a child may run on the worker where its parent waits.
    pub(crate) fn may_run_inline(&self, index: u32) -> bool {
        self.has_earned(index) || self.must_run_inline(index)
    }

    /// Returns true if a task waits in the slot and the child may run there, in the wait of its parent.
    pub(crate) fn must_wait_there(&self, slot: usize, index: u32) -> bool {
        self.slots[slot].waiting > 0 && self.may_run_inline(index)
    }

    /// Returns true if the child's function is trusted, and the call asks for nothing that could cost its parent: it
    /// has no timeout and no extra attempts, and it has killed no worker.
    pub(crate) fn has_earned(&self, index: u32) -> bool {
        let task = &self.tasks[index];
        let extra = &self.extras[task.extra];
        extra.timeout_ns == u64::MAX
            && extra.budgets == Budgets::default()
            && extra.kills == 0
            && self.functions[task.function.0 as usize].has_earned()
    }

    /// Returns true if no other worker will come for a child: the spares for such children wait for their own tasks or
    /// are reserved, or none can be started now.
    fn must_run_inline(&self, index: u32) -> bool {
        let is_coming = if self.contexts.is_empty() {
            !self.is_start_paused()
        } else {
            self.contexts.has_changed() || self.is_being_started(self.context_of(index))
        };
        if !is_coming {
            return true;
        }
        // The other half is for children whose parents' stacks have no room left.
        let spares = self.config.spare_max.div_ceil(2);
        let is_taken = |place: usize| {
            let slot = &self.slots[place];
            // A worker that is used up or leaves makes room for another one.
            let is_kept = slot.floor != NO_FLOOR || slot.holder != NONE || slot.full;
            slot.is_halted() || (slot.is_idle() && is_kept)
        };
        self.waiting_slots >= u32::from(spares) && self.spare_places(spares.into()).all(is_taken)
    }

    /// Returns true if the start of workers without a context is paused, since the last ones ended without running a
    /// task.
    #[must_use]
    pub const fn is_start_paused(&self) -> bool {
        self.starts.must_pause(self.now)
    }

    /// Returns true if a worker is being started that tasks in this context can use.
    fn is_being_started(&self, context: ContextId) -> bool {
        let starts = |place: usize| {
            let slot = &self.slots[place];
            slot.state == SlotState::Starting && slot.holder == NONE && !slot.is_leaving
        };
        (0..self.live_end).any(|place| starts(place) && self.serves(place, context))
    }

    /// Chooses a worker other than the parent's for a child: one that has room, or one that sleeps, since the core of
    /// the waiting parent is free.
    pub(crate) fn choose_other(&self, slot: usize, index: u32, port: &impl Port) -> Option<usize> {
        let context = self.context_of(index);
        let is_free = |place: usize| {
            let slot = &self.slots[place];
            slot.is_idle() && slot.is_open(&self.config) && self.serves(place, context)
        };
        self.choose_for(index, context, port).or_else(|| {
            let is_waited_for = self.slots[slot].is_halted();
            (0..self.live_end).find(|&place| is_waited_for && is_free(place))
        })
    }

    /// Resets the trust in a task's function, since a call has cost a worker, or time.
    pub(crate) fn lose_right(&mut self, index: u32) {
        let function = self.tasks[index].function.0 as usize;
        self.functions[function].soil();
    }
}
