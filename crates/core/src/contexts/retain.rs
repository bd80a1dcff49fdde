//! Retention of unused contexts: each is kept for its linger time, if there is memory for all.
//!
//! Source: Phung and others, "Accelerating Function-Centric Applications by Discovering, Distributing, and Retaining
//! Reusable Context in Workflow Systems", section 3.4 (libraries without work are evicted for others).

use std::collections::BTreeSet;

use gristmill_wire::ContextId;

use super::{Context, ContextTable};
use crate::Core;
use crate::port::Port;
use crate::slots::{Slot, SlotState};

impl Context {
    /// Returns true if the context takes memory and no task needs it now.
    fn is_idle(&self) -> bool {
        self.is_resident && self.tasks == 0
    }

    /// Returns when an unused context is unloaded; `None` if it is in use or is kept without limit.
    fn idle_until(&self) -> Option<u64> {
        let until = self.used_at.saturating_add(self.options.linger_ns);
        (self.is_idle() && until != u64::MAX).then_some(until)
    }
}

impl ContextTable {
    /// Updates the time when a context is unloaded, which exists only while the context is unused.
    pub(super) fn keep_idle(&mut self, context: ContextId) {
        let Some(one) = self.table.get_mut(&context) else { return };
        let until = one.idle_until();
        let before = std::mem::replace(&mut one.idle_until, until);
        if before == until {
            return;
        }
        if let Some(before) = before {
            self.idle.remove(&(before, context));
        }
        self.idle.extend(until.map(|until| (until, context)));
    }

    /// Asserts that the set of unused contexts is complete.
    pub(super) fn audit_idle(&self) {
        let until = |(&context, one): (&ContextId, &Context)| Some((one.idle_until()?, context));
        let idle: BTreeSet<(u64, ContextId)> = self.table.iter().filter_map(until).collect();
        assert_eq!(idle, self.idle, "unused contexts");
    }
}

impl Core {
    /// Records how many bytes of memory the processes with a context take together. Unloads other unused contexts, the
    /// least recently used first, while contexts take too much memory.
    pub fn context_loaded(
        &mut self,
        context: ContextId,
        bytes: u64,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(one) = self.contexts.table.get_mut(&context) else { return };
        one.memory = bytes;
        while self.contexts_memory() > self.config.context_memory {
            let table = self.contexts.table.iter();
            let others = table.filter(|&(&id, one)| id != context && self.may_unload(id, one));
            let Some((&oldest, _)) = others.min_by_key(|(_, one)| one.used_at) else { return };
            self.unload(oldest, port);
        }
    }

    fn contexts_memory(&self) -> u64 {
        let resident = self.contexts.table.values().filter(|one| one.is_resident);
        resident.fold(0, |sum, one| sum.saturating_add(one.memory))
    }

    /// Returns when the linger time of the first unused context ends. [`Core::poll`] unloads the context then or later;
    /// no thread needs to be woken for it.
    #[must_use]
    pub fn next_unload(&self) -> Option<u64> {
        self.contexts.idle.first().map(|&(until, _)| until)
    }

    /// Unloads the unused contexts whose linger time is over.
    pub(crate) fn unload_idle(&mut self, port: &mut impl Port) {
        // An engine without workers has loaded nothing.
        if self.config.workers == 0 || self.next_unload().is_none_or(|due| due > self.now) {
            return;
        }
        let over = self.contexts.idle.range(..=(self.now, ContextId(u32::MAX)));
        let may_unload = |&id: &ContextId| self.may_unload(id, &self.contexts.table[&id]);
        let over: Vec<ContextId> = over.map(|&(_, context)| context).filter(may_unload).collect();
        over.into_iter().for_each(|context| self.unload(context, port));
    }

    /// Returns true if a context is unused and no worker with it is starting: a worker that starts must first have a
    /// chance to be used.
    fn may_unload(&self, id: ContextId, context: &Context) -> bool {
        let is_coming = |slot: &Slot| slot.context == id && slot.state == SlotState::Starting;
        context.is_idle() && !self.slots.iter().any(is_coming)
    }

    /// Unloads a context. It is loaded again when a task needs it.
    fn unload(&mut self, context: ContextId, port: &mut impl Port) {
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.is_resident = false;
            one.memory = 0;
            self.contexts.keep_idle(context);
        }
        self.send_all_away(context, port);
        port.unload_context(context);
    }
}
