//! Contexts that tasks may name: the definition of each id, and the cost of its setups so far.

mod definition;
mod report;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;

use gristmill_core::{Core, SubmitError};
use gristmill_wire::peer::ContextState;
use gristmill_wire::{ContextId, Digest};

use crate::client::Client;
use crate::inner::Inner;

use definition::KEY_SIZE;
use report::RemoteContextTotals;

pub use definition::ContextDefinition;
pub use report::{ContextReport, Setups};

#[derive(Debug)]
struct Entry {
    definition: ContextDefinition,
    /// Setup for the context's processes, if it differs from the defined one.
    setup: Option<Arc<[u8]>>,
    uses: u32,
    /// True if this side has the context's files and gives them to nodes. The files of a peer's context are the peer's to give.
    gives_files: bool,
    setups: Setups,
    /// Totals that nodes had reported before they left. `setups` contains them too.
    departed: RemoteContextTotals,
}

/// All contexts. An id never changes its definition.
#[derive(Debug, Default)]
pub struct ContextRegistry {
    entries: BTreeMap<ContextId, Entry>,
    by_definition: HashMap<ContextDefinition, ContextId>,
    last: u32,
    version: u64,
}

impl ContextRegistry {
    /// Returns the number of contexts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the id of a definition, and adds a use. The same definition has the same id while it is in use.
    pub fn define(&mut self, definition: ContextDefinition) -> ContextId {
        self.version += 1;
        if let Some(&id) = self.by_definition.get(&definition) {
            self.entries.get_mut(&id).expect("it is in use").uses += 1;
            return id;
        }
        self.last += 1;
        let id = ContextId(self.last);
        self.by_definition.insert(definition.clone(), id);
        let entry = Entry {
            definition,
            setup: None,
            uses: 1,
            gives_files: false,
            setups: Setups::default(),
            departed: RemoteContextTotals::default(),
        };
        self.entries.insert(id, entry);
        id
    }

    /// Returns the id of a context with this key, for a caller that knows only the key, and adds a use. Also finds a context
    /// that is not in use any more, because its last tasks may still name it.
    pub fn find(&mut self, key: &[u8]) -> Option<ContextId> {
        if key.len() != KEY_SIZE {
            return None;
        }
        let has_key = |entry: &Entry| entry.definition.setup.starts_with(key);
        let known = self.entries.iter().filter(|(_, entry)| has_key(entry));
        let id = known.max_by_key(|(_, entry)| entry.uses > 0).map(|(&id, _)| id)?;
        self.use_again(id).then_some(id)
    }

    /// Returns true if a context is in use.
    pub(crate) fn is_used(&self, id: ContextId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.uses > 0)
    }

    /// Adds a use of a context. Returns false if the context is not known any more. The caller must define a drained context
    /// to the task graph again.
    pub fn use_again(&mut self, id: ContextId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.uses += 1;
        if entry.uses == 1 {
            self.by_definition.entry(entry.definition.clone()).or_insert(id);
        }
        true
    }

    /// Returns a number that changes with each call of [`Self::define`].
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the contexts that are in use, each with its number of uses.
    pub(crate) fn in_use(&self) -> Vec<(ContextId, u32)> {
        let used = self.entries.iter().filter(|(_, entry)| entry.uses > 0);
        used.map(|(&id, entry)| (id, entry.uses)).collect()
    }

    /// Removes a use. Returns true if it was the last one.
    pub fn release(&mut self, id: ContextId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.uses -= 1;
        let is_last = entry.uses == 0;
        if is_last && self.by_definition.get(&entry.definition) == Some(&id) {
            // Its last tasks may still run. The same definition gets a new id from now on.
            self.by_definition.remove(&entry.definition);
        }
        is_last
    }

    /// Marks that this engine gives a context's files to nodes until the context is dropped. Returns false if it did so before.
    fn give_files(&mut self, id: ContextId) -> bool {
        let entry = self.entries.get_mut(&id);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.gives_files, true))
    }

    /// Forgets a context that no task names any more. Returns the names of its files if they were given from here.
    pub fn drop(&mut self, id: ContextId) -> Arc<[Digest]> {
        let given = self.entries.remove(&id).filter(|entry| entry.gives_files);
        given.map(|entry| entry.definition.files).unwrap_or_default()
    }

    /// Returns the definition of an id; `None` for the id of a worker without a context.
    pub fn get(&self, id: ContextId) -> Option<&ContextDefinition> {
        self.entries.get(&id).map(|entry| &entry.definition)
    }

    /// Replaces the setup for processes that start from now on. The caller does this once the location of the context's files
    /// is known. The definition does not change, so the same definition still leads to this context.
    pub fn set_up_as(&mut self, id: ContextId, setup: Arc<[u8]>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.setup = Some(setup);
        }
    }

    /// Returns the setup for a process with this context.
    pub fn setup(&self, id: ContextId) -> Option<Arc<[u8]>> {
        let entry = self.entries.get(&id)?;
        Some(Arc::clone(entry.setup.as_ref().unwrap_or(&entry.definition.setup)))
    }

    /// Returns the name of a context, for messages.
    pub fn name(&self, id: ContextId) -> &str {
        self.get(id).map_or("?", |definition| &definition.name)
    }

    /// Returns the cost of a context's setups here and on nodes that are gone.
    #[must_use]
    pub fn setups(&self, id: ContextId) -> Setups {
        self.entries.get(&id).map(|entry| entry.setups).unwrap_or_default()
    }

    /// Adds the totals of a context on a node that is gone.
    pub fn note_departed(&mut self, state: &ContextState) {
        if let Some(entry) = self.entries.get_mut(&state.context) {
            entry.setups.add(state);
            entry.departed.add(state);
        }
    }

    /// Counts one setup.
    pub fn note_setup(&mut self, id: ContextId, took_ns: u64, memory: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.setups.count += 1;
            entry.setups.took_ns += took_ns;
            entry.setups.memory = memory;
        }
    }
}

impl Client {
    /// Returns the id of a context, and adds a use until [`Self::forget_context`]. `files` are the files that the definition
    /// names, in its order.
    ///
    /// # Errors
    /// [`SubmitError::TooMuch`]: no worker here can ever have the resources that it requests.
    pub fn define_context(
        &self,
        definition: ContextDefinition,
        files: Vec<Arc<File>>,
    ) -> Result<ContextId, SubmitError> {
        let mut inner = self.lock();
        inner.core.check_demand(&definition.demand)?;
        Ok(inner.define_context(definition, files))
    }

    /// Removes a use of a context. After the last one the context is dropped, once the tasks that name it have ended.
    pub fn forget_context(&self, id: ContextId) {
        let mut inner = self.lock();
        let now = inner.port.read_clock();
        inner.let_context_go(id, now);
        inner.settle();
        self.summon_if_needed(inner);
    }
}

/// Returns the id of a context that is known by its key, and adds a use.
pub fn find_context(
    core: &mut Core,
    contexts: &mut ContextRegistry,
    key: &[u8],
) -> Option<ContextId> {
    let id = contexts.find(key)?;
    if core.context_stats(id).is_none() {
        // The graph has dropped the context, and the registry is about to drop it.
        contexts.release(id);
        return None;
    }
    let options = contexts.get(id).map(ContextDefinition::options)?;
    core.define_context(id, options);
    Some(id)
}

impl Inner {
    /// Returns the id of a context, and adds a use until [`Self::let_context_go`]. `files` are the files that the definition
    /// names, in its order.
    pub fn define_context(
        &mut self,
        definition: ContextDefinition,
        files: Vec<Arc<File>>,
    ) -> ContextId {
        let options = definition.options();
        let names = Arc::clone(&definition.files);
        let id = self.port.contexts.define(definition);
        self.core.define_context(id, options);
        if self.port.contexts.give_files(id) {
            for (&digest, file) in names.iter().zip(files) {
                self.port.provider.hold_file(digest, file);
            }
        }
        id
    }

    /// Removes a use of a context.
    pub fn let_context_go(&mut self, id: ContextId, now: u64) {
        if self.port.contexts.release(id) {
            self.core.forget_context(id, now, &mut self.port);
        }
    }

    /// Unloads contexts that were unused for long. No thread wakes up for this, so it may happen a little late.
    pub fn unload_idle(&mut self) {
        let now = self.port.read_clock();
        if self.core.next_unload().is_some_and(|due| due <= now) {
            let Self { core, port, .. } = self;
            core.poll(now, port);
            self.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_wire::ResourceRequest;

    use super::*;

    fn definition(setup: &[u8]) -> ContextDefinition {
        ContextDefinition {
            name: "model".into(),
            setup: setup.into(),
            workers_max: 4,
            is_fork_safe: true,
            linger_ns: u64::MAX,
            files: Arc::default(),
            demand: ResourceRequest::NONE,
        }
    }

    #[test]
    fn the_same_definition_is_the_same_context_while_it_is_used() {
        let mut contexts = ContextRegistry::default();
        let first = contexts.define(definition(b"one"));
        assert_eq!(contexts.define(definition(b"one")), first);
        assert_ne!(contexts.define(definition(b"two")), first);
        assert!(!contexts.release(first), "another user has it");
        assert!(contexts.release(first));
        assert_eq!(contexts.name(first), "model", "its last tasks may run");
        let again = contexts.define(definition(b"one"));
        assert_ne!(again, first, "one that is drained is another one");
        contexts.drop(first);
        assert!(contexts.get(first).is_none() && contexts.get(again).is_some());
    }

    #[test]
    fn a_key_leads_to_a_context_that_is_in_use_or_has_tasks() {
        let (one, other) = ([1; KEY_SIZE], [2; KEY_SIZE]);
        let setup = [&one[..], b"the definition of the context"].concat();
        let mut contexts = ContextRegistry::default();
        let first = contexts.define(definition(&setup));
        assert_eq!(contexts.find(&one), Some(first));
        assert_eq!([contexts.find(&other), contexts.find(b""), contexts.find(&setup)], [None; 3]);
        assert!(!contexts.release(first), "the caller that found it uses it");
        assert!(contexts.release(first));
        assert_eq!(contexts.find(&one), Some(first), "its last tasks name it");
        assert!(contexts.release(first));
        let anew = contexts.define(definition(&setup));
        assert_ne!(anew, first);
        assert_eq!(contexts.find(&one), Some(anew), "that one is in use");
        assert!(contexts.use_again(first) && contexts.release(first));
        assert_eq!(contexts.define(definition(&setup)), anew);
        contexts.drop(first);
        assert!(!contexts.use_again(first));
    }

    #[test]
    fn only_files_that_were_given_from_here_are_let_go_of() {
        let files: Arc<[Digest]> = [Digest::of([7; 32], 9)].into();
        let with_files =
            |setup| ContextDefinition { files: Arc::clone(&files), ..definition(setup) };
        let mut contexts = ContextRegistry::default();
        let received = contexts.define(with_files(b"of a peer"));
        let own = contexts.define(with_files(b"of this side"));
        assert!(contexts.give_files(own));
        assert!(!contexts.give_files(own), "they are held once");
        assert!(contexts.drop(received).is_empty());
        assert_eq!(contexts.drop(own), files);
    }
}
