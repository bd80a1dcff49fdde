//! The contexts that tasks may name: what each id stands for, and what its setup has cost so far.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;

use gristmill_core::{ContextOptions, ContextStats, SubmitError};
use gristmill_wire::peer::ContextState;
use gristmill_wire::{ContextId, Demand, Digest};

use crate::client::Client;
use crate::inner::Inner;

/// What the layer above decides of a context. Its bytes are opaque here: a worker's process gets them, and knows what to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContextDefinition {
    /// For messages.
    pub name: Box<str>,
    /// What a process with the context sets up.
    pub setup: Arc<[u8]>,
    /// Workers that have it at the same time, at most.
    pub workers_max: u16,
    /// Processes can be forked from one in which it was set up.
    pub is_fork_safe: bool,
    /// How long it is kept while nobody uses it, nanoseconds.
    pub linger_ns: u64,
    /// Files that nodes have before it is set up there.
    pub files: Arc<[Digest]>,
    /// What each of its workers has besides a place, and how many places.
    pub demand: Demand,
}

impl ContextDefinition {
    /// What the graph has to know.
    pub(crate) const fn options(&self) -> ContextOptions {
        let Self { workers_max, linger_ns, demand, .. } = *self;
        ContextOptions { workers_max, linger_ns, demand }
    }

    /// Whether each worker sets it up by itself: a process that has seen its GPUs cannot be forked.
    pub(crate) const fn needs_own_setup(&self) -> bool {
        !self.is_fork_safe || self.demand.gpus > 0
    }
}

/// What a context cost, and was good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextReport {
    /// What it is called.
    pub name: Box<str>,
    /// Its workers and calls.
    pub stats: ContextStats,
    /// How long those calls took together, nanoseconds.
    pub busy_ns: u64,
    /// What each of those workers has besides a place, and how many places.
    pub demand: Demand,
    /// Its setups.
    pub setups: Setups,
    /// Bytes of the files that each node has for it.
    pub disk: u64,
    /// Why nobody can have it.
    pub failure: Option<Box<str>>,
}

/// How often something was set up, and how long that took: processes' starts are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setups {
    /// How often.
    pub count: u64,
    /// Together, nanoseconds.
    pub took_ns: u64,
    /// Memory that the last one left its process with, bytes.
    pub memory: u64,
}

impl Setups {
    /// Adds those of a node.
    fn add(&mut self, state: &ContextState) {
        self.count = self.count.saturating_add(state.setups);
        self.took_ns = self.took_ns.saturating_add(state.setup_ns);
        self.memory = self.memory.max(state.memory);
    }
}

#[derive(Debug)]
struct Entry {
    definition: ContextDefinition,
    /// What its processes set up where that is another than was defined.
    setup: Option<Arc<[u8]>>,
    uses: u32,
    setups: Setups,
    /// Workers that came up with it on nodes that are gone.
    departed: u64,
}

/// All contexts. An id stands for one definition for ever.
#[derive(Debug, Default)]
pub struct Contexts {
    entries: BTreeMap<ContextId, Entry>,
    by_definition: HashMap<ContextDefinition, ContextId>,
    last: u32,
}

impl Contexts {
    /// The id of a definition, which gains a use; the same one has the same id while it is in use.
    pub fn define(&mut self, definition: ContextDefinition) -> ContextId {
        if let Some(&id) = self.by_definition.get(&definition) {
            self.entries.get_mut(&id).expect("it is in use").uses += 1;
            return id;
        }
        self.last += 1;
        let id = ContextId(self.last);
        self.by_definition.insert(definition.clone(), id);
        let (setup, setups) = (None, Setups::default());
        self.entries.insert(id, Entry { definition, setup, uses: 1, setups, departed: 0 });
        id
    }

    /// Takes a use away; true when it was the last.
    pub fn release(&mut self, id: ContextId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.uses -= 1;
        let is_last = entry.uses == 0;
        if is_last {
            // Its last tasks may still run: who defines it anew meanwhile gets another one.
            self.by_definition.remove(&entry.definition);
        }
        is_last
    }

    /// Forgets one that no task names any more; gives what its files are called.
    pub fn drop(&mut self, id: ContextId) -> Arc<[Digest]> {
        self.entries.remove(&id).map(|entry| entry.definition.files).unwrap_or_default()
    }

    /// What an id stands for; nothing for a worker's that has no context.
    pub fn get(&self, id: ContextId) -> Option<&ContextDefinition> {
        self.entries.get(&id).map(|entry| &entry.definition)
    }

    /// Where its files are is known: what its processes set up from now on. Others may still define the same.
    pub fn set_up_as(&mut self, id: ContextId, setup: Arc<[u8]>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.setup = Some(setup);
        }
    }

    /// What a process sets up that has it.
    pub fn setup(&self, id: ContextId) -> Option<Arc<[u8]>> {
        let entry = self.entries.get(&id)?;
        Some(Arc::clone(entry.setup.as_ref().unwrap_or(&entry.definition.setup)))
    }

    /// What it is called, for messages.
    pub fn name(&self, id: ContextId) -> &str {
        self.get(id).map_or("?", |definition| &definition.name)
    }

    /// What its setups have cost here.
    #[must_use]
    pub fn setups(&self, id: ContextId) -> Setups {
        self.entries.get(&id).map(|entry| entry.setups).unwrap_or_default()
    }

    /// A node is gone, where a context had come to this.
    pub fn note_departed(&mut self, state: &ContextState) {
        if let Some(entry) = self.entries.get_mut(&state.context) {
            entry.setups.add(state);
            entry.departed = entry.departed.saturating_add(state.deployments);
        }
    }

    /// One was set up.
    pub fn note_setup(&mut self, id: ContextId, took_ns: u64, memory: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.setups.count += 1;
            entry.setups.took_ns += took_ns;
            entry.setups.memory = memory;
        }
    }
}

impl Client {
    /// The id of a context, which gains a use until [`Self::forget_context`]; `files` are those that it names, in its order.
    ///
    /// # Errors
    /// [`SubmitError::TooMuch`]: no worker here could ever have what it asks for.
    pub fn define_context(
        &self,
        definition: ContextDefinition,
        files: Vec<Arc<File>>,
    ) -> Result<ContextId, SubmitError> {
        let mut inner = self.lock();
        let options = definition.options();
        inner.core.check_demand(&options.demand)?;
        let names = Arc::clone(&definition.files);
        let id = inner.lanes.contexts.define(definition);
        if inner.core.define_context(id, options) {
            for (&digest, file) in names.iter().zip(files) {
                inner.lanes.giving.hold_file(digest, file);
            }
        }
        Ok(id)
    }

    /// Gives a use of a context back; with the last one it goes, once the tasks that name it have ended.
    pub fn forget_context(&self, id: ContextId) {
        let mut inner = self.lock();
        if !inner.lanes.contexts.release(id) {
            return;
        }
        let now = inner.lanes.read_clock();
        let Inner { core, lanes, .. } = &mut *inner;
        core.forget_context(id, now, lanes);
        inner.settle();
        self.summon_if_needed(inner);
    }

    /// What a context cost, and was good for.
    pub fn context_report(&self, id: ContextId) -> Option<ContextReport> {
        let mut inner = self.lock();
        inner.drain();
        let entry = inner.lanes.contexts.entries.get(&id)?;
        let mut stats = inner.core.context_stats(id)?;
        let mut setups = entry.setups;
        stats.deployments += entry.departed;
        let links = &inner.lanes.links;
        let there = links.peers().filter_map(|peer| links.get(peer)?.contexts.state(id));
        for state in there {
            stats.workers = stats.workers.saturating_add(state.workers);
            stats.deployments = stats.deployments.saturating_add(state.deployments);
            setups.add(state);
        }
        Some(ContextReport {
            name: entry.definition.name.clone(),
            stats,
            busy_ns: inner.lanes.scale.to_ns(stats.busy_ticks),
            demand: entry.definition.demand,
            setups,
            disk: entry.definition.files.iter().map(Digest::size).sum(),
            failure: inner.core.context_failure(id).map(|failure| failure.text.clone()),
        })
    }
}

impl Inner {
    /// Lets go of contexts that nobody has used for long. That is nothing to stay awake for: it may come a little late.
    pub fn unload_idle(&mut self) {
        let now = self.lanes.read_clock();
        if self.core.next_unload().is_some_and(|due| due <= now) {
            let Self { core, lanes, .. } = self;
            core.poll(now, lanes);
            self.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(setup: &[u8]) -> ContextDefinition {
        ContextDefinition {
            name: "model".into(),
            setup: setup.into(),
            workers_max: 4,
            is_fork_safe: true,
            linger_ns: u64::MAX,
            files: Arc::default(),
            demand: Demand::NONE,
        }
    }

    #[test]
    fn the_same_definition_is_the_same_context_while_somebody_uses_it() {
        let mut contexts = Contexts::default();
        let first = contexts.define(definition(b"one"));
        assert_eq!(contexts.define(definition(b"one")), first);
        assert_ne!(contexts.define(definition(b"two")), first);
        assert!(!contexts.release(first), "somebody else uses it");
        assert!(contexts.release(first));
        assert_eq!(contexts.name(first), "model", "its last tasks may run");
        let again = contexts.define(definition(b"one"));
        assert_ne!(again, first, "one that is drained is another one");
        contexts.drop(first);
        assert!(contexts.get(first).is_none() && contexts.get(again).is_some());
    }
}
