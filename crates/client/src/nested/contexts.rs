//! Contexts that the tasks of a worker name: told by the worker before the first task that does, in full where it has made
//! them, by their key where it has only heard of them.

use std::borrow::Cow;
use std::collections::HashMap;

use gristmill_wire::peer::ContextTerms;
use gristmill_wire::{ContextId, SlotId};

use crate::contexts::{ContextDefinition, find_context};
use crate::inner::Inner;
use crate::peers::CONTEXT_SIZE;

/// What the numbers of one worker stand for.
#[derive(Debug, Default)]
pub(super) struct DeskContexts {
    by_theirs: HashMap<ContextId, Known>,
    /// What they take together, bytes.
    size: usize,
}

#[derive(Debug)]
struct Known {
    /// The context here. One that the worker has made is in use; one that it has heard of may be gone when a task names it.
    ours: Option<ContextId>,
    /// The key of one that the worker has heard of.
    key: Option<Box<[u8]>>,
    /// Why no worker here could have one that the worker has made.
    refusal: Option<Box<str>>,
    name: Box<str>,
    size: usize,
}

impl DeskContexts {
    fn insert(&mut self, theirs: ContextId, known: Known) {
        self.size += known.size;
        self.by_theirs.insert(theirs, known);
    }

    fn remove(&mut self, theirs: ContextId) -> Option<ContextId> {
        let known = self.by_theirs.remove(&theirs)?;
        self.size -= known.size;
        known.used()
    }

    /// How many numbers stand for something, and what that takes together, bytes.
    ///
    /// # Panics
    /// It takes something else than was counted.
    #[cfg(any(test, feature = "workless"))]
    pub fn audit(&self) -> (usize, usize) {
        let sizes = self.by_theirs.values().map(|known| known.size);
        assert_eq!(sizes.sum::<usize>(), self.size, "what a worker's contexts take is counted");
        (self.by_theirs.len(), self.size)
    }

    /// All contexts here that are in use by the worker.
    pub fn used(self) -> impl Iterator<Item = ContextId> {
        self.by_theirs.into_values().filter_map(|known| known.used())
    }
}

impl Known {
    fn used(&self) -> Option<ContextId> {
        self.ours.filter(|_| self.key.is_none())
    }
}

/// A context that a task is to run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    pub context: ContextId,
    /// It is in use for this task alone, which is to be ended once that is accepted.
    pub is_lent: bool,
}

impl Inner {
    /// Notes what a worker's number stands for from now on; for nothing, where its worker's contexts would take too much.
    pub(super) fn define_nested_context(
        &mut self,
        slot: SlotId,
        terms: &ContextTerms<'_>,
        now: u64,
    ) {
        self.forget_nested_context(slot, terms.context, now);
        let size =
            CONTEXT_SIZE * (1 + terms.files.iter().count()) + terms.name.len() + terms.setup.len();
        let contexts_max = self.nested.contexts_max;
        if self.nested.desk(slot).contexts.size.saturating_add(size) > contexts_max {
            return;
        }
        let name: Box<str> = String::from_utf8_lossy(terms.name).into();
        let is_key = ContextDefinition::is_key(terms.setup);
        let key = is_key.then(|| terms.setup.into());
        let refusal = self.core.check_demand(&terms.demand).err();
        let refusal = refusal.map(|refusal| format!("context \"{name}\": {refusal}").into());
        let is_made = !is_key && refusal.is_none();
        let ours = is_made.then(|| self.find_or_define(terms));
        let known = Known { ours, key, refusal, name, size };
        self.nested.desk(slot).contexts.insert(terms.context, known);
    }

    /// A context that a worker has made. The program may have made the same, which is told differently where its files are.
    fn find_or_define(&mut self, terms: &ContextTerms<'_>) -> ContextId {
        let key = ContextDefinition::key_of(terms.setup);
        let known = find_context(&mut self.core, &mut self.lanes.contexts, key);
        known.unwrap_or_else(|| self.define_context(ContextDefinition::told(terms), Vec::new()))
    }

    /// What a number stands for, 0 being none.
    ///
    /// # Errors
    /// Why no task can name it.
    pub(super) fn named_context(
        &mut self,
        slot: SlotId,
        theirs: ContextId,
    ) -> Result<Named, Cow<'static, str>> {
        if theirs == ContextId(0) {
            return Ok(Named { context: theirs, is_lent: false });
        }
        let Some(known) =
            self.nested.desks[usize::from(slot.0)].contexts.by_theirs.get_mut(&theirs)
        else {
            return Err("the task named a context that its worker had not defined".into());
        };
        if let Some(refusal) = &known.refusal {
            return Err(refusal.to_string().into());
        }
        let contexts = &self.lanes.contexts;
        if let Some(context) = known.ours.filter(|&context| contexts.is_used(context)) {
            return Ok(Named { context, is_lent: false });
        }
        let key = known.key.as_deref().unwrap_or_default();
        let (core, contexts) = (&mut self.core, &mut self.lanes.contexts);
        let Some(context) = find_context(core, contexts, key) else {
            return Err(unknown(&known.name));
        };
        known.ours = Some(context);
        Ok(Named { context, is_lent: true })
    }

    /// A worker names a context no more.
    pub(super) fn forget_nested_context(&mut self, slot: SlotId, theirs: ContextId, now: u64) {
        if let Some(ours) = self.nested.desk(slot).contexts.remove(theirs) {
            self.let_context_go(ours, now);
        }
    }
}

fn unknown(name: &str) -> Cow<'static, str> {
    format!(
        "context \"{name}\" is not known to the executor that runs this task: it was released, or made in a task that has \
         ended"
    )
    .into()
}
