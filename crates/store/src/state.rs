//! The table of a store: which blobs there are, where each is, and how much of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::sync::Arc;

use gristmill_shm::BlockPart;
use gristmill_wire::{BlobName, Digest};

use crate::spill::{Extent, Spill};
use crate::store::{Adoption, BlobLimits, StoreCounts, Want};

#[derive(Debug)]
pub(crate) enum Place {
    Coming {
        part: BlockPart,
        received: u64,
        /// Somebody writes to it, without the lock: nobody else does.
        is_written: bool,
    },
    Here(BlockPart),
    OnDisk(Extent),
    /// On its way from disk.
    Returning(BlockPart, Extent),
}

#[derive(Debug)]
pub(crate) struct Blob {
    pub size: u64,
    pub place: Place,
    /// Grows with each want: which one was wanted last.
    pub age: u64,
    /// Somebody else keeps it too, unless it is pinned: it is not worth a place on disk.
    pub is_copy: bool,
    /// It is to be kept here, in memory or on disk.
    pub is_pinned: bool,
}

/// A blob in memory that nobody uses.
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
    /// Blobs whose bytes come.
    pub coming: BTreeSet<Digest>,
    pub counts: StoreCounts,
    pub spill: Option<Spill>,
}

impl Place {
    /// Whether it is this block, or comes to it.
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

    /// Gives a blob a block, unless somebody else just did.
    pub fn enter(&mut self, name: BlobName, part: BlockPart) -> Want {
        let BlobName { digest, size } = name;
        let extent = match self.blobs.get(&digest).map(|blob| &blob.place) {
            Some(Place::Here(there)) => return Want::Here(there.clone()),
            Some(Place::Coming { part, .. } | Place::Returning(part, _)) => {
                return Want::Coming(part.clone());
            }
            Some(Place::OnDisk(extent)) => Some(*extent),
            None => None,
        };
        self.counts.in_memory += size;
        if let Some(extent) = extent {
            if let Some(blob) = self.blobs.get_mut(&digest) {
                blob.place = Place::Returning(part.clone(), extent);
            }
            return Want::OnDisk(part);
        }
        let place = Place::Coming { part: part.clone(), received: 0, is_written: false };
        self.insert(name, place, false);
        self.coming.insert(digest);
        Want::Missing(part)
    }

    pub fn insert(&mut self, BlobName { digest, size }: BlobName, place: Place, is_copy: bool) {
        let blob = Blob { size, place, age: u64::MAX, is_copy, is_pinned: false };
        self.blobs.insert(digest, blob);
        self.touch(digest);
    }

    /// A blob was made here that nobody has named before.
    pub fn settle(&mut self, name: BlobName, part: BlockPart) {
        self.counts.in_memory += name.size;
        self.insert(name, Place::Here(part), true);
    }

    /// All bytes of a blob are in the block where they were waited for, if they still are there.
    pub fn fill(&mut self, digest: Digest, part: &BlockPart) -> Adoption {
        let place = self.blobs.get_mut(&digest).map(|blob| &mut blob.place);
        match place {
            Some(place @ Place::Coming { .. }) if place.is_at(part) => {
                *place = Place::Here(part.clone());
                self.coming.remove(&digest);
                Adoption::Came(part.clone())
            }
            Some(place @ Place::Returning(..)) if place.is_at(part) => {
                self.leave_disk(digest, part.clone(), true);
                Adoption::Came(part.clone())
            }
            _ => Adoption::Busy,
        }
    }

    /// The blob in memory that was wanted longest ago, from an age on, and that nobody uses; those that are pinned, too.
    pub fn oldest_unused(&self, from: u64, with_pinned: bool) -> Option<Unused> {
        self.ages.range(from..).find_map(|(&age, digest)| {
            let blob = self.blobs.get(digest)?;
            let is_unused = matches!(&blob.place, Place::Here(part) if part.is_sole());
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

    /// A blob is on disk, if nobody began to use it meanwhile and it could be written; whether it is.
    pub fn leave_memory(&mut self, digest: Digest, extent: Extent, is_written: bool) -> bool {
        let place = self.blobs.get_mut(&digest).map(|blob| &mut blob.place);
        if let Some(place) = place
            && is_written
            && matches!(place, Place::Here(part) if part.is_sole())
        {
            *place = Place::OnDisk(extent);
            self.counts.in_memory -= extent.size;
            return true;
        }
        if let Some(spill) = &mut self.spill {
            spill.give_back(extent);
        }
        self.counts.on_disk -= extent.size;
        let is_pinned = self.blobs.get(&digest).is_some_and(|blob| blob.is_pinned);
        if !is_written && !is_pinned {
            self.forget(digest);
        }
        false
    }

    /// A blob is not on disk any more. Its bytes are here; or they could not be read back, and have to come from somewhere
    /// else: then nothing is to be written where they were, which counts as used from now on.
    pub fn leave_disk(&mut self, digest: Digest, part: BlockPart, is_here: bool) {
        let Some(place) = self.blobs.get_mut(&digest).map(|blob| &mut blob.place) else { return };
        let (Place::OnDisk(extent) | Place::Returning(_, extent)) = *place else { return };
        if !is_here {
            *place = Place::Coming { part, received: 0, is_written: false };
            self.coming.insert(digest);
            return;
        }
        *place = Place::Here(part);
        self.counts.on_disk -= extent.size;
        if let Some(spill) = &mut self.spill {
            spill.give_back(extent);
        }
    }

    pub fn forget(&mut self, digest: Digest) {
        let Some(blob) = self.blobs.remove(&digest) else { return };
        self.ages.remove(&blob.age);
        self.coming.remove(&digest);
        if !matches!(blob.place, Place::OnDisk(_)) {
            self.counts.in_memory -= blob.size;
        }
        if let Place::OnDisk(extent) | Place::Returning(_, extent) = blob.place {
            self.counts.on_disk -= extent.size;
            if let Some(spill) = &mut self.spill {
                spill.give_back(extent);
            }
        }
    }
}
