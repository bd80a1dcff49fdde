//! Which contexts stay where nobody uses them: each for as long as it was to be kept, as far as there is memory for all.
//!
//! (Phung and others, section 3.4: libraries without work are evicted for others.)

use gristmill_wire::ContextId;

use super::Context;
use crate::Core;
use crate::port::Port;
use crate::slots::{Slot, SlotState};

impl Context {
    /// It takes memory, and no task needs it now.
    fn is_idle(&self) -> bool {
        self.is_resident && self.tasks == 0
    }

    fn idle_until(&self) -> u64 {
        self.used_at.saturating_add(self.options.linger_ns)
    }
}

impl Core {
    /// Processes that were set up with a context take so much memory together, bytes: others may have to go for it.
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

    /// When the first of the contexts that nobody uses has been kept for as long as it was to be: [`Core::poll`] lets it go
    /// then, or later. It is nothing to wake anybody for.
    #[must_use]
    pub fn next_unload(&self) -> Option<u64> {
        let idle = self.contexts.table.values().filter(|one| one.is_idle());
        idle.map(Context::idle_until).filter(|&until| until != u64::MAX).min()
    }

    /// Lets go of the contexts that were kept for long enough.
    pub(crate) fn unload_idle(&mut self, port: &mut impl Port) {
        if self.next_unload().is_none_or(|due| due > self.now) {
            return;
        }
        let is_over = |one: &Context| one.idle_until() <= self.now;
        let table = self.contexts.table.iter();
        let over = table.filter(|&(&id, one)| is_over(one) && self.may_unload(id, one));
        let over: Vec<ContextId> = over.map(|(&context, _)| context).collect();
        over.into_iter().for_each(|context| self.unload(context, port));
    }

    /// Whether nobody uses a context, or is about to: a worker that starts is first to show what it can do.
    fn may_unload(&self, id: ContextId, context: &Context) -> bool {
        let is_coming = |slot: &Slot| slot.context == id && slot.state == SlotState::Starting;
        context.is_idle() && !self.slots.iter().any(is_coming)
    }

    /// Lets go of what a context takes; it is set up again when a task needs it.
    fn unload(&mut self, context: ContextId, port: &mut impl Port) {
        if let Some(one) = self.contexts.table.get_mut(&context) {
            one.is_resident = false;
            one.memory = 0;
        }
        self.send_all_away(context, port);
        port.unload_context(context);
    }
}
