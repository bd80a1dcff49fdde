//! The function table: the definition behind each function id, and the workers that know it.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_wire::{FunctionId, SlotId};

/// Functions by id. A function lives while a cache above or an outstanding task uses it. Then its id is used for another
/// function, and every worker is told of that one. An id without users has no task in any ring, so no worker confuses the two.
#[derive(Debug, Default)]
pub struct Functions {
    entries: Vec<Entry>,
    free: Vec<FunctionId>,
    by_content: HashMap<Arc<[u8]>, FunctionId>,
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
}

impl Functions {
    /// Returns the id of a definition and adds a use. Equal bytes have the same id while it is in use.
    pub fn define(&mut self, definition: &[u8], name: &str) -> FunctionId {
        if let Some(&id) = self.by_content.get(definition) {
            self.use_again(id);
            return id;
        }
        let definition: Arc<[u8]> = definition.into();
        let entry = Entry {
            definition: Arc::clone(&definition),
            name: name.into(),
            uses: 1,
            known_to: Vec::new(),
        };
        let id = if let Some(id) = self.free.pop() {
            self.entries[id.0 as usize] = entry;
            id
        } else {
            let id = FunctionId(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
            self.entries.push(entry);
            id
        };
        self.by_content.insert(definition, id);
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
        self.by_content.remove(&entry.definition);
        entry.definition = Arc::from([].as_slice());
        let known_to = std::mem::take(&mut entry.known_to);
        self.free.push(id);
        if known_to.iter().any(|&word| word != 0) {
            self.departed.push((id, known_to));
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
