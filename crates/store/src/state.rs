//! The table of a store: its blobs, the location of each, and the bytes each has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::sync::Arc;

use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, Digest};

use crate::availability::{BlobAvailability, BlobLimits, InsertOutcome, StoreCounts};
use crate::spill::{Extent, Spill};

#[derive(Debug)]
pub(crate) enum BlobLocation {
    Coming {
        part: BlockPart,
        received: u64,
        /// True while one thread writes to the block without the lock; no other thread writes meanwhile.
        is_written: bool,
    },
    Here(BlockPart),
    OnDisk(Extent),
    /// A read from disk to this block is due or running.
    Returning(BlockPart, Extent),
}

#[derive(Debug)]
pub(crate) struct Blob {
    pub size: u64,
    /// Location of the blob's bytes.
    pub place: BlobLocation,
    /// Time of the last request for the blob, on a clock that counts requests: the least recently requested blob has the
    /// lowest value.
    pub age: u64,
    /// True if another node or process keeps the blob too, or will: the store drops its own copy instead of writing it to
    /// disk, unless the blob is pinned.
    pub is_copy: bool,
    /// True if the store must keep the blob, in memory or on disk.
    pub is_pinned: bool,
}

/// The outcome of a move of a blob from memory to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpillOutcome {
    OnDisk,
    /// The disk did not take the blob, which is gone.
    Dropped,
    /// The blob is in use, arrives again, or must be kept: the move changed nothing.
    Stays,
}

/// A blob in memory that is not in use.
pub(crate) struct Unused {
    pub digest: Digest,
    pub size: u64,
    pub age: u64,
    pub is_pinned: bool,
    pub is_copy: bool,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub blobs: HashMap<Digest, Blob>,
    /// All blobs, by age.
    pub ages: BTreeMap<u64, Digest>,
    pub next_age: u64,
    /// Blobs whose bytes are arriving.
    pub coming: BTreeSet<Digest>,
    pub counts: StoreCounts,
    pub spill: Option<Spill>,
}

impl BlobLocation {
    /// Returns true if the blob is in this block, or its bytes arrive there.
    pub fn is_at(&self, block: &BlockPart) -> bool {
        match self {
            Self::Coming { part, .. } | Self::Here(part) | Self::Returning(part, _) => {
                part.range() == block.range()
            }
            Self::OnDisk(_) => false,
        }
    }
}

impl State {
    pub fn touch(&mut self, digest: Digest) {
        let age = self.next_age;
        if let Some(blob) = self.blobs.get_mut(&digest) {
            self.next_age += 1;
            self.ages.remove(&std::mem::replace(&mut blob.age, age));
            self.ages.insert(age, digest);
        }
    }

    /// Assigns a block to a blob, unless another thread has just done so.
    pub fn enter(&mut self, name: BlobName, part: BlockPart) -> BlobAvailability {
        let BlobName { digest, size } = name;
        let extent = match self.blobs.get(&digest).map(|blob| &blob.place) {
            Some(BlobLocation::Here(there)) => return BlobAvailability::Here(there.clone()),
            Some(BlobLocation::Coming { part, .. } | BlobLocation::Returning(part, _)) => {
                return BlobAvailability::Coming(part.clone());
            }
            Some(BlobLocation::OnDisk(extent)) => Some(*extent),
            None => None,
        };
        self.counts.in_memory += size;
        if let Some(extent) = extent {
            if let Some(blob) = self.blobs.get_mut(&digest) {
                blob.place = BlobLocation::Returning(part.clone(), extent);
            }
            return BlobAvailability::OnDisk(part);
        }
        let place = BlobLocation::Coming { part: part.clone(), received: 0, is_written: false };
        self.insert(name, place, false);
        self.coming.insert(digest);
        BlobAvailability::Missing(part)
    }

    pub fn insert(
        &mut self,
        BlobName { digest, size }: BlobName,
        place: BlobLocation,
        is_copy: bool,
    ) {
        let blob = Blob { size, place, age: u64::MAX, is_copy, is_pinned: false };
        self.blobs.insert(digest, blob);
        self.touch(digest);
    }

    /// Adds a blob that was made here and is not in the table. Other nodes will have it too, so it counts as a copy.
    pub fn settle(&mut self, name: BlobName, part: BlockPart) {
        self.counts.in_memory += name.size;
        self.insert(name, BlobLocation::Here(part), true);
    }

    /// Marks a blob as complete in the block that its bytes were awaited in. Returns `Busy` if the blob no longer has that
    /// block.
    pub fn fill(&mut self, digest: Digest, part: &BlockPart) -> InsertOutcome {
        let place = self.blobs.get_mut(&digest).map(|blob| &mut blob.place);
        match place {
            Some(place @ BlobLocation::Coming { .. }) if place.is_at(part) => {
                *place = BlobLocation::Here(part.clone());
                self.coming.remove(&digest);
                InsertOutcome::Came(part.clone())
            }
            Some(place @ BlobLocation::Returning(..)) if place.is_at(part) => {
                self.leave_disk(digest, part.clone(), true);
                InsertOutcome::Came(part.clone())
            }
            _ => InsertOutcome::Busy,
        }
    }

    /// Returns the unused blob in memory that was requested least recently, of those with an age of at least `from`. Skips
    /// pinned blobs unless `with_pinned` is set.
    pub fn oldest_unused(&self, from: u64, with_pinned: bool) -> Option<Unused> {
        self.ages.range(from..).find_map(|(&age, digest)| {
            let blob = self.blobs.get(digest)?;
            let is_unused = matches!(&blob.place, BlobLocation::Here(part) if part.is_sole());
            let (is_pinned, is_copy) = (blob.is_pinned, blob.is_copy);
            let unused = Unused { digest: *digest, size: blob.size, age, is_pinned, is_copy };
            (is_unused && (with_pinned || !is_pinned)).then_some(unused)
        })
    }

    pub fn take_extent(&mut self, size: u64, limits: &BlobLimits) -> Option<(Arc<File>, Extent)> {
        if self.counts.on_disk.saturating_add(size) > limits.disk {
            return None;
        }
        if self.spill.is_none() {
            self.spill = Spill::create(&limits.directory).ok();
        }
        let spill = self.spill.as_mut()?;
        let extent = spill.take(size)?;
        self.counts.on_disk += size;
        Some((spill.file(), extent))
    }

    /// Ends the write of a blob to disk, which happened without the lock. If the blob is in use or arrives again by now, it
    /// stays where it is. Otherwise, it is on disk if the write succeeded. If the write failed, a pinned blob stays in
    /// memory, and any other blob is dropped.
    pub fn leave_memory(
        &mut self,
        digest: Digest,
        extent: Extent,
        is_written: bool,
    ) -> SpillOutcome {
        let blob = self.blobs.get_mut(&digest);
        let unused =
            blob.filter(|blob| matches!(&blob.place, BlobLocation::Here(part) if part.is_sole()));
        if let Some(blob) = unused {
            if is_written {
                blob.place = BlobLocation::OnDisk(extent);
                self.counts.in_memory -= extent.size;
                return SpillOutcome::OnDisk;
            }
            if !blob.is_pinned {
                self.give_back(extent);
                self.forget(digest);
                return SpillOutcome::Dropped;
            }
        }
        self.give_back(extent);
        SpillOutcome::Stays
    }

    /// Releases a range of the file.
    fn give_back(&mut self, extent: Extent) {
        if let Some(spill) = &mut self.spill {
            spill.give_back(extent);
        }
        self.counts.on_disk -= extent.size;
    }

    /// Ends a blob's stay on disk. If `is_here` is set, its bytes are in `part` now. Otherwise the read failed: the blob
    /// must come from another node, and its range of the file stays reserved for ever, so that nothing is written there
    /// again.
    pub fn leave_disk(&mut self, digest: Digest, part: BlockPart, is_here: bool) {
        let Some(place) = self.blobs.get_mut(&digest).map(|blob| &mut blob.place) else { return };
        let (BlobLocation::OnDisk(extent) | BlobLocation::Returning(_, extent)) = *place else {
            return;
        };
        if !is_here {
            *place = BlobLocation::Coming { part, received: 0, is_written: false };
            self.coming.insert(digest);
            return;
        }
        *place = BlobLocation::Here(part);
        self.counts.on_disk -= extent.size;
        if let Some(spill) = &mut self.spill {
            spill.give_back(extent);
        }
    }

    pub fn forget(&mut self, digest: Digest) {
        let Some(blob) = self.blobs.remove(&digest) else { return };
        self.ages.remove(&blob.age);
        self.coming.remove(&digest);
        if !matches!(blob.place, BlobLocation::OnDisk(_)) {
            self.counts.in_memory -= blob.size;
        }
        if let BlobLocation::OnDisk(extent) | BlobLocation::Returning(_, extent) = blob.place {
            self.counts.on_disk -= extent.size;
            if let Some(spill) = &mut self.spill {
                spill.give_back(extent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_shm::ClientArena;

    use super::*;

    const SIZE: u64 = 4096;

    /// Creates a table with one blob, for which a range of the disk was taken.
    fn state(arena: &ClientArena) -> (State, Digest, BlockPart, Extent) {
        let part = arena.store(&[1; 4096]).expect("a block");
        let digest = crate::digest_of(&part);
        let mut state = State::default();
        let place = BlobLocation::Here(part.clone());
        let blob = Blob { size: SIZE, place, age: 0, is_copy: false, is_pinned: false };
        state.blobs.insert(digest, blob);
        state.ages.insert(0, digest);
        state.counts.in_memory = SIZE;
        let limits = BlobLimits { memory: 0, disk: SIZE, directory: std::env::temp_dir() };
        let (_, extent) = state.take_extent(SIZE, &limits).expect("a disk");
        (state, digest, part, extent)
    }

    #[test]
    fn a_blob_that_came_into_use_while_the_disk_refused_it_stays() {
        let arena = ClientArena::create(0).expect("an arena");
        let (mut state, digest, part, extent) = state(&arena);
        assert_eq!(state.leave_memory(digest, extent, false), SpillOutcome::Stays);
        assert!(state.blobs.contains_key(&digest));
        assert_eq!(state.counts, StoreCounts { in_memory: SIZE, on_disk: 0 });
        drop(part);
    }

    #[test]
    fn a_blob_that_arrives_again_while_the_disk_refused_it_stays() {
        let arena = ClientArena::create(0).expect("an arena");
        let (mut state, digest, part, extent) = state(&arena);
        let blob = state.blobs.get_mut(&digest).expect("it is there");
        blob.place = BlobLocation::Coming { part, received: 0, is_written: false };
        assert_eq!(state.leave_memory(digest, extent, false), SpillOutcome::Stays);
        assert!(state.blobs.contains_key(&digest));
    }

    #[test]
    fn an_unused_blob_that_the_disk_refused_is_dropped() {
        let arena = ClientArena::create(0).expect("an arena");
        let (mut state, digest, part, extent) = state(&arena);
        drop(part);
        assert_eq!(state.leave_memory(digest, extent, false), SpillOutcome::Dropped);
        assert_eq!(state.counts, StoreCounts::default());
    }
}
