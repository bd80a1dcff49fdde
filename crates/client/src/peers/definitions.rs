//! What the function ids of the other end of a link stand for here.
//!
//! Its ids may have gaps, since it tells of a function only where it sends a task of it; so nothing here is as large as an
//! id. What all definitions of one peer may take is bounded: they are kept until the peer uses their ids again.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use gristmill_wire::{FunctionId, IdHasher};

/// What the definitions of one peer may take, bytes: a thousand functions that hold a megabyte each, or a million fresh
/// ones.
pub const DEFINITIONS_MAX: usize = 1 << 30;
/// What a definition takes besides its bytes and its name, about.
const ENTRY_SIZE: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Known {
    ours: FunctionId,
    size: usize,
}

/// The functions of a peer.
#[derive(Debug, Default)]
pub struct Definitions {
    by_theirs: HashMap<FunctionId, Known, BuildHasherDefault<IdHasher>>,
    size: usize,
}

impl Definitions {
    /// What one of its ids stands for.
    #[inline]
    #[must_use]
    pub fn get(&self, theirs: FunctionId) -> Option<FunctionId> {
        self.by_theirs.get(&theirs).map(|known| known.ours)
    }

    /// Whether a definition of so many bytes may be kept in the place of that id; else what all would take then.
    pub(super) fn check(&self, theirs: FunctionId, size: usize) -> Result<(), usize> {
        let before = self.by_theirs.get(&theirs).map_or(0, |known| known.size);
        let size = (self.size - before).saturating_add(ENTRY_SIZE + size);
        if size > DEFINITIONS_MAX { Err(size) } else { Ok(()) }
    }

    /// Has an id stand for a function whose definition has so many bytes; gives what it stood for.
    pub(super) fn insert(
        &mut self,
        theirs: FunctionId,
        ours: FunctionId,
        size: usize,
    ) -> Option<FunctionId> {
        let size = ENTRY_SIZE + size;
        let before = self.by_theirs.insert(theirs, Known { ours, size });
        self.size += size;
        self.size -= before.map_or(0, |known| known.size);
        before.map(|known| known.ours)
    }

    /// All functions here that they stand for.
    pub fn ours(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.by_theirs.values().map(|known| known.ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: FunctionId = FunctionId(3);

    #[test]
    fn an_id_may_be_any_number_and_costs_one_entry() {
        let mut definitions = Definitions::default();
        let theirs = FunctionId(u32::MAX);
        assert_eq!(definitions.insert(theirs, OURS, 1), None);
        assert_eq!(definitions.get(theirs), Some(OURS));
        assert!(definitions.by_theirs.capacity() < 16);
    }

    #[test]
    fn what_replaces_another_definition_counts_in_its_place() {
        let mut definitions = Definitions::default();
        let (one, other) = (FunctionId(0), FunctionId(1));
        let half = DEFINITIONS_MAX / 2;
        definitions.insert(one, OURS, half);
        assert_eq!(definitions.check(one, half), Ok(()));
        assert_eq!(definitions.insert(one, FunctionId(4), half), Some(OURS));
        let all = 2 * (half + ENTRY_SIZE);
        assert_eq!(definitions.check(other, half), Err(all), "more than may be kept");
        assert_eq!(definitions.check(other, half - 2 * ENTRY_SIZE), Ok(()));
    }
}
