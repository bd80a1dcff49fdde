//! The client's side of the arena.

use super::layout::{Tier, address_budget, spares_within};
use super::memory::Memory;
use super::space::{PAGE_SIZE, RegionAllocator};
use super::{ArenaError, ArenaOptions, IDLE_LOOKS, IDLE_WARM_MAX, warm_max};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_wire::{BlockRange, Digest, SlotId};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The client's handle to the arena. Clones share it.
#[derive(Debug, Clone)]
pub struct ClientArena(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: Memory,
    state: Mutex<State>,
    /// True if there are freed blocks whose workers have not been told.
    has_releases: AtomicBool,
    /// Id of the process that created the arena. A forked child shares the pages and must not free any.
    owner: u32,
}

#[derive(Debug)]
struct State {
    /// The client's allocators, by tier.
    spaces: [RegionAllocator; 2],
    /// All blocks with a handle, by offset.
    live: BTreeMap<u64, Live>,
    slots: Vec<SlotState>,
    /// Workers' blocks that the client no longer needs.
    releases: Vec<(SlotId, u64)>,
    quiet_looks: u32,
}

#[derive(Debug)]
struct Live {
    size: u64,
    maker: Maker,
    block: Weak<BlockHandle>,
}

#[derive(Debug, Clone, Copy)]
struct SlotState {
    /// Counts the workers of this slot.
    epoch: u32,
    /// Start and end of the ranges in which the current worker may allocate, by tier.
    regions: [(u64, u64); 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Client,
    Worker { slot: SlotId, epoch: u32 },
}

/// A block in use. Dropping the last handle frees it.
#[derive(Debug)]
pub struct BlockHandle {
    shared: Arc<Shared>,
    offset: u64,
    size: u64,
    maker: Maker,
    /// True if code outside the arena holds a writable pointer to the block, so that its contents may change.
    is_exposed: AtomicBool,
    /// The hash of the block's bytes, once it has been computed.
    digest: OnceLock<Digest>,
}

/// A part of a block, which keeps the block alive.
#[derive(Debug, Clone)]
pub struct BlockPart {
    block: Arc<BlockHandle>,
    range: BlockRange,
}

/// A weak reference to a block.
#[derive(Debug, Clone)]
pub struct WeakBlock(Weak<BlockHandle>);

impl WeakBlock {
    /// Returns all of the block if it is still alive.
    #[must_use]
    pub fn upgrade(&self) -> Option<BlockPart> {
        let block = self.0.upgrade()?;
        let range = BlockRange { offset: block.offset, size: block.size };
        Some(BlockPart { block, range })
    }

    /// Returns true if the block is still alive.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl ClientArena {
    /// Creates an arena in memory for a client and `slot_count` workers.
    ///
    /// # Errors
    /// [`ArenaError::Create`].
    pub fn create(slot_count: u16) -> Result<Self, ArenaError> {
        Self::create_with(slot_count, &ArenaOptions::default())
    }

    /// Creates an arena that may have a part on disk.
    ///
    /// # Errors
    /// [`ArenaError::Create`].
    pub fn create_with(slot_count: u16, options: &ArenaOptions) -> Result<Self, ArenaError> {
        let memory = Memory::create(slot_count, options)?;
        let layout = memory.layout;
        let regions = |owner| Tier::ALL.map(|tier| layout.region(owner, tier));
        let slots = (0..slot_count)
            .map(|slot| SlotState { epoch: 0, regions: regions(Some(SlotId(slot))) })
            .collect();
        let state = State {
            spaces: regions(None).map(|(start, end)| RegionAllocator::new(start, end)),
            live: BTreeMap::new(),
            slots,
            releases: Vec::new(),
            quiet_looks: 0,
        };
        Ok(Self(Arc::new(Shared {
            memory,
            state: Mutex::new(state),
            has_releases: AtomicBool::new(false),
            owner: std::process::id(),
        })))
    }

    /// Returns the number of spare workers that the address space has room for: at most `spares`, fewer if this process
    /// has few addresses left.
    #[must_use]
    pub fn spares_within_limits(workers: u16, spares: u16) -> u16 {
        spares_within(address_budget(), workers, spares)
    }

    /// Allocates a block of `size` bytes in memory. Its contents are unspecified.
    ///
    /// # Errors
    /// [`ArenaError::Full`], [`ArenaError::Scarce`], [`ArenaError::NoMemory`].
    pub fn allocate(&self, size: usize) -> Result<BlockPart, ArenaError> {
        self.take(size, Tier::Memory, Memory::commit)
    }

    /// Allocates a block in memory whose pages are counted but do not exist yet. [`BlockPart::populate`] creates them
    /// range by range, and so does touching them.
    ///
    /// # Errors
    /// [`ArenaError::Full`], [`ArenaError::Scarce`].
    pub fn reserve(&self, size: usize) -> Result<BlockPart, ArenaError> {
        self.take(size, Tier::Memory, |_, _, _| Ok(()))
    }

    /// Reserves a block in memory, or allocates one on disk if memory has no room.
    ///
    /// # Errors
    /// [`ArenaError::Unspilled`]; without a disk as [`Self::reserve`].
    pub fn reserve_or_spill(&self, size: usize) -> Result<BlockPart, ArenaError> {
        self.reserve(size).or_else(|error| self.spill(size, error))
    }

    /// Allocates a block on disk after memory refused it with `error`.
    fn spill(&self, size: usize, error: ArenaError) -> Result<BlockPart, ArenaError> {
        if self.0.memory.disk().is_none() {
            return Err(error);
        }
        self.take(size, Tier::Disk, Memory::commit).map_err(|disk| error.and_unspilled(disk))
    }

    fn take(
        &self,
        size: usize,
        tier: Tier,
        commit: impl FnOnce(&Memory, u64, u64) -> Result<(), ArenaError>,
    ) -> Result<BlockPart, ArenaError> {
        let size = size.max(1) as u64;
        let shared = &self.0;
        let memory = &shared.memory;
        let mut state = shared.lock();
        state.quiet_looks = 0;
        let space = &mut state.spaces[tier.index()];
        let (in_use, limit) = (space.used_size(), memory.layout.region_sizes[tier.index()]);
        let taken = space.take(size).ok_or(ArenaError::full(tier, size, in_use, limit))?;
        if !taken.is_warm {
            let mut charged = memory.charge(None, tier, taken.size);
            if charged.is_err() && tier == Tier::Memory && state.spaces[0].warm_size() > 0 {
                shared.cool(&mut state, 0);
                charged = memory.charge(None, tier, taken.size);
            }
            // Commits without the lock, so that other threads go on. No other thread can have the block yet.
            drop(state);
            let committed = charged.and_then(|()| {
                let committed = commit(memory, taken.offset, taken.size);
                committed.inspect_err(|_| memory.release(None, taken.offset, taken.size))
            });
            state = shared.lock();
            if let Err(error) = committed {
                state.spaces[tier.index()].give_back_cold(taken.offset);
                return Err(error);
            }
        }
        let block = Arc::new(BlockHandle {
            shared: Arc::clone(shared),
            offset: taken.offset,
            size,
            maker: Maker::Client,
            is_exposed: AtomicBool::new(false),
            digest: OnceLock::new(),
        });
        state.insert(&block);
        Ok(BlockPart { block, range: BlockRange { offset: taken.offset, size } })
    }

    /// Copies bytes into a new block: in memory, or on disk if memory has no room.
    ///
    /// # Errors
    /// [`ArenaError::Unspilled`]; without a disk as [`Self::allocate`].
    pub fn store(&self, bytes: &[u8]) -> Result<BlockPart, ArenaError> {
        let part = self.allocate(bytes.len());
        let part = part.or_else(|error| self.spill(bytes.len(), error))?;
        // SAFETY: the block is as large as `bytes`, and no other code has a pointer to it yet.
        unsafe { self.0.memory.fill(part.range.offset, bytes.as_ptr(), bytes.len())? };
        Ok(part)
    }

    /// Allocates a block on disk and reserves its room there.
    ///
    /// # Errors
    /// [`ArenaError::DiskFull`], also if there is no disk; [`ArenaError::Disk`].
    pub(super) fn take_on_disk(&self, size: usize) -> Result<BlockPart, ArenaError> {
        self.take(size, Tier::Disk, Memory::commit)
    }

    /// Returns true if payloads that do not fit into memory go to a disk.
    #[must_use]
    pub fn has_disk(&self) -> bool {
        self.0.memory.disk().is_some()
    }

    /// Returns the bytes of memory that blocks may take.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.0.memory.limit(Tier::Memory)
    }

    /// Returns the part of a live block at an address range of this process.
    #[must_use]
    pub fn find(&self, pointer: *const u8, size: usize) -> Option<BlockPart> {
        let offset = self.0.memory.offset_of(pointer, size)?;
        self.0.lock().find(BlockRange { offset, size: size as u64 })
    }

    /// Returns the part that a worker names with `range`. It lies in a live block, or it is a new block in the worker's
    /// own region.
    ///
    /// # Errors
    /// [`ArenaError::BadRange`].
    pub fn adopt(&self, slot: SlotId, range: BlockRange) -> Result<BlockPart, ArenaError> {
        let bad = ArenaError::BadRange { offset: range.offset, size: range.size };
        if !self.0.memory.contains(range) {
            return Err(bad);
        }
        let mut state = self.0.lock();
        if let Some(part) = state.find(range) {
            return Ok(part);
        }
        let Some(&SlotState { epoch, regions }) = state.slots.get(usize::from(slot.0)) else {
            return Err(bad);
        };
        let end = range.offset + range.size;
        let is_inside = regions.iter().any(|&(first, last)| range.offset >= first && end <= last);
        let before = state.live.range(..end).next_back();
        let overlaps = before.is_some_and(|(&offset, live)| offset + live.size > range.offset);
        if !is_inside || overlaps || !range.offset.is_multiple_of(PAGE_SIZE) {
            return Err(bad);
        }
        let block = Arc::new(BlockHandle {
            shared: Arc::clone(&self.0),
            offset: range.offset,
            size: range.size,
            maker: Maker::Worker { slot, epoch },
            is_exposed: AtomicBool::new(false),
            digest: OnceLock::new(),
        });
        state.insert(&block);
        Ok(BlockPart { block, range })
    }

    /// Prepares a slot for its next worker. The former worker is dead or about to leave. The new worker gets the
    /// largest part of the slot's region that holds no live block; all other free pages there are released.
    pub fn renew(&self, slot: SlotId) {
        let shared = &self.0;
        let mut state = shared.lock();
        let place = usize::from(slot.0);
        state.releases.retain(|(other, _)| *other != slot);
        let gone = state.slots[place].epoch;
        let regions = Tier::ALL.map(|tier| shared.renew_region(&state, slot, gone, tier));
        state.slots[place] = SlotState { epoch: gone.wrapping_add(1), regions };
    }

    /// Returns true if [`Self::take_releases`] has blocks to report to workers.
    #[inline]
    #[must_use]
    pub fn has_releases(&self) -> bool {
        self.0.has_releases.load(Ordering::Relaxed) // the list itself is behind the mutex
    }

    /// Takes the blocks that their workers may use again, with their slots.
    #[must_use]
    pub fn take_releases(&self) -> Vec<(SlotId, u64)> {
        let mut state = self.0.lock();
        self.0.has_releases.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.releases)
    }

    /// Frees warm pages of an idle arena. The client calls it about twice a second.
    pub fn look(&self) {
        let mut state = self.0.lock();
        state.quiet_looks = state.quiet_looks.saturating_add(1);
        if state.quiet_looks >= IDLE_LOOKS {
            self.0.cool(&mut state, IDLE_WARM_MAX);
        }
    }

    /// Returns the resident bytes in memory, including those of the workers.
    #[must_use]
    pub fn resident_size(&self) -> u64 {
        self.0.memory.resident_size(Tier::Memory)
    }

    /// Returns true if callers that can wait should allocate no more blocks: half of the arena's memory is taken, or
    /// payloads are on disk.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        let memory = &self.0.memory;
        memory.resident_size(Tier::Memory) > memory.limit(Tier::Memory) / 2
            || memory.resident_size(Tier::Disk) > 0
    }

    /// Returns the bytes on disk, including those of the workers.
    #[must_use]
    pub fn spilled_size(&self) -> u64 {
        self.0.memory.resident_size(Tier::Disk)
    }

    /// Returns the descriptors with which a worker opens the arena: the memory, and the file on disk, or the memory
    /// again if there is no disk.
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        self.0.memory.descriptors()
    }

    /// Returns the number of live blocks.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.0.lock().live.len()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cool(&self, state: &mut State, limit: u64) {
        for (offset, size) in state.spaces[Tier::Memory.index()].cool(limit) {
            self.memory.release(None, offset, size);
        }
    }

    /// Frees one of the client's own blocks.
    fn free(&self, state: &mut State, offset: u64) {
        let tier = self.memory.tier_of(offset);
        let space = &mut state.spaces[tier.index()];
        if tier == Tier::Disk {
            if let Some(size) = space.give_back_cold(offset) {
                self.memory.release(None, offset, size);
            }
            return;
        }
        space.give_back(offset);
        let limit = warm_max(&self.memory, space.warm_size());
        if space.warm_size() > limit {
            self.cool(state, limit);
        }
    }

    /// Grants the largest free part of a slot's region in one tier to the next worker, and returns that part. Releases
    /// all free pages of the region and adds the live blocks of the former worker to the client's counter.
    fn renew_region(&self, state: &State, slot: SlotId, gone: u32, tier: Tier) -> (u64, u64) {
        let (first, last) = self.memory.layout.region(Some(slot), tier);
        let (mut widest, mut start) = ((first, first), first);
        let mut inherited = 0;
        let living = state.live.range(first..last);
        let bounds = living.map(|(&offset, live)| {
            let is_of_last = live.maker == Maker::Worker { slot, epoch: gone };
            inherited += if is_of_last { live.size.next_multiple_of(PAGE_SIZE) } else { 0 };
            (offset, (offset + live.size).next_multiple_of(PAGE_SIZE))
        });
        for (block, behind) in bounds.chain([(last, last)]) {
            self.memory.punch(start, block - start);
            if block - start > widest.1 - widest.0 {
                widest = (start, block);
            }
            start = behind;
        }
        self.memory.inherit(tier, inherited);
        self.memory.grant(slot, tier, widest);
        widest
    }
}

impl State {
    fn find(&self, range: BlockRange) -> Option<BlockPart> {
        let (&offset, live) = self.live.range(..=range.offset).next_back()?;
        if range.end()? > offset + live.size {
            return None;
        }
        Some(BlockPart { block: live.block.upgrade()?, range })
    }

    fn insert(&mut self, block: &Arc<BlockHandle>) {
        let live = Live { size: block.size, maker: block.maker, block: Arc::downgrade(block) };
        self.live.insert(block.offset, live);
    }
}

impl Drop for BlockHandle {
    fn drop(&mut self) {
        let shared = &self.shared;
        if std::process::id() != shared.owner {
            return;
        }
        let mut state = shared.lock();
        state.live.remove(&self.offset);
        match self.maker {
            Maker::Client => shared.free(&mut state, self.offset),
            Maker::Worker { slot, epoch } if state.slots[usize::from(slot.0)].epoch == epoch => {
                state.releases.push((slot, self.offset));
                shared.has_releases.store(true, Ordering::Relaxed); // see `has_releases`
            }
            Maker::Worker { .. } => {
                let size = self.size.next_multiple_of(PAGE_SIZE);
                shared.memory.release(None, self.offset, size);
            }
        }
    }
}

impl BlockPart {
    /// Returns the part's range in the arena.
    #[must_use]
    pub const fn range(&self) -> BlockRange {
        self.range
    }

    /// Returns true if the part is on disk.
    #[must_use]
    pub fn is_spilled(&self) -> bool {
        self.block.shared.memory.tier_of(self.range.offset) == Tier::Disk
    }

    /// Returns the address of the part's first byte in this process. It is valid for the part's size while any part of
    /// the block is alive. Other processes may write to the bytes, so they are read through the pointer and never by a
    /// reference.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.block.shared.memory.pointer(self.range.offset)
    }

    /// Returns a weak reference to the block of this part.
    #[must_use]
    pub fn downgrade(&self) -> WeakBlock {
        WeakBlock(Arc::downgrade(&self.block))
    }

    /// Returns true if the part holds exactly `bytes` and cannot change. Returns false for workers' blocks and exposed
    /// blocks.
    #[must_use]
    pub fn holds(&self, bytes: &[u8]) -> bool {
        if self.size() != bytes.len() || self.is_exposed() || !self.is_own() {
            return false;
        }
        // SAFETY: the part is `size` readable bytes. No process writes to them: the block is the client's own, which workers
        // map read-only, and nothing at the client was given a way to write to it.
        let own = unsafe { std::slice::from_raw_parts(self.pointer(), bytes.len()) };
        own == bytes
    }

    /// Returns true if both parts hold the same bytes and will as long as both live. Returns false for different ranges
    /// if either block is exposed, because its contents may change.
    #[must_use]
    pub fn has_same_bytes(&self, other: &Self) -> bool {
        if self.range == other.range {
            return true;
        }
        let size = self.size();
        if size != other.size() || self.is_exposed() || other.is_exposed() {
            return false;
        }
        // SAFETY: both are `size` readable bytes behind pointers, and no reference is made to them. The worker that
        // made a block could write to it meanwhile, which falsifies the results of its own task only.
        unsafe { libc::memcmp(self.pointer().cast(), other.pointer().cast(), size) == 0 }
    }

    fn is_own(&self) -> bool {
        self.block.maker == Maker::Client
    }

    /// Returns the part's size, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        usize::try_from(self.range.size).unwrap_or(0)
    }

    /// Copies the bytes into a new vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let size = self.size();
        let mut bytes = Vec::with_capacity(size);
        // SAFETY: the part is `size` readable bytes, and the vector has room for as many.
        unsafe {
            std::ptr::copy_nonoverlapping(self.pointer(), bytes.as_mut_ptr(), size);
            bytes.set_len(size);
        }
        bytes
    }

    /// Copies bytes to `space`, as many as both have.
    pub fn copy_to(&self, space: &mut [u8]) {
        let size = self.size().min(space.len());
        // SAFETY: the part is at least `size` readable bytes, the slice as many writable ones, and the slice is
        // borrowed exclusively.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer(), space.as_mut_ptr(), size) };
    }

    /// Creates the pages of `size` bytes of the part, starting at byte `offset`. The range is cut at the part's end.
    ///
    /// # Errors
    /// [`ArenaError::NoMemory`].
    pub fn populate(&self, offset: u64, size: u64) -> Result<(), ArenaError> {
        let first = (self.range.offset + offset.min(self.range.size)) / PAGE_SIZE * PAGE_SIZE;
        let end = self.range.offset + offset.saturating_add(size).min(self.range.size);
        let size = end.next_multiple_of(PAGE_SIZE).saturating_sub(first);
        if size == 0 { Ok(()) } else { self.block.shared.memory.populate(first, size) }
    }

    /// Copies bytes to `space`, starting at byte `offset` of the part. Returns the number of bytes copied, which is the
    /// smaller of both sizes.
    #[must_use]
    pub fn read_at(&self, offset: u64, space: &mut [u8]) -> usize {
        let Some((pointer, left)) = self.at(offset) else { return 0 };
        let size = left.min(space.len());
        // SAFETY: `left` bytes at `pointer` are readable, the slice has `size` writable ones, and the slice is borrowed
        // exclusively.
        unsafe { std::ptr::copy_nonoverlapping(pointer, space.as_mut_ptr(), size) };
        size
    }

    /// Copies `bytes` into the part, starting at its byte `offset`. Returns false, without copying, if they do not fit.
    #[must_use]
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some((pointer, _)) = self.at(offset).filter(|(_, left)| bytes.len() <= *left) else {
            return false;
        };
        // SAFETY: at least that many writable bytes are at `pointer`, and no reference covers them: see
        // `Self::pointer`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
        true
    }

    /// Returns the address of byte `offset` and the number of bytes from there on.
    fn at(&self, offset: u64) -> Option<(*mut u8, usize)> {
        let left = self.range.size.checked_sub(offset)?;
        if left == 0 {
            return None;
        }
        let pointer = self.block.shared.memory.pointer(self.range.offset + offset);
        Some((pointer, usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// Returns a subrange of this part, or `None` if it reaches beyond the part.
    pub(super) fn piece(&self, offset: u64, size: u64) -> Option<Self> {
        let end = offset.checked_add(size).filter(|end| *end <= self.range.size);
        end.map(|_| Self {
            block: Arc::clone(&self.block),
            range: BlockRange { offset: self.range.offset + offset, size },
        })
    }

    /// Writes bytes to the part's place in the file on disk, at most as many as the part has.
    ///
    /// # Errors
    /// [`ArenaError::Disk`].
    pub(super) fn write_through(&self, bytes: &[u8]) -> Result<(), ArenaError> {
        let memory = &self.block.shared.memory;
        memory.write_through(self.range.offset, &bytes[..self.size().min(bytes.len())])
    }

    /// Makes the system start moving the bytes from memory to the disk, without waiting for it.
    pub(super) fn begin_writing(&self) {
        self.block.shared.memory.begin_writing(self.range);
    }

    /// Returns the digest that [`Self::note_digest`] stored, unless the block is exposed and may have changed.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.block.digest.get().copied().filter(|_| self.is_whole() && !self.is_exposed())
    }

    /// Stores the digest of the bytes for as long as the block lives.
    pub fn note_digest(&self, digest: Digest) {
        if self.is_whole() && !self.is_exposed() {
            let _ = self.block.digest.set(digest);
        }
    }

    /// Returns true if the part covers its whole block.
    fn is_whole(&self) -> bool {
        self.range.offset == self.block.offset && self.range.size == self.block.size
    }

    /// Returns true if this part holds the only strong reference to its block.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        Arc::strong_count(&self.block) == 1
    }

    /// Marks the block as exposed: its contents may change from now on.
    pub fn expose(&self) {
        // Relaxed without a partner: readers and writers of the flag hold the interpreter lock.
        self.block.is_exposed.store(true, Ordering::Relaxed);
    }

    /// Returns true if the block is exposed: its contents may change.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.block.is_exposed.load(Ordering::Relaxed)
    }
}
