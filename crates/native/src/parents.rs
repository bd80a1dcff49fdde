//! The tasks of the futures among one call's arguments, each once and in the order of the arguments.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};

use gristmill_wire::IdHasher;

/// Keys with their indices. Most calls have a few, which need neither a hash nor an allocation of their own.
#[derive(Debug)]
pub struct ParentIndices<K> {
    keys: Vec<K>,
    /// Indices of the keys behind the first few.
    indices: HashMap<K, u32, BuildHasherDefault<IdHasher>>,
}

/// Number of keys that are searched linearly.
const FEW: usize = 16;

impl<K: Copy + Eq + Hash> ParentIndices<K> {
    /// Creates an empty list.
    #[inline]
    pub fn new() -> Self {
        Self { keys: Vec::new(), indices: HashMap::default() }
    }

    /// Returns the keys, each at its index.
    #[inline]
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Returns the keys alone.
    pub fn into_keys(self) -> Vec<K> {
        self.keys
    }

    /// Returns the index of `key`, and adds it if it is new; `None` if there are too many for an index. The engine that
    /// accepts the task limits the number of its parents.
    #[inline]
    pub fn index_of(&mut self, key: K) -> Option<u32> {
        let few = &self.keys[..self.keys.len().min(FEW)];
        if let Some(index) = few.iter().position(|&known| known == key) {
            return u32::try_from(index).ok();
        }
        let next = u32::try_from(self.keys.len()).ok()?;
        if self.keys.len() >= FEW {
            let index = *self.indices.entry(key).or_insert(next);
            if index != next {
                return Some(index);
            }
        }
        self.keys.push(key);
        Some(next)
    }
}
