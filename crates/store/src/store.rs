//! The blobs of one node.
//!
//! Any thread may ask. Bytes move without the lock: it is held for as long as a look into a table takes.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_wire::{BlobName, Digest};

use crate::spill::{self, Spill};
use crate::state::{Blob, Place, State, Unused};

/// Bytes that are copied at a time.
const COPY_STEP: usize = 256 << 10;

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

/// What came of a blob that was made here, with the block that it is in: who has that keeps it here.
#[derive(Debug)]
#[must_use]
pub enum Adoption {
    /// Nobody waits for its bytes.
    Here(BlockPart),
    /// Its bytes are in the block where others waited for them.
    Came(BlockPart),
    /// Somebody writes to that block right now: it is to be tried again.
    Busy,
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
        let state = State::default();
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

    /// Takes in a blob that was made here, all of it, and that others will have as well. Where its bytes are waited for they
    /// are copied; whoever restores does this too, so that nothing else comes from disk meanwhile.
    pub fn adopt(&self, name: BlobName, part: &BlockPart) -> Adoption {
        let BlobName { digest, size } = name;
        let waiting = {
            let mut state = self.lock();
            state.touch(digest);
            match state.blobs.get_mut(&digest).map(|blob| &mut blob.place) {
                None => {
                    state.settle(name, part.clone());
                    return Adoption::Here(part.clone());
                }
                Some(Place::Here(there)) => return Adoption::Here(there.clone()),
                Some(Place::OnDisk(_)) => {
                    state.counts.in_memory += size;
                    state.leave_disk(digest, part.clone(), true);
                    return Adoption::Here(part.clone());
                }
                Some(Place::Coming { is_written: true, .. }) => return Adoption::Busy,
                Some(Place::Coming { part, is_written, .. }) => {
                    *is_written = true;
                    part.clone()
                }
                Some(Place::Returning(part, _)) => part.clone(),
            }
        };
        copy(part, &waiting);
        self.lock().fill(digest, &waiting)
    }

    /// Keeps a blob here, whatever the limits say, until it is unpinned.
    pub fn pin(&self, digest: Digest) {
        self.set_pinned(digest, true);
    }

    /// A blob need not be kept any more.
    pub fn unpin(&self, digest: Digest) {
        self.set_pinned(digest, false);
    }

    fn set_pinned(&self, digest: Digest, is_pinned: bool) {
        if let Some(blob) = self.lock().blobs.get_mut(&digest) {
            blob.is_pinned = is_pinned;
        }
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

    /// Takes bytes in that lie behind those that are there; false: they do not, or nobody waits for them, or somebody else
    /// writes there.
    pub fn append(&self, digest: Digest, offset: u64, bytes: &[u8]) -> bool {
        let part = match self.lock().blobs.get_mut(&digest).map(|blob| &mut blob.place) {
            Some(Place::Coming { part, received, is_written })
                if *received == offset && !*is_written =>
            {
                *is_written = true;
                part.clone()
            }
            _ => return false,
        };
        let fits = part.write_at(offset, bytes);
        let mut state = self.lock();
        match state.blobs.get_mut(&digest).map(|blob| &mut blob.place) {
            Some(Place::Coming { part: there, received, is_written })
                if there.range() == part.range() =>
            {
                *is_written = false;
                // Unless it begins anew.
                let is_behind = fits && *received == offset;
                *received += if is_behind { bytes.len() as u64 } else { 0 };
                is_behind
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
            Place::Coming { part, received, .. } => (part, *received, false),
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
            let Place::Coming { part, received, .. } = &blob.place else { return None };
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
            Place::Coming { part, received, .. } => (part.clone(), *received),
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

    /// The bytes of a blob do not come. One that is here, or on its way from disk, stays.
    pub fn give_up(&self, digest: Digest) {
        let mut state = self.lock();
        let place = state.blobs.get(&digest).map(|blob| &blob.place);
        if matches!(place, Some(Place::Coming { .. })) {
            state.forget(digest);
        }
    }

    /// Reads a blob back that is on disk. Takes as long as the disk does.
    ///
    /// # Errors
    /// The disk cannot be read, or has changed its bytes: the blob is as one of which nothing has come, and where it was on
    /// the disk nothing is kept any more.
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
        let found = done.and_then(|file| spill::read(&file, extent, &part));
        let changed = || io::Error::new(io::ErrorKind::InvalidData, "it has changed there");
        let done = found.and_then(|found| (found == digest).then_some(()).ok_or_else(changed));
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
            !blob.is_pinned && matches!(&blob.place, Place::Here(part) if part.is_sole())
        };
        let is_on_disk = |blob: &&Blob| !blob.is_pinned && matches!(blob.place, Place::OnDisk(_));
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

/// Copies the bytes of a block to another one of that size.
fn copy(from: &BlockPart, to: &BlockPart) {
    let (mut space, mut done) = (vec![0; COPY_STEP], 0);
    loop {
        let count = from.read_at(done, &mut space);
        if count == 0 || !to.write_at(done, &space[..count]) {
            return;
        }
        done += count as u64;
    }
}
