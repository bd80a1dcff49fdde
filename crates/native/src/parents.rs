//! Which tasks the futures among the arguments of one call are, each once and in the order they were met.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};

use gristmill_wire::IdHasher;

/// Keys with their places. Most calls have a few, which need neither a hash nor an allocation of their own.
#[derive(Debug)]
pub struct ParentPlaces<K> {
    keys: Vec<K>,
    /// Where those behind the first few are.
    places: HashMap<K, u16, BuildHasherDefault<IdHasher>>,
}

/// So many are searched one by one.
const FEW: usize = 16;

impl<K: Copy + Eq + Hash> ParentPlaces<K> {
    /// None yet.
    #[inline]
    pub fn new() -> Self {
        Self { keys: Vec::new(), places: HashMap::default() }
    }

    /// The keys, each at its place.
    #[inline]
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The keys alone.
    pub fn into_keys(self) -> Vec<K> {
        self.keys
    }

    /// The place of `key`, a new one if it was not met before; `None` when a frame could not count so many.
    #[inline]
    pub fn place(&mut self, key: K) -> Option<u16> {
        let few = &self.keys[..self.keys.len().min(FEW)];
        if let Some(place) = few.iter().position(|&known| known == key) {
            return u16::try_from(place).ok();
        }
        let next = u16::try_from(self.keys.len()).ok().filter(|&next| next < u16::MAX)?;
        if self.keys.len() >= FEW {
            let place = *self.places.entry(key).or_insert(next);
            if place != next {
                return Some(place);
            }
        }
        self.keys.push(key);
        Some(next)
    }
}
