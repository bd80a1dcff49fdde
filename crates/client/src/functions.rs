//! The function table: the definition behind each function id, and the workers that know it.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_shm::{BlockPart, WeakBlock};
use gristmill_store::digest_of_bytes;
use gristmill_wire::{DefinitionHead, Digest, FunctionId, SlotId, short_name};

/// Functions by id. A function lives while a cache above or an outstanding task uses it. Then its id is used for another
/// function, and every worker is told of that one. An id without users has no task in any ring, so no worker confuses the two.
///
/// What several functions need, such as the bytes of a library, is an entry of its own: a dependency, which a function names by
/// digest and uses as long as it lives itself.
#[derive(Debug, Default)]
pub struct Functions {
    entries: Vec<Entry>,
    free: Vec<FunctionId>,
    by_content: HashMap<Arc<[u8]>, FunctionId>,
    /// The dependencies among the entries. Their bytes have these digests.
    by_digest: HashMap<Digest, FunctionId>,
    /// Ids that lost their last user, each with the bits of the workers that know it.
    departed: Vec<(FunctionId, Vec<u64>)>,
}

#[derive(Debug)]
struct Entry {
    definition: Arc<[u8]>,
    name: Box<str>,
    uses: u32,
    /// The workers that were told, one bit a slot. One word covers 64 slots; more words are added as needed.
    known_to: Vec<u64>,
    /// The dependencies that it uses, in the order in which a worker must be told of them.
    needs: Box<[FunctionId]>,
    /// The block with the definition that workers were told last, while one of them may still read it.
    block: Option<WeakBlock>,
}

impl Functions {
    /// Returns the id of a definition and adds a use. Equal bytes have the same id while it is in use. A function must be defined
    /// after what it needs: a dependency that is missing stays unknown to its workers. A dependency whose bytes do not have its
    /// digest gets an empty definition, which no worker can load.
    ///
    /// Of a long name only the beginning is kept: a failed task has a copy of it for as long as the task's future lives.
    pub fn define(&mut self, definition: &[u8], name: &str) -> FunctionId {
        self.define_checked(&CheckedDefinition::of(definition), name)
    }

    /// Works as [`Self::define`] for a definition whose digest was checked before.
    pub fn define_checked(&mut self, checked: &CheckedDefinition<'_>, name: &str) -> FunctionId {
        let CheckedDefinition { definition, digest } = *checked;
        let known = match &digest {
            Some(digest) => self.by_digest.get(digest),
            None => self.by_content.get(definition),
        };
        if let Some(&id) = known {
            self.use_again(id);
            return id;
        }
        let digests = DefinitionHead::read(definition).needs();
        let needs: Vec<_> = digests.map(|digest| self.by_digest.get(&digest).copied()).collect();
        let is_complete = needs.iter().all(Option::is_some);
        let needs: Box<[_]> = needs.into_iter().flatten().collect();
        needs.iter().for_each(|&id| self.use_again(id));
        let definition: Arc<[u8]> = definition.into();
        let id = self.add(Entry {
            definition: Arc::clone(&definition),
            name: short_name(name).into(),
            uses: 1,
            known_to: Vec::new(),
            needs,
            block: None,
        });
        if let Some(digest) = digest {
            self.by_digest.insert(digest, id);
        } else if is_complete {
            // Otherwise the same bytes stand for another function once all that it needs is there.
            self.by_content.insert(definition, id);
        }
        id
    }

    /// Returns true if everything that a definition needs is here.
    pub fn has_needs(&self, definition: &[u8]) -> bool {
        DefinitionHead::read(definition).needs().all(|digest| self.by_digest.contains_key(&digest))
    }

    fn add(&mut self, entry: Entry) -> FunctionId {
        if let Some(id) = self.free.pop() {
            self.entries[id.0 as usize] = entry;
            return id;
        }
        let id = FunctionId(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        self.entries.push(entry);
        id
    }

    /// Adds a use, as when one more task is outstanding.
    pub fn use_again(&mut self, id: FunctionId) {
        self.entries[id.0 as usize].uses += 1;
    }

    /// Removes a use; returns true if it was the last.
    #[inline]
    pub fn release(&mut self, id: FunctionId) -> bool {
        let entry = &mut self.entries[id.0 as usize];
        entry.uses -= 1;
        if entry.uses == 0 {
            self.retire(id);
            return true;
        }
        false
    }

    #[cold]
    fn retire(&mut self, id: FunctionId) {
        let entry = &mut self.entries[id.0 as usize];
        if let DefinitionHead::Dependency { digest, .. } = DefinitionHead::read(&entry.definition) {
            // Its bytes are not hashed again: they may be many.
            if self.by_digest.get(&digest) == Some(&id) {
                self.by_digest.remove(&digest);
            }
        } else if self.by_content.get(&entry.definition) == Some(&id) {
            self.by_content.remove(&entry.definition);
        }
        entry.definition = Arc::from([].as_slice());
        let known_to = std::mem::take(&mut entry.known_to);
        let needs = std::mem::take(&mut entry.needs);
        self.free.push(id);
        if known_to.iter().any(|&word| word != 0) {
            self.departed.push((id, known_to));
        }
        // A dependency needs nothing itself.
        for dependency in needs {
            self.release(dependency);
        }
    }

    /// Takes out the ids that lost their last user, each with the slots that know it: they need not keep its function any more.
    pub fn take_departed(&mut self) -> Vec<(FunctionId, Vec<SlotId>)> {
        let departed = std::mem::take(&mut self.departed);
        departed.into_iter().map(|(id, known_to)| (id, places(&known_to).collect())).collect()
    }

    /// Returns true if an id lost its last user and the slots that were told of it do not know that yet.
    pub fn has_departed(&self) -> bool {
        !self.departed.is_empty()
    }

    /// Returns the name of a function, for messages.
    pub fn name(&self, id: FunctionId) -> &str {
        self.entries.get(id.0 as usize).map_or("?", |entry| &entry.name)
    }

    /// Returns true if the worker in `slot` knows the function.
    pub fn is_known(&self, id: FunctionId, slot: SlotId) -> bool {
        let (word, bit) = place(slot);
        self.entries[id.0 as usize].known_to.get(word).is_some_and(|known_to| known_to & bit != 0)
    }

    /// Returns the definition that a worker has to be told.
    pub fn definition(&self, id: FunctionId) -> Arc<[u8]> {
        Arc::clone(&self.entries[id.0 as usize].definition)
    }

    /// Returns the dependencies of a function that the worker in `slot` must be told of first, in order.
    pub fn unknown_needs(&self, id: FunctionId, slot: SlotId) -> Vec<FunctionId> {
        let needs = self.entries[id.0 as usize].needs.iter().copied();
        needs.filter(|&dependency| !self.is_known(dependency, slot)).collect()
    }

    /// Returns the block with the definition, if a worker that was told of it may still read it.
    pub(crate) fn block(&self, id: FunctionId) -> Option<BlockPart> {
        self.entries[id.0 as usize].block.as_ref()?.upgrade()
    }

    /// Notes the block with the definition, which a worker is told now.
    pub(crate) fn note_block(&mut self, id: FunctionId, block: &BlockPart) {
        self.entries[id.0 as usize].block = Some(block.downgrade());
    }

    /// Records that the worker in `slot` was told of the function.
    pub fn record_known(&mut self, id: FunctionId, slot: SlotId) {
        let (word, bit) = place(slot);
        let known_to = &mut self.entries[id.0 as usize].known_to;
        if known_to.len() <= word {
            known_to.resize(word + 1, 0);
        }
        known_to[word] |= bit;
    }

    /// Records that a new process is in `slot`, which knows no function.
    pub fn forget_slot(&mut self, slot: SlotId) {
        let (word, bit) = place(slot);
        let departed = self.departed.iter_mut().map(|(_, known_to)| known_to);
        for known_to in self.entries.iter_mut().map(|entry| &mut entry.known_to).chain(departed) {
            if let Some(known_to) = known_to.get_mut(word) {
                *known_to &= !bit;
            }
        }
    }

    /// Returns the number of ids in use.
    #[must_use]
    pub fn used_count(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

/// A definition, with its digest if it is a dependency.
#[derive(Debug, Clone, Copy)]
pub struct CheckedDefinition<'a> {
    /// Empty if the bytes are a dependency's and do not have its digest.
    definition: &'a [u8],
    digest: Option<Digest>,
}

impl<'a> CheckedDefinition<'a> {
    /// Hashes a dependency, which may take long: callers that can do that before they take a lock.
    pub fn of(definition: &'a [u8]) -> Self {
        match DefinitionHead::read(definition) {
            DefinitionHead::Dependency { digest, content } => {
                let is_right = digest_of_bytes(content) == digest;
                let definition = if is_right { definition } else { &[] };
                Self { definition, digest: is_right.then_some(digest) }
            }
            DefinitionHead::Needing(_) | DefinitionHead::Plain => Self { definition, digest: None },
        }
    }
}

const fn place(slot: SlotId) -> (usize, u64) {
    (slot.0 as usize / 64, 1 << (slot.0 % 64))
}

/// Returns the slots whose bits are set.
fn places(known_to: &[u64]) -> impl Iterator<Item = SlotId> + '_ {
    let bits = |(index, &word): (usize, &u64)| {
        (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| index * 64 + bit)
    };
    known_to
        .iter()
        .enumerate()
        .flat_map(bits)
        .filter_map(|place| u16::try_from(place).ok())
        .map(SlotId)
}

#[cfg(test)]
mod tests {
    use gristmill_wire::NAME_SIZE_MAX;

    use super::*;

    #[test]
    fn a_function_without_users_gives_its_id_back_and_workers_are_told_anew() {
        let mut functions = Functions::default();
        let first = functions.define(b"one", "one");
        functions.record_known(first, SlotId(70));
        assert!(functions.is_known(first, SlotId(70)) && !functions.is_known(first, SlotId(6)));
        assert_eq!(functions.define(b"one", "one"), first);
        functions.release(first);
        functions.use_again(first);
        functions.release(first);
        functions.release(first);
        assert_eq!(functions.used_count(), 0);
        let second = functions.define(b"two", "two");
        assert_eq!(second, first, "the id is used again");
        assert!(!functions.is_known(second, SlotId(70)));
    }

    #[test]
    fn of_a_long_name_only_the_beginning_is_kept() {
        let mut functions = Functions::default();
        let id = functions.define(b"one", &"y".repeat(1 << 20));
        assert_eq!(functions.name(id), "y".repeat(NAME_SIZE_MAX));
    }

    #[test]
    fn those_that_were_told_of_a_function_without_users_are_named_once() {
        let mut functions = Functions::default();
        let id = functions.define(b"one", "one");
        [3, 70, 71].into_iter().for_each(|slot| functions.record_known(id, SlotId(slot)));
        functions.release(id);
        functions.forget_slot(SlotId(70));
        assert!(functions.has_departed());
        assert_eq!(functions.take_departed(), [(id, vec![SlotId(3), SlotId(71)])]);
        assert!(!functions.has_departed() && functions.take_departed().is_empty());
    }

    fn dependency(content: &[u8]) -> (Vec<u8>, [u8; 32]) {
        let digest = digest_of_bytes(content).0;
        ([&b"L"[..], &digest, content].concat(), digest)
    }

    fn needing(digests: &[[u8; 32]], rest: &[u8]) -> Vec<u8> {
        let count = u16::try_from(digests.len()).unwrap().to_le_bytes();
        [&b"D"[..], &count, &digests.concat(), rest].concat()
    }

    #[test]
    fn a_dependency_is_told_once_for_all_functions_that_need_it_and_lives_as_long_as_they() {
        let mut functions = Functions::default();
        let (bytes, digest) = dependency(b"library");
        let library = functions.define(&bytes, "library");
        let [one, two] = [b"one", b"two"].map(|rest| {
            let definition = needing(&[digest], rest);
            functions.define(&definition, "f")
        });
        let worker = SlotId(1);
        assert_eq!(functions.unknown_needs(one, worker), [library]);
        functions.record_known(library, worker);
        assert!(functions.unknown_needs(two, worker).is_empty());
        assert_eq!(functions.unknown_needs(two, SlotId(2)), [library], "another worker");
        functions.forget_slot(worker);
        assert_eq!(functions.unknown_needs(two, worker), [library], "a new process");
        functions.record_known(library, worker);

        assert!(!functions.release(library), "the functions use it");
        functions.release(one);
        assert!(!functions.has_departed());
        functions.release(two);
        assert_eq!(functions.take_departed(), [(library, vec![worker])]);
        assert_eq!(functions.used_count(), 0);
        assert!(functions.by_digest.is_empty() && functions.by_content.is_empty());
    }

    #[test]
    fn a_function_defined_before_what_it_needs_does_not_stand_for_a_later_one() {
        let mut functions = Functions::default();
        let (bytes, digest) = dependency(b"library");
        let definition = needing(&[digest], b"f");
        let early = functions.define(&definition, "f");
        let library = functions.define(&bytes, "library");
        let late = functions.define(&definition, "f");
        assert_ne!(early, late);
        assert!(functions.unknown_needs(early, SlotId(0)).is_empty());
        assert_eq!(functions.unknown_needs(late, SlotId(0)), [library]);
        functions.release(early);
        assert_eq!(functions.define(&definition, "f"), late);
    }

    #[test]
    fn bytes_with_the_digest_of_others_are_no_dependency() {
        let mut functions = Functions::default();
        let (right, digest) = dependency(b"library");
        let (mut wrong, _) = dependency(b"harmful");
        wrong[1..33].copy_from_slice(&digest);
        let other = functions.define(&wrong, "other");
        let library = functions.define(&right, "library");
        assert_ne!(other, library);
        assert!(functions.definition(other).is_empty(), "a worker would take it for the right one");
        let function = functions.define(&needing(&[digest], b"f"), "f");
        assert_eq!(functions.unknown_needs(function, SlotId(0)), [library]);
        functions.release(other);
        assert_eq!(functions.define(&right, "library"), library);
    }

    #[test]
    fn a_million_fresh_functions_need_one_id() {
        let mut functions = Functions::default();
        for number in 0..1_000_000u32 {
            let id = functions.define(&number.to_le_bytes(), "f");
            functions.release(id);
        }
        assert_eq!(functions.entries.len(), 1);
    }
}
