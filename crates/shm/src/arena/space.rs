//! The allocator of a region. It works on offsets alone and touches no memory.
//!
//! Sizes are rounded to eight classes per power of two, so that a new block fits into the space of a similar one. Free
//! neighbours are joined. *Warm* free space has its pages and is taken first; *cold* space costs first touches.

use std::collections::{BTreeMap, BTreeSet};

/// The unit of blocks, bytes.
pub const PAGE_SIZE: u64 = 4096;

/// A block that was just allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocatedBlock {
    /// Offset of the block, bytes from the start of the arena.
    pub offset: u64,
    /// Size of the block, bytes, rounded up to its class.
    pub size: u64,
    /// True if its pages exist.
    pub is_warm: bool,
}

/// The allocator of one region.
#[derive(Debug)]
pub struct RegionAllocator {
    /// Free extents by offset: the size, and true if the extent is warm.
    free: BTreeMap<u64, (u64, bool)>,
    /// The same extents by size: cold ones first, then warm ones.
    by_size: [BTreeSet<(u64, u64)>; 2],
    used: BTreeMap<u64, u64>,
    warm_size: u64,
    used_size: u64,
}

/// Returns the size of the block that holds `size` bytes, or `None` if it overflows.
#[must_use]
pub fn block_size(size: u64) -> Option<u64> {
    let size = size.max(1).checked_next_multiple_of(PAGE_SIZE)?;
    let step = (1u64 << size.ilog2()) / 8;
    size.checked_next_multiple_of(step.max(PAGE_SIZE))
}

impl RegionAllocator {
    /// Creates an allocator in which all of `start..end` is free and cold. Both are multiples of a page.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        let mut space = Self {
            free: BTreeMap::new(),
            by_size: [BTreeSet::new(), BTreeSet::new()],
            used: BTreeMap::new(),
            warm_size: 0,
            used_size: 0,
        };
        if start < end {
            space.insert(start, end - start, false);
        }
        space
    }

    /// Allocates a block of at least `size` bytes from the smallest warm extent that fits, else from the smallest cold
    /// one.
    pub fn take(&mut self, size: u64) -> Option<AllocatedBlock> {
        let size = block_size(size)?;
        let find = |extents: &BTreeSet<(u64, u64)>| extents.range((size, 0)..).next().copied();
        let (is_warm, (extent, offset)) = match find(&self.by_size[1]) {
            Some(found) => (true, found),
            None => (false, find(&self.by_size[0])?),
        };
        self.remove(offset);
        if extent > size {
            self.insert(offset + size, extent - size, is_warm);
        }
        self.used.insert(offset, size);
        self.used_size += size;
        Some(AllocatedBlock { offset, size, is_warm })
    }

    /// Frees a block, which stays warm. Returns its size, or `None` if no block begins at `offset`.
    pub fn give_back(&mut self, offset: u64) -> Option<u64> {
        let size = self.used.remove(&offset)?;
        self.used_size -= size;
        self.join(offset, size, true);
        Some(size)
    }

    /// Frees a block whose pages do not exist or are about to be released. Returns its size, or `None` if no block
    /// begins at `offset`.
    pub fn give_back_cold(&mut self, offset: u64) -> Option<u64> {
        let size = self.used.remove(&offset)?;
        self.used_size -= size;
        self.join(offset, size, false);
        Some(size)
    }

    /// Makes warm extents cold, the largest first, until at most `limit` bytes are warm. Returns them as (offset,
    /// size); the caller frees their pages.
    pub fn cool(&mut self, limit: u64) -> Vec<(u64, u64)> {
        let mut cooled = Vec::new();
        while self.warm_size > limit
            && let Some(&(size, offset)) = self.by_size[1].last()
        {
            self.remove(offset);
            self.join(offset, size, false);
            cooled.push((offset, size));
        }
        cooled
    }

    /// Returns the bytes that are free and warm.
    #[must_use]
    pub const fn warm_size(&self) -> u64 {
        self.warm_size
    }

    /// Returns the bytes in use.
    #[must_use]
    pub const fn used_size(&self) -> u64 {
        self.used_size
    }

    /// Adds a free extent, joined with neighbours of the same warmth.
    fn join(&mut self, mut offset: u64, mut size: u64, is_warm: bool) {
        if let Some((&before, &(length, warm))) = self.free.range(..offset).next_back()
            && before + length == offset
            && warm == is_warm
        {
            self.remove(before);
            (offset, size) = (before, size + length);
        }
        if let Some(&(length, warm)) = self.free.get(&(offset + size))
            && warm == is_warm
        {
            self.remove(offset + size);
            size += length;
        }
        self.insert(offset, size, is_warm);
    }

    fn insert(&mut self, offset: u64, size: u64, is_warm: bool) {
        self.free.insert(offset, (size, is_warm));
        self.by_size[usize::from(is_warm)].insert((size, offset));
        self.warm_size += if is_warm { size } else { 0 };
    }

    fn remove(&mut self, offset: u64) {
        if let Some((size, is_warm)) = self.free.remove(&offset) {
            self.by_size[usize::from(is_warm)].remove(&(size, offset));
            self.warm_size -= if is_warm { size } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: u64 = 1 << 30;

    #[test]
    fn a_freed_block_is_used_again_warm() {
        let mut space = RegionAllocator::new(PAGE_SIZE, END);
        let first = space.take(10_000_000).expect("there is room");
        assert!(!first.is_warm && first.size >= 10_000_000 && first.size < 11_250_000);
        space.give_back(first.offset).expect("it was taken");
        let second = space.take(9_900_000).expect("there is room");
        assert!(second.is_warm && second.offset == first.offset);
    }

    #[test]
    fn cooled_space_is_joined_and_can_be_taken_whole() {
        let mut space = RegionAllocator::new(0, END);
        let blocks: Vec<_> = (0..8).map(|_| space.take(END / 8).expect("it fits")).collect();
        assert_eq!(space.take(1), None, "full");
        for block in blocks {
            space.give_back(block.offset);
        }
        assert_eq!(space.warm_size(), END);
        assert_eq!(space.cool(0), vec![(0, END)]);
        assert_eq!((space.warm_size(), space.used_size()), (0, 0));
        assert!(space.take(END).is_some_and(|all| !all.is_warm));
    }

    #[test]
    fn a_size_beyond_everything_is_refused() {
        assert_eq!(RegionAllocator::new(0, END).take(u64::MAX), None);
        assert_eq!(RegionAllocator::new(0, END).take(END + 1), None);
        assert_eq!(RegionAllocator::new(0, END).give_back(0), None);
    }

    proptest! {
        /// Allocates and frees at random: blocks never overlap, lie inside the region, and all space is joined again in
        /// the end.
        #[test]
        fn blocks_never_overlap(steps in proptest::collection::vec((any::<u16>(), 1u64..1 << 26), 1..200)) {
            let mut space = RegionAllocator::new(PAGE_SIZE, END);
            let mut taken: Vec<AllocatedBlock> = Vec::new();
            for (choice, size) in steps {
                match choice % 5 {
                    0 | 1 if !taken.is_empty() => {
                        let block = taken.swap_remove(usize::from(choice) % taken.len());
                        prop_assert_eq!(space.give_back(block.offset), Some(block.size));
                    }
                    2 => {
                        let limit = size;
                        space.cool(limit);
                        prop_assert!(space.warm_size() <= limit);
                    }
                    _ => if let Some(block) = space.take(size) {
                        prop_assert!(block.size >= size && block.size <= block_size(size).unwrap_or(0));
                        prop_assert!(block.offset >= PAGE_SIZE && block.offset + block.size <= END);
                        for other in &taken {
                            let apart = other.offset + other.size <= block.offset
                                || block.offset + block.size <= other.offset;
                            prop_assert!(apart, "{other:?} and {block:?} overlap");
                        }
                        taken.push(block);
                    },
                }
                prop_assert_eq!(space.used_size(), taken.iter().map(|block| block.size).sum::<u64>());
            }
            for block in taken {
                space.give_back(block.offset);
            }
            space.cool(0);
            prop_assert_eq!(space.free.len(), 1, "all is one extent again");
        }
    }
}
