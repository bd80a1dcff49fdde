//! Definitions that an engine keeps for the next submission of an equal function, within limits.
//!
//! Each holds a use of its id in the function table. The least recently used is evicted first; workers and nodes drop
//! the function of its id as soon as no task needs it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::OnceLock;

use gristmill_wire::{FunctionId, IdHasher};

/// Maximum definitions with values that can change, such as those of bound methods. Workers keep the objects loaded
/// from them, whose size is unknown here.
const CHANGING_MAX: usize = 16;
/// Divisor of the usable memory for the share of all definitions of one engine: each of its workers may hold as much.
const MEMORY_SHARE: u64 = 1024;
/// The limits of that share, bytes.
const LEAST: u64 = 4 << 20;
const MOST: u64 = 256 << 20;
/// Approximate bytes of a definition besides its pickled form: here, and as a function with its code in each worker.
/// This also limits the number of small ones, to about 2,000 in the smallest share.
const ENTRY_SIZE: usize = 2048;

/// Returns the maximum bytes of all definitions.
fn size_max() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let share = (gristmill_machine::memory().usable / MEMORY_SHARE).clamp(LEAST, MOST);
        usize::try_from(share).unwrap_or(usize::MAX)
    })
}

struct KeptDefinition {
    size: usize,
    /// Time of the last use, counted in uses.
    used: u64,
    /// True if it holds values that can change.
    is_changing: bool,
    /// The dependencies that it needs, which are not part of its size.
    needs: Box<[FunctionId]>,
}

/// The definitions of one engine.
#[derive(Default)]
pub struct FunctionDefinitions {
    by_id: HashMap<FunctionId, KeptDefinition, BuildHasherDefault<IdHasher>>,
    /// Time of the last use of each, or an earlier one: the first entry is checked again. One heap for definitions
    /// without values that can change, one for those with.
    order: [BinaryHeap<Reverse<(u64, FunctionId)>>; 2],
    size: usize,
    changing: usize,
    uses: u64,
    /// The most recently used definition, if it is still kept: another use of it changes nothing.
    newest: Option<FunctionId>,
}

/// The result of keeping a definition.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepOutcome {
    /// It is kept, together with the use that the caller has added.
    Kept,
    /// It was kept before: the caller must release the use that it has added.
    Again,
    /// It is larger than the limit for all: the use that the caller has added ends with the submission.
    TooLarge,
}

impl FunctionDefinitions {
    /// Records a use.
    #[inline]
    pub fn touch(&mut self, id: FunctionId) {
        if self.newest != Some(id) {
            self.note_use(id);
        }
    }

    /// Makes a definition the most recently used one. Returns false if it is not kept.
    fn note_use(&mut self, id: FunctionId) -> bool {
        let Some(kept) = self.by_id.get_mut(&id) else { return false };
        self.uses += 1;
        kept.used = self.uses;
        self.newest = Some(id);
        true
    }

    /// Keeps a definition of `size` bytes.
    pub fn keep(&mut self, id: FunctionId, size: usize, is_changing: bool) -> KeepOutcome {
        if self.note_use(id) {
            return KeepOutcome::Again;
        }
        let size = ENTRY_SIZE + size;
        if size > size_max() {
            return KeepOutcome::TooLarge;
        }
        self.uses += 1;
        self.newest = Some(id);
        let kept = KeptDefinition { size, used: self.uses, is_changing, needs: Box::default() };
        self.by_id.insert(id, kept);
        self.order[usize::from(is_changing)].push(Reverse((self.uses, id)));
        self.size += size;
        self.changing += usize::from(is_changing);
        KeepOutcome::Kept
    }

    /// Removes the least recently used definition if there are too many.
    pub fn pop_excess(&mut self) -> Option<FunctionId> {
        let id = if self.changing > CHANGING_MAX {
            self.oldest(true)?.1
        } else if self.size > size_max() {
            let oldest = [self.oldest(false), self.oldest(true)];
            oldest.into_iter().flatten().min()?.1
        } else {
            return None;
        };
        let kept = self.remove(id)?;
        self.order[usize::from(kept.is_changing)].pop();
        Some(id)
    }

    /// Notes the dependencies that a definition needs, if it is kept.
    pub fn note_needs(&mut self, id: FunctionId, needs: Vec<FunctionId>) {
        if let Some(kept) = self.by_id.get_mut(&id) {
            kept.needs = needs.into();
        }
    }

    /// Removes the definitions that need a dependency, and returns their ids.
    pub fn take_needing(&mut self, dependency: FunctionId) -> Vec<FunctionId> {
        let is_needing = |(&id, kept): (&FunctionId, &KeptDefinition)| {
            kept.needs.contains(&dependency).then_some(id)
        };
        let found: Vec<FunctionId> = self.by_id.iter().filter_map(is_needing).collect();
        found.iter().for_each(|&id| drop(self.remove(id)));
        found
    }

    fn remove(&mut self, id: FunctionId) -> Option<KeptDefinition> {
        let kept = self.by_id.remove(&id)?;
        self.newest = self.newest.filter(|newest| *newest != id);
        self.size -= kept.size;
        self.changing -= usize::from(kept.is_changing);
        Some(kept)
    }

    /// Returns the least recently used of those that can change, or of the others. The cost grows with the number of
    /// definitions used since the last call, not with the number kept.
    fn oldest(&mut self, is_changing: bool) -> Option<(u64, FunctionId)> {
        let order = &mut self.order[usize::from(is_changing)];
        while let Some(&Reverse((noted, id))) = order.peek() {
            match self.by_id.get(&id).filter(|kept| kept.is_changing == is_changing) {
                Some(kept) if kept.used == noted => return Some((noted, id)),
                Some(kept) => {
                    order.pop();
                    order.push(Reverse((kept.used, id)));
                }
                None => drop(order.pop()),
            }
        }
        None
    }

    /// Removes all of them.
    pub fn take_all(&mut self) -> impl Iterator<Item = FunctionId> {
        (self.size, self.changing, self.newest) = (0, 0, None);
        self.order = Default::default();
        std::mem::take(&mut self.by_id).into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excess(definitions: &mut FunctionDefinitions) -> Vec<u32> {
        std::iter::from_fn(|| definitions.pop_excess()).map(|id| id.0).collect()
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut definitions = FunctionDefinitions::default();
        let size = size_max() / 4;
        for id in 0..3 {
            assert_eq!(definitions.keep(FunctionId(id), size, false), KeepOutcome::Kept);
        }
        assert!(excess(&mut definitions).is_empty());
        definitions.touch(FunctionId(2));
        definitions.touch(FunctionId(0));
        let _ = definitions.keep(FunctionId(3), size, false);
        assert_eq!(excess(&mut definitions), [1]);
    }

    #[test]
    fn thousands_of_small_ones_are_kept_and_leave_in_the_order_of_their_last_use() {
        let mut definitions = FunctionDefinitions::default();
        let count = u32::try_from(size_max() / (ENTRY_SIZE + 8)).unwrap();
        assert!(count > 2_000);
        for id in 0..count {
            let _ = definitions.keep(FunctionId(id), 8, false);
        }
        assert!(excess(&mut definitions).is_empty());
        (0..count).rev().for_each(|id| definitions.touch(FunctionId(id)));
        for id in count..count + 50 {
            let _ = definitions.keep(FunctionId(id), 8, false);
        }
        let gone = excess(&mut definitions);
        assert!(gone.len() >= 49, "those are too many");
        let last_first: Vec<u32> = (0..count).rev().take(gone.len()).collect();
        assert_eq!(gone, last_first);
    }

    #[test]
    fn an_id_that_stands_for_another_definition_has_the_turn_of_that() {
        let mut definitions = FunctionDefinitions::default();
        let size = size_max() / 4;
        let _ = definitions.keep(FunctionId(0), size, false);
        let _ = definitions.take_all().count();
        for id in [1, 0, 2, 3] {
            let _ = definitions.keep(FunctionId(id), size, false);
        }
        assert_eq!(excess(&mut definitions), [1]);
    }

    #[test]
    fn those_that_need_a_dependency_go_with_it() {
        let mut definitions = FunctionDefinitions::default();
        let (library, other) = (FunctionId(7), FunctionId(8));
        for (id, needs) in [(0, &[library][..]), (1, &[other]), (2, &[other, library]), (3, &[])] {
            let _ = definitions.keep(FunctionId(id), 8, false);
            definitions.note_needs(FunctionId(id), needs.to_vec());
        }
        let mut gone = definitions.take_needing(library);
        gone.sort_unstable_by_key(|id| id.0);
        assert_eq!(gone, [FunctionId(0), FunctionId(2)]);
        assert_eq!(definitions.keep(FunctionId(1), 8, false), KeepOutcome::Again);
        assert_eq!(definitions.keep(FunctionId(0), 8, false), KeepOutcome::Kept);
        let size = size_max() - 4 * ENTRY_SIZE;
        let _ = definitions.keep(FunctionId(4), size, false);
        assert_eq!(excess(&mut definitions), [3], "in the order of their last use");
    }

    #[test]
    fn what_is_larger_than_the_bound_is_not_kept() {
        let mut definitions = FunctionDefinitions::default();
        assert_eq!(definitions.keep(FunctionId(0), size_max(), false), KeepOutcome::TooLarge);
        assert_eq!(definitions.keep(FunctionId(1), 8, false), KeepOutcome::Kept);
        assert_eq!(definitions.keep(FunctionId(1), 8, false), KeepOutcome::Again);
        assert!(excess(&mut definitions).is_empty());
    }

    #[test]
    fn few_that_can_change_are_kept_beside_many_that_cannot() {
        let mut definitions = FunctionDefinitions::default();
        for id in 0..100 {
            let _ = definitions.keep(FunctionId(id), 8, id % 2 == 0);
        }
        let gone = excess(&mut definitions);
        assert_eq!(gone.len(), 50 - CHANGING_MAX);
        assert!(gone.iter().all(|id| id % 2 == 0) && gone.is_sorted());
        let mut all: Vec<_> = definitions.take_all().collect();
        all.sort_unstable_by_key(|id| id.0);
        assert_eq!(all.len(), 50 + CHANGING_MAX);
    }
}
