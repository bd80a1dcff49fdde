//! The blobs of one node.
//!
//! Any thread may ask. Bytes move without the lock: it is held for as long as a look into a table takes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_wire::{BlobName, Digest};

use crate::spill::{self, Extent, Spill};

/// How much is kept that nobody uses.
#[derive(Debug, Clone)]
pub struct BlobLimits {
    /// Bytes of memory, with what is used. What is used stays, whatever this says.
    pub memory: u64,
    /// Bytes on disk; 0: nothing goes there.
    pub disk: u64,
    /// Where the file on disk is made.
    pub directory: PathBuf,
}

/// What there is of a blob that somebody wants.
#[derive(Debug)]
#[must_use]
pub enum Want {
    /// All of it.
    Here(BlockPart),
    /// It comes to this block, and was wanted before.
    Coming(BlockPart),
    /// It is to come to this block: somebody has to be asked for it.
    Missing(BlockPart),
    /// It is on disk: [`Store::restore`] is due.
    OnDisk(BlockPart),
}

/// How far a blob has come.
#[derive(Debug)]
pub struct Progress {
    /// Where it comes to.
    pub part: BlockPart,
    /// Bytes from its start that are there.
    pub received: u64,
    /// All are, and were found to be the right ones.
    pub is_complete: bool,
}

/// What a store holds, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCounts {
    /// In memory, used or not.
    pub in_memory: u64,
    /// On disk.
    pub on_disk: u64,
}

#[derive(Debug)]
enum Place {
    Coming {
        part: BlockPart,
        received: u64,
    },
    Here(BlockPart),
    OnDisk(Extent),
    /// On its way from disk.
    Returning(BlockPart, Extent),
}

#[derive(Debug)]
struct Blob {
    size: u64,
    place: Place,
    /// Grows with each want: which one was wanted last.
    age: u64,
    /// Somebody else keeps it too, unless it is pinned: it is not worth a place on disk.
    is_copy: bool,
    /// How often it was asked to be kept here, in memory or on disk.
    pins: usize,
}

/// A blob in memory that nobody uses.
struct Unused {
    digest: Digest,
    size: u64,
    age: u64,
    is_pinned: bool,
    is_copy: bool,
}

#[derive(Debug)]
struct State {
    blobs: HashMap<Digest, Blob>,
    /// All blobs, by age.
    ages: BTreeMap<u64, Digest>,
    next_age: u64,
    /// Blobs whose bytes come.
    coming: BTreeSet<Digest>,
    counts: StoreCounts,
    spill: Option<Spill>,
}

#[derive(Debug)]
struct Shared {
    arena: ClientArena,
    limits: BlobLimits,
    state: Mutex<State>,
}

/// The blobs of one node. Clones share them.
#[derive(Debug, Clone)]
pub struct Store(Arc<Shared>);

impl Store {
    /// None yet; blobs get blocks of `arena`.
    #[must_use]
    pub fn new(arena: ClientArena, limits: BlobLimits) -> Self {
        let state = State {
            blobs: HashMap::new(),
            ages: BTreeMap::new(),
            next_age: 0,
            coming: BTreeSet::new(),
            counts: StoreCounts::default(),
            spill: None,
        };
        Self(Arc::new(Shared { arena, limits, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block of a blob, to which it comes if it is not there.
    ///
    /// # Errors
    /// There is no memory for it, even without the blobs that nobody uses: [`Self::make_room`] tells which went.
    pub fn want(&self, name: BlobName) -> Result<Want, ArenaError> {
        let mut state = self.lock();
        state.touch(name.digest);
        if let Some(blob) = state.blobs.get(&name.digest) {
            match &blob.place {
                Place::Here(part) => return Ok(Want::Here(part.clone())),
                Place::Coming { part, .. } | Place::Returning(part, _) => {
                    return Ok(Want::Coming(part.clone()));
                }
                Place::OnDisk(_) => {}
            }
        }
        drop(state);
        let size = usize::try_from(name.size).unwrap_or(usize::MAX);
        // Its pages are made by whoever has the time for that.
        let part = self.0.arena.reserve(size)?;
        Ok(self.lock().enter(name, part))
    }

    /// Takes in a blob that was made here, all of it, and that others will have as well.
    pub fn adopt(&self, name: BlobName, part: BlockPart) {
        let mut state = self.lock();
        if state.blobs.contains_key(&name.digest) {
            return state.touch(name.digest);
        }
        state.counts.in_memory += name.size;
        let place = Place::Here(part);
        let blob = Blob { size: name.size, place, age: u64::MAX, is_copy: true, pins: 0 };
        state.blobs.insert(name.digest, blob);
        state.touch(name.digest);
    }

    /// Keeps a blob here, whatever the limits say, until as many calls of [`Self::unpin`] have followed.
    pub fn pin(&self, digest: Digest) {
        if let Some(blob) = self.lock().blobs.get_mut(&digest) {
            blob.pins += 1;
        }
    }

    /// A blob need not be kept any more, as far as one call of [`Self::pin`] goes; says whether it is not pinned now.
    pub fn unpin(&self, digest: Digest) -> bool {
        let mut state = self.lock();
        let Some(blob) = state.blobs.get_mut(&digest) else { return true };
        blob.pins = blob.pins.saturating_sub(1);
        blob.pins == 0
    }

    /// A block that takes the place of a blob which cannot be had, for those who are to be told so.
    ///
    /// # Errors
    /// There is no memory at all.
    pub fn stand_in(&self) -> Result<BlockPart, ArenaError> {
        self.0.arena.reserve(1)
    }

    /// Forgets blobs that nobody uses, those first that were wanted longest ago, until `size` bytes are free or none is
    /// left; gives which.
    pub fn make_room(&self, size: u64) -> Vec<Digest> {
        let mut state = self.lock();
        let mut gone = Vec::new();
        let mut freed = 0;
        while freed < size
            && let Some(Unused { digest, size, .. }) = state.oldest_unused(0, false)
        {
            state.forget(digest);
            gone.push(digest);
            freed += size;
        }
        gone
    }

    /// Takes bytes in that lie behind those that are there; false: they do not, or nobody waits for them.
    pub fn append(&self, digest: Digest, offset: u64, bytes: &[u8]) -> bool {
        let Some(Progress { part, received, is_complete: false }) = self.progress(digest) else {
            return false;
        };
        if offset != received || !part.write_at(offset, bytes) {
            return false;
        }
        let mut state = self.lock();
        match state.blobs.get_mut(&digest).map(|blob| &mut blob.place) {
            // Unless two sources gave the same bytes at the same time.
            Some(Place::Coming { received, .. }) if *received == offset => {
                *received += bytes.len() as u64;
                true
            }
            _ => false,
        }
    }

    /// How far a blob has come that is in memory, or on its way.
    #[must_use]
    pub fn progress(&self, digest: Digest) -> Option<Progress> {
        let state = self.lock();
        let blob = state.blobs.get(&digest)?;
        let (part, received, is_complete) = match &blob.place {
            Place::Coming { part, received } => (part, *received, false),
            Place::Here(part) => (part, blob.size, true),
            Place::OnDisk(_) | Place::Returning(..) => return None,
        };
        Some(Progress { part: part.clone(), received, is_complete })
    }

    /// Blobs whose bytes come.
    #[must_use]
    pub fn coming(&self) -> Vec<(BlobName, Progress)> {
        let state = self.lock();
        let coming = state.coming.iter().filter_map(|&digest| {
            let blob = state.blobs.get(&digest)?;
            let Place::Coming { part, received } = &blob.place else { return None };
            let progress = Progress { part: part.clone(), received: *received, is_complete: false };
            Some((BlobName { digest, size: blob.size }, progress))
        });
        coming.collect()
    }

    /// Whether a blob is here, on disk, or comes.
    #[must_use]
    pub fn has(&self, digest: Digest) -> bool {
        self.lock().blobs.contains_key(&digest)
    }

    /// Copies bytes of a blob out, wherever it is, from `offset` on as far as it has come; how many. `None`: it is not here.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub fn read(&self, digest: Digest, offset: u64, space: &mut [u8]) -> io::Result<Option<usize>> {
        let state = self.lock();
        let Some(blob) = state.blobs.get(&digest) else { return Ok(None) };
        let (part, received) = match &blob.place {
            Place::Coming { part, received } => (part.clone(), *received),
            Place::Here(part) => (part.clone(), blob.size),
            Place::OnDisk(extent) | Place::Returning(_, extent) => {
                let extent = *extent;
                let file = state.spill.as_ref().map(Spill::file);
                drop(state);
                let file = file.ok_or(io::ErrorKind::NotFound)?;
                return spill::read_some(&file, extent, offset, space).map(Some);
            }
        };
        drop(state);
        let left = usize::try_from(received.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(space.len());
        Ok(Some(part.read_at(offset, &mut space[..count])))
    }

    /// All bytes of a blob are there and are the right ones: it is given out from now on.
    pub fn complete(&self, digest: Digest) {
        let mut state = self.lock();
        let Some(blob) = state.blobs.get_mut(&digest) else { return };
        if let Place::Coming { part, .. } = &blob.place {
            blob.place = Place::Here(part.clone());
            state.coming.remove(&digest);
        }
    }

    /// The bytes of a blob that came are others than its own: it begins anew.
    pub fn begin_anew(&self, digest: Digest) {
        let mut state = self.lock();
        if let Some(Place::Coming { received, .. }) =
            state.blobs.get_mut(&digest).map(|blob| &mut blob.place)
        {
            *received = 0;
        }
    }

    /// A blob cannot be had.
    pub fn give_up(&self, digest: Digest) {
        self.lock().forget(digest);
    }

    /// Reads a blob back that is on disk. Takes as long as the disk does.
    ///
    /// # Errors
    /// The disk cannot be read: the blob is as one of which nothing has come.
    pub fn restore(&self, digest: Digest) -> io::Result<()> {
        let state = self.lock();
        let Some(Place::Returning(part, extent)) = state.blobs.get(&digest).map(|blob| &blob.place)
        else {
            return Ok(());
        };
        let (part, extent) = (part.clone(), *extent);
        let file = state.spill.as_ref().map(Spill::file);
        drop(state);
        let done = file.ok_or(io::ErrorKind::NotFound.into());
        let done = done.and_then(|file| spill::read(&file, extent, &part));
        self.lock().leave_disk(digest, part, done.is_ok());
        done
    }

    /// Whether more is in memory than should be.
    #[must_use]
    pub fn is_above_limit(&self) -> bool {
        let state = self.lock();
        state.counts.in_memory > self.0.limits.memory && state.oldest_unused(0, true).is_some()
    }

    /// Moves blobs that nobody uses to disk until the limit is met, those first that were wanted longest ago; gives those
    /// that had no room there either, or that somebody else keeps, and are gone. Takes as long as the disk does.
    pub fn trim(&self) -> Vec<Digest> {
        let (mut gone, mut from) = (Vec::new(), 0);
        while self.is_above_limit() {
            let mut state = self.lock();
            let Some(unused) = state.oldest_unused(from, true) else { break };
            let Unused { digest, size, age, is_pinned, is_copy } = unused;
            from = age + 1;
            let is_worth_it = is_pinned || !is_copy;
            let extent = is_worth_it.then(|| state.take_extent(size, &self.0.limits)).flatten();
            let Some((file, extent)) = extent else {
                if !is_pinned {
                    state.forget(digest);
                    gone.push(digest);
                }
                continue;
            };
            let Some(Place::Here(part)) = state.blobs.get(&digest).map(|blob| &blob.place) else {
                break;
            };
            let part = part.clone();
            drop(state);
            let written = spill::write(&file, extent, &part);
            drop(part);
            if !self.lock().leave_memory(digest, extent, written.is_ok())
                && written.is_err()
                && !is_pinned
            {
                gone.push(digest);
            }
        }
        gone
    }

    /// How many blobs in memory are of no use, and how many are used, pinned or on their way.
    #[must_use]
    pub fn use_counts(&self) -> (usize, usize) {
        let state = self.lock();
        let is_unused = |blob: &&Blob| {
            blob.pins == 0 && matches!(&blob.place, Place::Here(part) if part.is_sole())
        };
        let is_on_disk = |blob: &&Blob| blob.pins == 0 && matches!(blob.place, Place::OnDisk(_));
        let unused = state.blobs.values().filter(is_unused).count();
        let on_disk = state.blobs.values().filter(is_on_disk).count();
        (unused, state.blobs.len() - unused - on_disk)
    }

    /// Has its disk fail, for whoever simulates that; false: nothing was there.
    ///
    /// # Errors
    /// It goes on as before.
    pub fn fail_disk(&self) -> io::Result<bool> {
        match &mut self.lock().spill {
            Some(spill) => spill.fail().map(|()| true),
            None => Ok(false),
        }
    }

    /// What it holds.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        self.lock().counts
    }
}

impl State {
    fn touch(&mut self, digest: Digest) {
        let age = self.next_age;
        if let Some(blob) = self.blobs.get_mut(&digest) {
            self.next_age += 1;
            self.ages.remove(&std::mem::replace(&mut blob.age, age));
            self.ages.insert(age, digest);
        }
    }

    /// Gives a blob a block, unless somebody else just did.
    fn enter(&mut self, name: BlobName, part: BlockPart) -> Want {
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
        let place = Place::Coming { part: part.clone(), received: 0 };
        self.blobs.insert(digest, Blob { size, place, age: u64::MAX, is_copy: false, pins: 0 });
        self.touch(digest);
        self.coming.insert(digest);
        Want::Missing(part)
    }

    /// The blob in memory that was wanted longest ago, from an age on, and that nobody uses; those that are pinned, too.
    fn oldest_unused(&self, from: u64, with_pinned: bool) -> Option<Unused> {
        self.ages.range(from..).find_map(|(&age, digest)| {
            let blob = self.blobs.get(digest)?;
            let is_unused = matches!(&blob.place, Place::Here(part) if part.is_sole());
            let (is_pinned, is_copy) = (blob.pins > 0, blob.is_copy);
            let unused = Unused { digest: *digest, size: blob.size, age, is_pinned, is_copy };
            (is_unused && (with_pinned || !is_pinned)).then_some(unused)
        })
    }

    fn take_extent(&mut self, size: u64, limits: &BlobLimits) -> Option<(Arc<File>, Extent)> {
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
    fn leave_memory(&mut self, digest: Digest, extent: Extent, is_written: bool) -> bool {
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
        let is_pinned = self.blobs.get(&digest).is_some_and(|blob| blob.pins > 0);
        if !is_written && !is_pinned {
            self.forget(digest);
        }
        false
    }

    /// A blob has been read back, or could not be: then it has to come from somewhere else.
    fn leave_disk(&mut self, digest: Digest, part: BlockPart, is_read: bool) {
        let Some(place) = self.blobs.get_mut(&digest).map(|blob| &mut blob.place) else { return };
        let Place::Returning(_, extent) = *place else { return };
        *place = if is_read { Place::Here(part) } else { Place::Coming { part, received: 0 } };
        if !is_read {
            self.coming.insert(digest);
        }
        self.counts.on_disk -= extent.size;
        if let Some(spill) = &mut self.spill {
            spill.give_back(extent);
        }
    }

    fn forget(&mut self, digest: Digest) {
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
