//! The function table: what each function id stands for, and which workers have been told.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_wire::{FunctionId, SlotId};

/// Functions by id. A function lives while a cache above or an outstanding task uses it; then its id is used again, and
/// every worker is told anew: an id without users has no task in any ring, so no worker can confuse the two.
#[derive(Debug, Default)]
pub struct Functions {
    entries: Vec<Entry>,
    free: Vec<FunctionId>,
    by_content: HashMap<Arc<[u8]>, FunctionId>,
}

#[derive(Debug)]
struct Entry {
    definition: Arc<[u8]>,
    name: Box<str>,
    uses: u32,
    /// A bit a slot: the worker there was told. One word reaches 64 slots, more words come as needed.
    told: Vec<u64>,
}

impl Functions {
    /// The id of a definition, which gains a use; the same bytes have the same id while it is in use.
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
            told: Vec::new(),
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

    /// Adds a use: one more task is outstanding.
    pub fn use_again(&mut self, id: FunctionId) {
        self.entries[id.0 as usize].uses += 1;
    }

    /// Takes a use away; true when it was the last.
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
        entry.told.clear();
        self.free.push(id);
    }

    /// What a function is called, for messages.
    pub fn name(&self, id: FunctionId) -> &str {
        self.entries.get(id.0 as usize).map_or("?", |entry| &entry.name)
    }

    /// Whether the worker in `slot` knows the function.
    pub fn is_told(&self, id: FunctionId, slot: SlotId) -> bool {
        let (word, bit) = place(slot);
        self.entries[id.0 as usize].told.get(word).is_some_and(|told| told & bit != 0)
    }

    /// The bytes to tell a worker.
    pub fn definition(&self, id: FunctionId) -> Arc<[u8]> {
        Arc::clone(&self.entries[id.0 as usize].definition)
    }

    /// Notes that the worker in `slot` was told.
    pub fn told(&mut self, id: FunctionId, slot: SlotId) {
        let (word, bit) = place(slot);
        let told = &mut self.entries[id.0 as usize].told;
        if told.len() <= word {
            told.resize(word + 1, 0);
        }
        told[word] |= bit;
    }

    /// Notes that a new process sits in `slot`, which knows nothing.
    pub fn forget_slot(&mut self, slot: SlotId) {
        let (word, bit) = place(slot);
        for entry in &mut self.entries {
            if let Some(told) = entry.told.get_mut(word) {
                *told &= !bit;
            }
        }
    }

    /// How many ids are in use.
    #[must_use]
    pub fn used_count(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

const fn place(slot: SlotId) -> (usize, u64) {
    (slot.0 as usize / 64, 1 << (slot.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_users_gives_its_id_back_and_workers_are_told_anew() {
        let mut functions = Functions::default();
        let first = functions.define(b"one", "one");
        functions.told(first, SlotId(70));
        assert!(functions.is_told(first, SlotId(70)) && !functions.is_told(first, SlotId(6)));
        assert_eq!(functions.define(b"one", "one"), first);
        functions.release(first);
        functions.use_again(first);
        functions.release(first);
        functions.release(first);
        assert_eq!(functions.used_count(), 0);
        let second = functions.define(b"two", "two");
        assert_eq!(second, first, "the id is used again");
        assert!(!functions.is_told(second, SlotId(70)));
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
