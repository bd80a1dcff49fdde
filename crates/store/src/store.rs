//! The blobs of one node.
//!
//! Any thread may call the store. Bytes move without the lock, which is held only for accesses to a table.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_shm::{ArenaError, BlockPart, ClientArena};
use gristmill_wire::{BlobName, Digest};

use crate::availability::{BlobAvailability, BlobLimits, BlobProgress, InsertOutcome, StoreCounts};
use crate::spill::{self, Spill};
use crate::state::{Blob, BlobLocation, SpillOutcome, State, Unused};

/// Bytes that are copied at a time.
const COPY_STEP: usize = 256 << 10;

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
    /// Creates a store without blobs, which allocates its blocks in `arena`.
    #[must_use]
    pub fn new(arena: ClientArena, limits: BlobLimits) -> Self {
        let state = State::default();
        Self(Arc::new(Shared { arena, limits, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the block of a blob. If the blob is missing or on disk, allocates the block in which its bytes will arrive.
    ///
    /// # Errors
    /// There is no memory for the block. Call [`Self::make_room`] to free memory of unused blobs, then retry.
    pub fn want(&self, name: BlobName) -> Result<BlobAvailability, ArenaError> {
        self.want_by(name, ClientArena::reserve)
    }

    /// Returns the block of a blob as [`Self::want`] does, but allocates the block in the arena's own file on disk if blobs
    /// in use fill the memory. That file is not the one to which the store moves unused blobs.
    ///
    /// # Errors
    /// There is no room in the arena's file either.
    pub fn want_anywhere(&self, name: BlobName) -> Result<BlobAvailability, ArenaError> {
        self.want_by(name, ClientArena::reserve_or_spill)
    }

    fn want_by(
        &self,
        name: BlobName,
        reserve: impl FnOnce(&ClientArena, usize) -> Result<BlockPart, ArenaError>,
    ) -> Result<BlobAvailability, ArenaError> {
        let mut state = self.lock();
        state.touch(name.digest);
        if let Some(blob) = state.blobs.get(&name.digest) {
            match &blob.place {
                BlobLocation::Here(part) => return Ok(BlobAvailability::Here(part.clone())),
                BlobLocation::Coming { part, .. } | BlobLocation::Returning(part, _) => {
                    return Ok(BlobAvailability::Coming(part.clone()));
                }
                BlobLocation::OnDisk(_) => {}
            }
        }
        drop(state);
        let size = usize::try_from(name.size).unwrap_or(usize::MAX);
        // The block's pages are not touched here: the client has a thread that creates them ([`BlockPart::populate`]).
        let part = reserve(&self.0.arena, size)?;
        Ok(self.lock().enter(name, part))
    }

    /// Adds a complete blob that was made here and that other nodes will have too. If callers wait for the bytes in another
    /// block, the bytes are copied there. Call this on the thread that calls [`Self::restore`], so that no read from disk
    /// writes to that block at the same time.
    pub fn adopt(&self, name: BlobName, part: &BlockPart) -> InsertOutcome {
        let BlobName { digest, size } = name;
        let waiting = {
            let mut state = self.lock();
            state.touch(digest);
            match state.blobs.get_mut(&digest).map(|blob| &mut blob.place) {
                None => {
                    state.settle(name, part.clone());
                    return InsertOutcome::Here(part.clone());
                }
                Some(BlobLocation::Here(there)) => return InsertOutcome::Here(there.clone()),
                Some(BlobLocation::OnDisk(_)) => {
                    state.counts.in_memory += size;
                    state.leave_disk(digest, part.clone(), true);
                    return InsertOutcome::Here(part.clone());
                }
                Some(BlobLocation::Coming { is_written: true, .. }) => return InsertOutcome::Busy,
                Some(BlobLocation::Coming { part, is_written, .. }) => {
                    *is_written = true;
                    part.clone()
                }
                Some(BlobLocation::Returning(part, _)) => part.clone(),
            }
        };
        copy(part, &waiting);
        self.lock().fill(digest, &waiting)
    }

    /// Keeps a blob in the store, in memory or on disk, whatever the limits say, until it is unpinned. An unknown blob is
    /// ignored.
    pub fn pin(&self, digest: Digest) {
        self.set_pinned(digest, true);
    }

    /// Allows the store to drop a blob that was pinned.
    pub fn unpin(&self, digest: Digest) {
        self.set_pinned(digest, false);
    }

    fn set_pinned(&self, digest: Digest, is_pinned: bool) {
        if let Some(blob) = self.lock().blobs.get_mut(&digest) {
            blob.is_pinned = is_pinned;
        }
    }

    /// Allocates a one-byte block that stands for a blob that cannot be had, so that callers can be told of the failure.
    ///
    /// # Errors
    /// There is no memory at all.
    pub fn stand_in(&self) -> Result<BlockPart, ArenaError> {
        self.0.arena.reserve(1)
    }

    /// Drops unused blobs that are not pinned, least recently requested first, until `size` bytes are freed or no such blob
    /// is left. Returns the dropped blobs.
    pub fn make_room(&self, size: u64) -> Vec<Digest> {
        let mut state = self.lock();
        let mut gone = Vec::new();
        let mut freed = 0;
        while freed < size
            && let Some(Unused { digest, size, .. }) = state.oldest_unused(0, false)
        {
            // In this block, `size` is the size of the dropped blob.
            state.forget(digest);
            gone.push(digest);
            freed += size;
        }
        gone
    }

    /// Appends bytes that have arrived for a blob. Returns false if `offset` is not the end of the bytes so far, the blob
    /// is not awaited, or another thread writes to its block.
    pub fn append(&self, digest: Digest, offset: u64, bytes: &[u8]) -> bool {
        let part = match self.lock().blobs.get_mut(&digest).map(|blob| &mut blob.place) {
            Some(BlobLocation::Coming { part, received, is_written })
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
            Some(BlobLocation::Coming { part: there, received, is_written })
                if there.range() == part.range() =>
            {
                *is_written = false;
                // The bytes count only if they directly follow those before: the blob may have started over meanwhile.
                let is_behind = fits && *received == offset;
                *received += if is_behind { bytes.len() as u64 } else { 0 };
                is_behind
            }
            _ => false,
        }
    }

    /// Returns the bytes of a blob that have arrived; `None` if the blob is on disk or unknown.
    #[must_use]
    pub fn progress(&self, digest: Digest) -> Option<BlobProgress> {
        let state = self.lock();
        let blob = state.blobs.get(&digest)?;
        let (part, received, is_complete) = match &blob.place {
            BlobLocation::Coming { part, received, .. } => (part, *received, false),
            BlobLocation::Here(part) => (part, blob.size, true),
            BlobLocation::OnDisk(_) | BlobLocation::Returning(..) => return None,
        };
        Some(BlobProgress { part: part.clone(), received, is_complete })
    }

    /// Returns the blobs whose bytes are arriving.
    #[must_use]
    pub fn coming(&self) -> Vec<(BlobName, BlobProgress)> {
        let state = self.lock();
        let coming = state.coming.iter().filter_map(|&digest| {
            let blob = state.blobs.get(&digest)?;
            let BlobLocation::Coming { part, received, .. } = &blob.place else { return None };
            let progress =
                BlobProgress { part: part.clone(), received: *received, is_complete: false };
            Some((BlobName { digest, size: blob.size }, progress))
        });
        coming.collect()
    }

    /// Returns true if a blob is in memory, on disk, or arriving.
    #[must_use]
    pub fn has(&self, digest: Digest) -> bool {
        self.lock().blobs.contains_key(&digest)
    }

    /// Copies bytes of a blob to `space`, from `offset` up to the bytes that have arrived, whether it is in memory or on
    /// disk. Returns the number of bytes copied; `None` if the blob is unknown.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub fn read(&self, digest: Digest, offset: u64, space: &mut [u8]) -> io::Result<Option<usize>> {
        let state = self.lock();
        let Some(blob) = state.blobs.get(&digest) else { return Ok(None) };
        let (part, received) = match &blob.place {
            BlobLocation::Coming { part, received, .. } => (part.clone(), *received),
            BlobLocation::Here(part) => (part.clone(), blob.size),
            BlobLocation::OnDisk(extent) | BlobLocation::Returning(_, extent) => {
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

    /// Marks a blob as complete: all of its bytes have arrived and hash to its name. The store hands it out from now on.
    pub fn complete(&self, digest: Digest) {
        let mut state = self.lock();
        let Some(blob) = state.blobs.get_mut(&digest) else { return };
        if let BlobLocation::Coming { part, .. } = &blob.place {
            blob.place = BlobLocation::Here(part.clone());
            state.coming.remove(&digest);
        }
    }

    /// Discards the bytes of a blob that have arrived, because they do not hash to its name.
    pub fn begin_anew(&self, digest: Digest) {
        let mut state = self.lock();
        if let Some(BlobLocation::Coming { received, .. }) =
            state.blobs.get_mut(&digest).map(|blob| &mut blob.place)
        {
            *received = 0;
        }
    }

    /// Forgets a blob whose bytes will not arrive. Keeps a blob that is in memory, on disk, or on its way from disk.
    pub fn give_up(&self, digest: Digest) {
        let mut state = self.lock();
        let place = state.blobs.get(&digest).map(|blob| &blob.place);
        if matches!(place, Some(BlobLocation::Coming { .. })) {
            state.forget(digest);
        }
    }

    /// Reads a blob back from disk. The call waits for the disk.
    ///
    /// # Errors
    /// The disk cannot be read, or has changed the bytes. The blob is then one of which no byte has arrived, and its range
    /// on the disk is not used again.
    pub fn restore(&self, digest: Digest) -> io::Result<()> {
        let state = self.lock();
        let Some(BlobLocation::Returning(part, extent)) =
            state.blobs.get(&digest).map(|blob| &blob.place)
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

    /// Returns true if the blobs in memory exceed the limit and at least one of them is unused.
    #[must_use]
    pub fn is_above_limit(&self) -> bool {
        let state = self.lock();
        state.counts.in_memory > self.0.limits.memory && state.oldest_unused(0, true).is_some()
    }

    /// Moves unused blobs to disk until the memory limit is met, least recently requested first. Drops unpinned blobs that
    /// other nodes keep or that the disk cannot take. Returns the dropped blobs. The call waits for the disk.
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
            let Some(BlobLocation::Here(part)) = state.blobs.get(&digest).map(|blob| &blob.place)
            else {
                break;
            };
            let part = part.clone();
            drop(state);
            let written = spill::write(&file, extent, &part);
            drop(part);
            let outcome = self.lock().leave_memory(digest, extent, written.is_ok());
            if outcome == SpillOutcome::Dropped {
                gone.push(digest);
            }
        }
        gone
    }

    /// Returns the number of unused blobs in memory, and the number of blobs that are used, pinned or arriving.
    #[must_use]
    pub fn use_counts(&self) -> (usize, usize) {
        let state = self.lock();
        let is_unused = |blob: &&Blob| {
            !blob.is_pinned && matches!(&blob.place, BlobLocation::Here(part) if part.is_sole())
        };
        let is_on_disk =
            |blob: &&Blob| !blob.is_pinned && matches!(blob.place, BlobLocation::OnDisk(_));
        let unused = state.blobs.values().filter(is_unused).count();
        let on_disk = state.blobs.values().filter(is_on_disk).count();
        (unused, state.blobs.len() - unused - on_disk)
    }

    /// Makes the disk of this store fail, for simulations. Returns false if the store has nothing on disk yet.
    ///
    /// # Errors
    /// The failure cannot be simulated; the store is unchanged.
    pub fn fail_disk(&self) -> io::Result<bool> {
        match &mut self.lock().spill {
            Some(spill) => spill.fail().map(|()| true),
            None => Ok(false),
        }
    }

    /// Returns the bytes that the store holds.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        self.lock().counts
    }
}

/// Copies the bytes of a block to another block of the same size.
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
