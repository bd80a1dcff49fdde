//! Contexts that the tasks of a worker name. The worker defines each before the first task that names it: in full if the worker
//! has made it, by its key if the worker has only heard of it.

use std::borrow::Cow;
use std::collections::HashMap;

use gristmill_wire::peer::{ContextTerms, text_of};
use gristmill_wire::{ContextId, NAME_SIZE_MAX, SlotId};

use crate::contexts::{ContextDefinition, find_context};
use crate::inner::Inner;
use crate::peers::{CONTEXT_ADVICE, Refusals, size_of_context};

/// The contexts behind the numbers of one worker.
#[derive(Debug, Default)]
pub(super) struct NestedContexts {
    by_theirs: HashMap<ContextId, Known>,
    /// Total size of the entries, bytes.
    size: usize,
    /// Numbers of contexts that are too large.
    refused: Refusals<ContextId>,
}

#[derive(Debug)]
struct Known {
    /// The context in this client. If the worker has made it, it is in use; if the worker has only heard of it, it may be gone
    /// when a task names it.
    ours: Option<ContextId>,
    /// The key of a context that the worker has heard of.
    key: Option<Box<[u8]>>,
    /// Reason why no worker here could have a context that the worker has made.
    refusal: Option<Box<str>>,
    name: Box<str>,
    size: usize,
}

impl NestedContexts {
    fn insert(&mut self, theirs: ContextId, known: Known) {
        self.refused.remove(theirs);
        self.size += known.size;
        self.by_theirs.insert(theirs, known);
    }

    fn remove(&mut self, theirs: ContextId) -> Option<ContextId> {
        self.refused.remove(theirs);
        let known = self.by_theirs.remove(&theirs)?;
        self.size -= known.size;
        known.used()
    }

    /// Returns the number of entries and their total size in bytes.
    ///
    /// # Panics
    /// If the total size differs from the recorded one.
    pub fn audit(&self) -> (usize, usize) {
        let sizes = self.by_theirs.values().map(|known| known.size);
        assert_eq!(sizes.sum::<usize>(), self.size, "what a worker's contexts take is counted");
        (self.by_theirs.len(), self.size)
    }

    /// Returns why a number stands for no context, if one was refused.
    pub fn refusal(&self, theirs: ContextId) -> Option<String> {
        self.refused.reason(theirs).map(ToString::to_string)
    }

    /// Returns the contexts of this client that the worker uses.
    pub fn used(self) -> impl Iterator<Item = ContextId> {
        self.by_theirs.into_values().filter_map(|known| known.used())
    }
}

impl Known {
    fn used(&self) -> Option<ContextId> {
        self.ours.filter(|_| self.key.is_none())
    }
}

/// The context in which a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskContext {
    pub context: ContextId,
    /// True if the context is used only for this task. That use ends once the task is accepted.
    pub is_lent: bool,
}

impl Inner {
    /// Records the context behind a worker's number. Records only a reason if the worker's contexts would take too much
    /// memory.
    pub(super) fn define_nested_context(
        &mut self,
        slot: SlotId,
        terms: &ContextTerms<'_>,
        now: u64,
    ) {
        self.forget_nested_context(slot, terms.context, now);
        let name: Box<str> = text_of(terms.name, NAME_SIZE_MAX).into();
        let size = size_of_context(name.len() + terms.setup.len(), terms.files.iter().count());
        let all = self.nested.session(slot).contexts.size.saturating_add(size);
        if all > self.nested.contexts_max {
            return self.refuse_nested_context(slot, terms.context, all);
        }
        let is_key = ContextDefinition::is_key(terms.setup);
        let key = is_key.then(|| terms.setup.into());
        let refusal = self.core.check_demand(&terms.demand).err();
        let refusal = refusal.map(|refusal| format!("context \"{name}\": {refusal}").into());
        let is_made = !is_key && refusal.is_none();
        let ours = is_made.then(|| self.find_or_define(terms));
        let known = Known { ours, key, refusal, name, size };
        self.nested.session(slot).contexts.insert(terms.context, known);
    }

    /// Records that a worker's number stands for no context, because all definitions would take `size` bytes with this one.
    pub(super) fn refuse_nested_context(&mut self, slot: SlotId, theirs: ContextId, size: usize) {
        let limit = self.nested.contexts_max;
        let reason = format!(
            "with its context the definitions of the contexts that this worker's tasks name take {size} bytes, and the limit is \
             {limit}: {CONTEXT_ADVICE}"
        );
        self.nested.session(slot).contexts.refused.insert(theirs, reason.into());
    }

    /// Returns a context that a worker has made. The program may have made the same context, with another description because
    /// it has the files.
    fn find_or_define(&mut self, terms: &ContextTerms<'_>) -> ContextId {
        let key = ContextDefinition::key_of(terms.setup);
        let known = find_context(&mut self.core, &mut self.port.contexts, key);
        known.unwrap_or_else(|| self.define_context(ContextDefinition::received(terms), Vec::new()))
    }

    /// Returns the context behind a worker's number; 0 means no context.
    ///
    /// # Errors
    /// The reason why no task can name the context.
    pub(super) fn named_context(
        &mut self,
        slot: SlotId,
        theirs: ContextId,
    ) -> Result<TaskContext, Cow<'static, str>> {
        if theirs == ContextId(0) {
            return Ok(TaskContext { context: theirs, is_lent: false });
        }
        let told = &mut self.nested.desks[usize::from(slot.0)].contexts;
        let Some(known) = told.by_theirs.get_mut(&theirs) else {
            let undefined = "the task names a context that its worker has not defined";
            return Err(told.refusal(theirs).map_or(undefined.into(), Cow::Owned));
        };
        if let Some(refusal) = &known.refusal {
            return Err(refusal.to_string().into());
        }
        let contexts = &self.port.contexts;
        if let Some(context) = known.ours.filter(|&context| contexts.is_used(context)) {
            return Ok(TaskContext { context, is_lent: false });
        }
        let key = known.key.as_deref().unwrap_or_default();
        let (core, contexts) = (&mut self.core, &mut self.port.contexts);
        let Some(context) = find_context(core, contexts, key) else {
            return Err(unknown(&known.name));
        };
        known.ours = Some(context);
        Ok(TaskContext { context, is_lent: true })
    }

    /// Forgets a context that a worker does not name any more.
    pub(super) fn forget_nested_context(&mut self, slot: SlotId, theirs: ContextId, now: u64) {
        if let Some(ours) = self.nested.session(slot).contexts.remove(theirs) {
            self.let_context_go(ours, now);
        }
    }
}

fn unknown(name: &str) -> Cow<'static, str> {
    format!(
        "context \"{name}\" is not known to the executor that runs this task: it was released, or it was made in a task that has \
         ended"
    )
    .into()
}
