//! Life of a context: it is defined, loaded by workers, forgotten, and dropped with its last task.

use std::sync::Arc;

use gristmill_wire::ContextId;

use super::pools::ContextWorkers;
use super::{Context, ContextOptions, PLAIN};
use crate::port::Port;
use crate::queue::ReadyQueue;
use crate::slots::{Slot, SlotState};
use crate::starts::StartBackoff;
use crate::stats::ContextStats;
use crate::{Core, NONE, StartFailure};

impl Core {
    /// Defines a context: tasks may name it. A context that is defined already keeps its state, and is no longer
    /// forgotten.
    ///
    /// # Panics
    /// If `context` is 0, the id of no context.
    pub fn define_context(&mut self, context: ContextId, options: ContextOptions) {
        assert!(context != PLAIN, "0 is no context");
        let new = || Context {
            options,
            queue: ReadyQueue::new(),
            current: 0,
            starts: StartBackoff::default(),
            is_proven: false,
            failure: None,
            served_at: 0,
            tasks: 0,
            delegated: 0,
            turn: None,
            place: None,
            idle_until: None,
            is_forgotten: false,
            is_resident: false,
            memory: 0,
            used_at: 0,
            stats: ContextStats::default(),
        };
        let one = self.contexts.table.entry(context).or_insert_with(new);
        let was_forgotten = std::mem::take(&mut one.is_forgotten);
        self.contexts.forgotten -= u32::from(was_forgotten);
    }

    /// Forgets a context: no task will name it any more. The tasks that do are completed; then the context's workers
    /// leave, and the engine calls [`Port::context_dropped`].
    pub fn forget_context(&mut self, context: ContextId, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        self.contexts.forgotten += u32::from(!one.is_forgotten);
        one.is_forgotten = true;
        if one.tasks == 0 {
            self.contexts.unneeded.push(context);
            self.drop_unneeded(port);
        }
    }

    /// Drops the contexts that no task needs any more, and makes their workers leave.
    #[inline]
    pub(crate) fn drop_unneeded(&mut self, port: &mut impl Port) {
        while let Some(context) = self.contexts.unneeded.pop() {
            self.drop_context(context, port);
        }
    }

    #[cold]
    fn drop_context(&mut self, context: ContextId, port: &mut impl Port) {
        let Some(dropped) = self.contexts.table.remove(&context) else { return };
        self.contexts.forgotten -= 1;
        if let Some(until) = dropped.idle_until {
            self.contexts.idle.remove(&(until, context));
        }
        debug_assert!(dropped.queue.is_empty(), "a context outlives its tasks");
        self.drop_floor_of(context);
        self.send_all_away(context, port);
        port.context_dropped(context);
    }

    pub(super) fn send_all_away(&mut self, context: ContextId, port: &mut impl Port) {
        for place in 0..self.live_end {
            if self.slots[place].context == context {
                self.send_worker_away(place, port);
            }
        }
    }

    /// Counts a task that was accepted and names a context.
    pub(crate) fn context_gains_task(&mut self, context: ContextId) {
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.tasks += 1;
            self.contexts.keep_idle(context);
        }
    }

    /// Removes a task that has become final from the count of its context.
    pub(crate) fn context_loses_task(&mut self, context: ContextId) {
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        one.tasks -= 1;
        one.used_at = self.now;
        if one.tasks == 0 && one.is_forgotten {
            self.contexts.unneeded.push(context);
        }
        self.contexts.keep_idle(context);
    }

    /// Returns true if a context is in the table, forgotten or not; also for `PLAIN`.
    pub(crate) fn is_defined(&self, context: ContextId) -> bool {
        context == PLAIN || self.contexts.table.contains_key(&context)
    }

    /// Returns true if a peer with enough workers could run `count` tasks of a context at once. That is not so if the
    /// context allows fewer workers, or needs resources that only few workers can have.
    pub(crate) fn could_all_run(&self, context: ContextId, count: u32) -> bool {
        self.contexts.table.get(&context).is_some_and(|one| {
            count <= u32::from(one.options.workers_max)
                && (count <= 1 || one.options.demand.is_none())
        })
    }

    /// Returns the reason why workers cannot have a context, if there is one.
    #[must_use]
    pub fn context_failure(&self, context: ContextId) -> Option<&StartFailure> {
        self.contexts.table.get(&context)?.failure.as_deref()
    }

    /// Returns the statistics of a context.
    #[must_use]
    pub fn context_stats(&self, context: ContextId) -> Option<ContextStats> {
        let one = self.contexts.table.get(&context)?;
        let ContextWorkers { live: workers, running, .. } = self.staff(context);
        Some(ContextStats { workers, running, waiting: one.queue.len().into(), ..one.stats })
    }

    /// Counts calls that a worker with a context has run, and their clock ticks. `is_nested` says that a task here
    /// submitted them.
    pub(crate) fn context_ran(
        &mut self,
        context: ContextId,
        (calls, ticks): (u64, u64),
        is_nested: bool,
    ) {
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        let was_fruitless = one.starts.record_success();
        one.stats.calls += calls;
        one.stats.busy_ticks += ticks;
        if is_nested {
            one.stats.nested_calls += calls;
            one.stats.nested_ticks += ticks;
            self.contexts.changes += 1;
        }
        if was_fruitless {
            self.contexts.keep_place(context);
        }
    }

    /// Counts a task of a context that has run at a peer.
    pub(crate) fn note_call_in_context(&mut self, index: u32, ticks: u64) {
        let extra = self.tasks[index].extra;
        if extra == NONE || self.extras[extra].context == PLAIN {
            return;
        }
        let context = self.extras[extra].context;
        self.context_ran(context, (self.calls(index).into(), ticks), false);
        if let Some(one) = self.contexts.table.get_mut(&context) {
            // Another peer could not have the context.
            one.failure = None;
            self.contexts.keep_place(context);
        }
    }

    /// Records that a worker with a context is up.
    pub(crate) fn context_came_up(&mut self, context: ContextId) {
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.starts.succeed();
            one.is_proven = true;
            one.stats.deployments += 1;
            self.contexts.changes += 1;
        }
    }

    /// Returns a counter that changes whenever a worker has come up with a context, or has run a task in it that another
    /// task submitted. The client that defined the context in this engine has no other way to learn of these.
    #[must_use]
    pub const fn context_changes(&self) -> u64 {
        self.contexts.changes
    }

    /// Records that no worker at a peer could have a context. An engine with workers of its own ignores this, because it
    /// tries itself.
    pub(crate) fn context_failed_elsewhere(&mut self, index: u32, failure: &Arc<StartFailure>) {
        let extra = self.tasks[index].extra;
        if extra == NONE || self.config.workers > 0 {
            return;
        }
        self.contexts.fail(self.extras[extra].context, Arc::clone(failure));
    }

    /// Gives up a context that has no workers yet: its tasks fail with `failure` once they are ready.
    pub fn give_up_context(
        &mut self,
        context: ContextId,
        failure: StartFailure,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        if self.contexts.table.contains_key(&context) {
            self.contexts.fail(context, Arc::new(failure));
            self.pump(port);
        }
    }

    /// Records that a worker with a context did not come up. The context fails after a permanent failure, or after
    /// several failures in a row.
    pub(crate) fn context_failed(&mut self, context: ContextId, failure: StartFailure) {
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        let has_process = |slot: &&Slot| slot.context == context && slot.has_process();
        let mut processes = self.slots.iter().filter(has_process);
        let is_alone = processes.clone().all(|slot| slot.state == SlotState::Starting);
        one.starts.fail(self.now, &self.config, is_alone);
        let is_hopeless = failure.permanent || one.starts.are_hopeless(&self.config);
        // Another start may be in progress and may succeed.
        let goes_on = processes.next().is_some();
        self.contexts.keep_place(context);
        if is_hopeless && !goes_on {
            self.contexts.fail(context, Arc::new(failure));
        }
    }
}
