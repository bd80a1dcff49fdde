//! A context's life: defined, had by workers or by none, forgotten, and dropped with its last task.

use std::sync::Arc;

use gristmill_wire::ContextId;

use super::pools::Staff;
use super::{Context, ContextOptions, PLAIN};
use crate::port::Port;
use crate::queue::ReadyQueue;
use crate::slots::Slot;
use crate::starts::Starts;
use crate::stats::ContextStats;
use crate::{Core, NONE, StartFailure};

impl Core {
    /// Makes a context known: tasks may name it. One that is known keeps what it has, and is not forgotten any more.
    ///
    /// # Panics
    /// It is the number of none.
    pub fn define_context(&mut self, context: ContextId, options: ContextOptions) {
        assert!(context != PLAIN, "0 is no context");
        let new = || Context {
            options,
            queue: ReadyQueue::new(),
            current: 0,
            starts: Starts::default(),
            is_proven: false,
            failure: None,
            served_at: 0,
            tasks: 0,
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

    /// No task will name a context any more. Those that do are completed; then its workers leave, and
    /// [`Port::context_dropped`] is called.
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

    /// Sends workers away whose contexts nobody needs any more.
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
        debug_assert!(dropped.queue.is_empty(), "a context outlives its tasks");
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

    /// A task was accepted that names a context.
    pub(crate) fn context_gains_task(&mut self, context: ContextId) {
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.tasks += 1;
        }
    }

    /// One of them is final.
    pub(crate) fn context_loses_task(&mut self, context: ContextId) {
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        one.tasks -= 1;
        one.used_at = self.now;
        if one.tasks == 0 && one.is_forgotten {
            self.contexts.unneeded.push(context);
        }
    }

    /// Why workers cannot have a context.
    #[must_use]
    pub fn context_failure(&self, context: ContextId) -> Option<&StartFailure> {
        self.contexts.table.get(&context)?.failure.as_deref()
    }

    /// What a context was good for so far.
    #[must_use]
    pub fn context_stats(&self, context: ContextId) -> Option<ContextStats> {
        let one = self.contexts.table.get(&context)?;
        let Staff { live: workers, running, .. } = self.staff(context);
        Some(ContextStats { workers, running, waiting: one.queue.len().into(), ..one.stats })
    }

    /// A worker with a context has run calls, for so many ticks; of a task that a task here submitted.
    pub(crate) fn context_ran(
        &mut self,
        context: ContextId,
        (calls, ticks): (u64, u64),
        is_nested: bool,
    ) {
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        one.starts.bear_fruit();
        one.stats.calls += calls;
        one.stats.busy_ticks += ticks;
        if is_nested {
            one.stats.nested_calls += calls;
            one.stats.nested_ticks += ticks;
            self.contexts.changes += 1;
        }
    }

    /// A task has run at a peer.
    pub(crate) fn note_call_in_context(&mut self, index: u32, ticks: u64) {
        let extra = self.tasks[index].extra;
        if extra == NONE || self.extras[extra].context == PLAIN {
            return;
        }
        let context = self.extras[extra].context;
        self.context_ran(context, (self.calls(index).into(), ticks), false);
        if let Some(one) = self.contexts.table.get_mut(&context) {
            // It was another peer that could not have it.
            one.failure = None;
        }
    }

    /// A worker with a context is up.
    pub(crate) fn context_came_up(&mut self, context: ContextId) {
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.starts.succeed();
            one.is_proven = true;
            one.stats.deployments += 1;
            self.contexts.changes += 1;
        }
    }

    /// Changes whenever a worker has come up with a context, or has run a task there that a task submitted: whoever told this
    /// engine of the context knows neither.
    #[must_use]
    pub const fn context_changes(&self) -> u64 {
        self.contexts.changes
    }

    /// Nobody could have a context at a peer. With workers of its own an engine has tried, or will, whether they can.
    pub(crate) fn context_failed_elsewhere(&mut self, index: u32, failure: &Arc<StartFailure>) {
        let extra = self.tasks[index].extra;
        if extra == NONE || self.config.workers > 0 {
            return;
        }
        if let Some(one) = self.contexts.table.get_mut(&self.extras[extra].context) {
            one.failure = Some(Arc::clone(failure));
        }
    }

    /// Nobody can have a context, which has no workers yet: its tasks fail with this once they are ready.
    pub fn give_up_context(
        &mut self,
        context: ContextId,
        failure: StartFailure,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.failure = Some(Arc::new(failure));
            self.pump(port);
        }
    }

    /// A worker with a context did not come up. After a permanent failure, or several in a row, nobody can have it.
    pub(crate) fn context_failed(&mut self, context: ContextId, failure: StartFailure) {
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        let rounds = one.starts.fail(self.now, &self.config);
        // Another start may be under way, and go better.
        let has_live = |slot: &Slot| slot.context == context && slot.has_process();
        let has_live = self.slots.iter().any(has_live);
        if (failure.permanent || rounds >= self.config.start_failures_max) && !has_live {
            one.failure = Some(Arc::new(failure));
        }
    }
}
