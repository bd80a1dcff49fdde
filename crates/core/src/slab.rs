//! Table of records that are reused in place.

use std::ops::{Index, IndexMut};

use crate::NONE;

#[derive(Debug)]
enum Entry<T> {
    Free { next: u32 },
    Used(T),
}

/// Records by index. The index of a removed record is reused, last in, first out, so that a new record
/// takes memory that is likely still in the CPU cache.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    used: u32,
}

impl<T> Slab<T> {
    pub const fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, used: 0 }
    }

    pub fn insert(&mut self, value: T) -> u32 {
        self.used += 1;
        if self.free == NONE {
            let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 records");
            assert!(index != NONE, "a table holds fewer than 2^32 - 1 records");
            self.entries.push(Entry::Used(value));
            return index;
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        let Entry::Free { next } = *entry else { unreachable!("a used record on the free list") };
        self.free = next;
        *entry = Entry::Used(value);
        index
    }

    pub fn remove(&mut self, index: u32) -> T {
        let entry =
            std::mem::replace(&mut self.entries[index as usize], Entry::Free { next: self.free });
        self.free = index;
        self.used -= 1;
        match entry {
            Entry::Used(value) => value,
            Entry::Free { .. } => unreachable!("a record was removed twice"),
        }
    }

    pub const fn len(&self) -> u32 {
        self.used
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        match &self.entries[index as usize] {
            Entry::Used(value) => value,
            Entry::Free { .. } => unreachable!("a removed record was read"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        match &mut self.entries[index as usize] {
            Entry::Used(value) => value,
            Entry::Free { .. } => unreachable!("a removed record was written"),
        }
    }
}
