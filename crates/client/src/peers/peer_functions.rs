//! Functions here that the function ids of another process stand for: of the other end of a link, or of a worker.
//!
//! The ids may have gaps, because the other process defines a function only before it sends a task of it. No table here is
//! therefore as large as an id. The size of all definitions of one process is limited: they are kept until the process says
//! that no task names them any more, or uses their ids again.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use gristmill_wire::{FunctionId, IdHasher};

use super::refusals::Refusals;

/// Maximum size of the definitions of one peer, bytes: a thousand functions that hold a megabyte each, or a million fresh ones.
pub const DEFINITIONS_MAX: usize = 1 << 30;
/// Approximate cost of a definition besides its bytes and its name.
pub(crate) const ENTRY_SIZE: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Known {
    ours: FunctionId,
    size: usize,
}

/// The functions of one process.
#[derive(Debug, Default)]
pub struct PeerFunctions {
    by_theirs: HashMap<FunctionId, Known, BuildHasherDefault<IdHasher>>,
    size: usize,
    refused: Refusals<FunctionId>,
}

impl PeerFunctions {
    /// Returns the function here that one of the process's ids stands for.
    #[inline]
    #[must_use]
    pub fn get(&self, theirs: FunctionId) -> Option<FunctionId> {
        self.by_theirs.get(&theirs).map(|known| known.ours)
    }

    /// Checks that a definition of `size` bytes may be kept for an id, if all may take `limit` bytes.
    ///
    /// # Errors
    /// Returns the bytes that all definitions would take with it if they are too many.
    pub fn check(&self, theirs: FunctionId, size: usize, limit: usize) -> Result<(), usize> {
        let before = self.by_theirs.get(&theirs).map_or(0, |known| known.size);
        let size = (self.size - before).saturating_add(ENTRY_SIZE + size);
        if size > limit { Err(size) } else { Ok(()) }
    }

    /// Returns the number of definitions, and their size together in bytes.
    #[must_use]
    pub fn audit(&self) -> (usize, usize) {
        let sizes = self.by_theirs.values().map(|known| known.size);
        assert_eq!(sizes.sum::<usize>(), self.size, "the size of definitions is counted");
        (self.by_theirs.len(), self.size)
    }

    /// Makes an id stand for a function whose definition has `size` bytes; returns the function that it stood for before.
    pub fn insert(
        &mut self,
        theirs: FunctionId,
        ours: FunctionId,
        size: usize,
    ) -> Option<FunctionId> {
        self.refused.remove(theirs);
        let size = ENTRY_SIZE + size;
        let before = self.by_theirs.insert(theirs, Known { ours, size });
        self.size += size;
        self.size -= before.map_or(0, |known| known.size);
        before.map(|known| known.ours)
    }

    /// Removes an id; returns the function that it stood for.
    pub fn remove(&mut self, theirs: FunctionId) -> Option<FunctionId> {
        self.refused.remove(theirs);
        let known = self.by_theirs.remove(&theirs)?;
        self.size -= known.size;
        Some(known.ours)
    }

    /// Makes an id stand for no function, for a reason; returns the function that it stood for.
    pub fn refuse(&mut self, theirs: FunctionId, reason: Arc<str>) -> Option<FunctionId> {
        let before = self.remove(theirs);
        self.refused.insert(theirs, reason);
        before
    }

    /// Returns why an id stands for no function, if one was refused.
    #[must_use]
    pub fn refusal(&self, theirs: FunctionId) -> Option<Arc<str>> {
        self.refused.reason(theirs).cloned()
    }

    /// Returns why a function is refused that needs what is not here: what it needs was refused.
    #[must_use]
    pub fn refusal_of_need(&self) -> Option<Arc<str>> {
        self.refused.latest().cloned()
    }

    /// Returns all functions here that the process's ids stand for.
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
        let mut definitions = PeerFunctions::default();
        let theirs = FunctionId(u32::MAX);
        assert_eq!(definitions.insert(theirs, OURS, 1), None);
        assert_eq!(definitions.get(theirs), Some(OURS));
        assert!(definitions.by_theirs.capacity() < 16);
    }

    #[test]
    fn what_is_forgotten_takes_nothing() {
        let mut definitions = PeerFunctions::default();
        let id = FunctionId(7);
        definitions.insert(id, OURS, DEFINITIONS_MAX / 2);
        assert_eq!(definitions.remove(id), Some(OURS));
        assert_eq!(
            (definitions.get(id), definitions.remove(id), definitions.size),
            (None, None, 0)
        );
    }

    #[test]
    fn what_replaces_another_definition_counts_in_its_place() {
        let mut definitions = PeerFunctions::default();
        let (one, other) = (FunctionId(0), FunctionId(1));
        let half = DEFINITIONS_MAX / 2;
        definitions.insert(one, OURS, half);
        assert_eq!(definitions.check(one, half, DEFINITIONS_MAX), Ok(()));
        assert_eq!(definitions.insert(one, FunctionId(4), half), Some(OURS));
        let all = 2 * (half + ENTRY_SIZE);
        let check = |size| definitions.check(other, size, DEFINITIONS_MAX);
        assert_eq!(check(half), Err(all), "more than may be kept");
        assert_eq!(check(half - 2 * ENTRY_SIZE), Ok(()));
    }
}
