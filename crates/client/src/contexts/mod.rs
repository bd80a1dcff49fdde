//! The contexts that tasks may name: what each id stands for, and what its setup has cost so far.

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
use report::Departed;

pub use definition::ContextDefinition;
pub use report::{ContextReport, Setups};

#[derive(Debug)]
struct Entry {
    definition: ContextDefinition,
    /// What its processes set up where that is another than was defined.
    setup: Option<Arc<[u8]>>,
    uses: u32,
    /// This side has its files, and gives them; those of a context that others have told of are theirs to give.
    gives_files: bool,
    setups: Setups,
    /// What it came to on nodes that are gone, as far as only they have counted it.
    departed: Departed,
}

/// All contexts. An id stands for one definition for ever.
#[derive(Debug, Default)]
pub struct Contexts {
    entries: BTreeMap<ContextId, Entry>,
    by_definition: HashMap<ContextDefinition, ContextId>,
    last: u32,
    version: u64,
}

impl Contexts {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The id of a definition, which gains a use; the same one has the same id while it is in use.
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
            departed: Departed::default(),
        };
        self.entries.insert(id, entry);
        id
    }

    /// The id of a context that has this key, as whoever names it knows no more of it; it gains a use. One that its last
    /// users have given back may still have tasks, which name it.
    pub fn find(&mut self, key: &[u8]) -> Option<ContextId> {
        if key.len() != KEY_SIZE {
            return None;
        }
        let has_key = |entry: &Entry| entry.definition.setup.starts_with(key);
        let known = self.entries.iter().filter(|(_, entry)| has_key(entry));
        let id = known.max_by_key(|(_, entry)| entry.uses > 0).map(|(&id, _)| id)?;
        self.use_again(id).then_some(id)
    }

    /// Whether anybody uses a context.
    pub(crate) fn is_used(&self, id: ContextId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.uses > 0)
    }

    /// Adds a use of a context; false if it is not known any more. One that is drained is to be made known again.
    pub fn use_again(&mut self, id: ContextId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.uses += 1;
        if entry.uses == 1 {
            self.by_definition.entry(entry.definition.clone()).or_insert(id);
        }
        true
    }

    /// Changes whenever somebody has begun to use one.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Those that are in use, each with how many use it.
    pub(crate) fn in_use(&self) -> Vec<(ContextId, u32)> {
        let used = self.entries.iter().filter(|(_, entry)| entry.uses > 0);
        used.map(|(&id, entry)| (id, entry.uses)).collect()
    }

    /// Takes a use away; true when it was the last.
    pub fn release(&mut self, id: ContextId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.uses -= 1;
        let is_last = entry.uses == 0;
        if is_last && self.by_definition.get(&entry.definition) == Some(&id) {
            // Its last tasks may still run: who defines it anew meanwhile gets another one.
            self.by_definition.remove(&entry.definition);
        }
        is_last
    }

    /// The files of a context are given from here until it is dropped; false if they already were.
    fn give_files(&mut self, id: ContextId) -> bool {
        let entry = self.entries.get_mut(&id);
        entry.is_some_and(|entry| !std::mem::replace(&mut entry.gives_files, true))
    }

    /// Forgets one that no task names any more; gives what those of its files are called that were given from here.
    pub fn drop(&mut self, id: ContextId) -> Arc<[Digest]> {
        let given = self.entries.remove(&id).filter(|entry| entry.gives_files);
        given.map(|entry| entry.definition.files).unwrap_or_default()
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
            entry.departed.add(state);
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
        inner.core.check_demand(&definition.demand)?;
        Ok(inner.define_context(definition, files))
    }

    /// Gives a use of a context back; with the last one it goes, once the tasks that name it have ended.
    pub fn forget_context(&self, id: ContextId) {
        let mut inner = self.lock();
        let now = inner.lanes.read_clock();
        inner.let_context_go(id, now);
        inner.settle();
        self.summon_if_needed(inner);
    }
}

/// The id of a context that is known by its key, and gains a use.
pub fn find_context(core: &mut Core, contexts: &mut Contexts, key: &[u8]) -> Option<ContextId> {
    let id = contexts.find(key)?;
    if core.context_stats(id).is_none() {
        // The graph has dropped it, and it is about to go.
        contexts.release(id);
        return None;
    }
    let options = contexts.get(id).map(ContextDefinition::options)?;
    core.define_context(id, options);
    Some(id)
}

impl Inner {
    /// The id of a context, which gains a use until [`Self::let_context_go`]; `files` are those that it names, in its order.
    pub fn define_context(
        &mut self,
        definition: ContextDefinition,
        files: Vec<Arc<File>>,
    ) -> ContextId {
        let options = definition.options();
        let names = Arc::clone(&definition.files);
        let id = self.lanes.contexts.define(definition);
        self.core.define_context(id, options);
        if self.lanes.contexts.give_files(id) {
            for (&digest, file) in names.iter().zip(files) {
                self.lanes.giving.hold_file(digest, file);
            }
        }
        id
    }

    /// Takes a use of a context away.
    pub fn let_context_go(&mut self, id: ContextId, now: u64) {
        if self.lanes.contexts.release(id) {
            self.core.forget_context(id, now, &mut self.lanes);
        }
    }

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
    use gristmill_wire::Demand;

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

    #[test]
    fn a_key_leads_to_a_context_that_is_in_use_or_has_tasks() {
        let (one, other) = ([1; KEY_SIZE], [2; KEY_SIZE]);
        let setup = [&one[..], b"what it stands for"].concat();
        let mut contexts = Contexts::default();
        let first = contexts.define(definition(&setup));
        assert_eq!(contexts.find(&one), Some(first));
        assert_eq!([contexts.find(&other), contexts.find(b""), contexts.find(&setup)], [None; 3]);
        assert!(!contexts.release(first), "who has found it uses it");
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
        let mut contexts = Contexts::default();
        let told = contexts.define(with_files(b"of a peer"));
        let own = contexts.define(with_files(b"of this side"));
        assert!(contexts.give_files(own));
        assert!(!contexts.give_files(own), "they are held once");
        assert!(contexts.drop(told).is_empty());
        assert_eq!(contexts.drop(own), files);
    }
}
