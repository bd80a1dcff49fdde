//! The client's side of the arena.

use super::memory::Memory;
use super::space::{PAGE_SIZE, Space, Taken};
use super::{ArenaError, IDLE_LOOKS, IDLE_WARM_MAX, warm_max};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_wire::{BlockRange, Digest, SlotId};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The arena as its owner has it. Clones share it.
#[derive(Debug, Clone)]
pub struct ClientArena(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: Memory,
    state: Mutex<State>,
    /// There are blocks that workers have not been told of.
    has_releases: AtomicBool,
    /// A forked child shares the pages and must free none.
    owner: u32,
}

#[derive(Debug)]
struct State {
    space: Space,
    /// Every block with a handle, by offset.
    live: BTreeMap<u64, Live>,
    slots: Vec<SlotState>,
    /// Workers' blocks that nobody here needs any more.
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
    /// Where the worker of now may allocate.
    region: (u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    Client,
    Worker { slot: SlotId, epoch: u32 },
}

/// A block that somebody needs. The last handle's end frees it.
#[derive(Debug)]
pub struct BlockHandle {
    shared: Arc<Shared>,
    offset: u64,
    size: u64,
    maker: Maker,
    /// Somebody has a way to write to it: its contents may change.
    is_exposed: AtomicBool,
    /// What its bytes hash to, once somebody has found that out.
    digest: OnceLock<Digest>,
}

/// A piece of a block that somebody needs.
#[derive(Debug, Clone)]
pub struct BlockPart {
    block: Arc<BlockHandle>,
    range: BlockRange,
}

impl ClientArena {
    /// Makes an arena for a client and `slot_count` workers.
    ///
    /// # Errors
    /// [`ArenaError::Create`].
    pub fn create(slot_count: u16) -> Result<Self, ArenaError> {
        let memory = Memory::create(slot_count)?;
        let (start, end) = memory.client_region();
        let slots = (0..slot_count)
            .map(|slot| SlotState { epoch: 0, region: memory.region(SlotId(slot)) })
            .collect();
        let state = State {
            space: Space::new(start, end),
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

    /// Takes a block of `size` bytes, whose contents are whatever was there.
    ///
    /// # Errors
    /// [`ArenaError::Full`], [`ArenaError::NoMemory`].
    pub fn allocate(&self, size: usize) -> Result<BlockPart, ArenaError> {
        // Without the lock, so that others go on; nobody else can have the block.
        self.take(size, |memory, taken| memory.commit(None, taken.offset, taken.size))
    }

    /// Takes a block whose pages are counted, and do not exist yet: [`BlockPart::populate`] makes them, a part at a time,
    /// and so does touching them.
    ///
    /// # Errors
    /// [`ArenaError::Full`].
    pub fn reserve(&self, size: usize) -> Result<BlockPart, ArenaError> {
        self.take(size, |memory, taken| memory.charge(None, taken.size))
    }

    fn take(
        &self,
        size: usize,
        commit: impl FnOnce(&Memory, &Taken) -> Result<(), ArenaError>,
    ) -> Result<BlockPart, ArenaError> {
        let size = size.max(1) as u64;
        let shared = &self.0;
        let mut state = shared.lock();
        state.quiet_looks = 0;
        let (in_use, limit) = (state.space.used_size(), shared.memory.client_region().1);
        let taken = state.space.take(size).ok_or(ArenaError::Full { size, in_use, limit })?;
        if !taken.is_warm {
            drop(state);
            let committed = commit(&shared.memory, &taken);
            state = shared.lock();
            if let Err(error) = committed {
                state.space.give_back_cold(taken.offset);
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

    /// Copies bytes into a new block.
    ///
    /// # Errors
    /// As [`Self::allocate`].
    pub fn store(&self, bytes: &[u8]) -> Result<BlockPart, ArenaError> {
        let part = self.allocate(bytes.len())?;
        // SAFETY: the block is as large as `bytes` and nobody else has it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.pointer(), bytes.len()) };
        Ok(part)
    }

    /// The living block that an address range of this process lies in.
    #[must_use]
    pub fn find(&self, pointer: *const u8, size: usize) -> Option<BlockPart> {
        let offset = self.0.memory.offset_of(pointer, size)?;
        self.0.lock().find(BlockRange { offset, size: size as u64 })
    }

    /// The piece of the arena that a worker names: of a living block, or a new block in the worker's own region.
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
        let Some(&SlotState { epoch, region }) = state.slots.get(usize::from(slot.0)) else {
            return Err(bad);
        };
        let end = range.offset + range.size;
        let is_inside = range.offset >= region.0 && end <= region.1;
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

    /// Prepares a slot for its next worker, the former one being dead or about to leave: the new one gets the largest
    /// part of the slot's region in which no block lives; all other pages there go.
    pub fn renew(&self, slot: SlotId) {
        let shared = &self.0;
        let (first, last) = shared.memory.region(slot);
        let mut state = shared.lock();
        let place = usize::from(slot.0);
        state.releases.retain(|(other, _)| *other != slot);
        let (mut widest, mut start) = ((first, first), first);
        let mut inherited = 0;
        let gone = state.slots[place].epoch;
        let living = state.live.range(first..last);
        let bounds = living.map(|(&offset, live)| {
            let is_of_last = live.maker == Maker::Worker { slot, epoch: gone };
            inherited += if is_of_last { live.size.next_multiple_of(PAGE_SIZE) } else { 0 };
            (offset, (offset + live.size).next_multiple_of(PAGE_SIZE))
        });
        for (block, behind) in bounds.chain([(last, last)]) {
            shared.memory.punch(start, block - start);
            if block - start > widest.1 - widest.0 {
                widest = (start, block);
            }
            start = behind;
        }
        shared.memory.inherit(inherited);
        shared.memory.grant(slot, widest.0, widest.1);
        state.slots[place] = SlotState { epoch: gone.wrapping_add(1), region: widest };
    }

    /// Whether workers are to be told of blocks.
    #[inline]
    #[must_use]
    pub fn has_releases(&self) -> bool {
        self.0.has_releases.load(Ordering::Relaxed) // the list itself is behind the mutex
    }

    /// Blocks that their workers may use again, by slot.
    #[must_use]
    pub fn take_releases(&self) -> Vec<(SlotId, u64)> {
        let mut state = self.0.lock();
        self.0.has_releases.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.releases)
    }

    /// To be called now and then: frees the pages of an arena that is not used.
    pub fn look(&self) {
        let mut state = self.0.lock();
        state.quiet_looks = state.quiet_looks.saturating_add(1);
        if state.quiet_looks >= IDLE_LOOKS {
            self.0.cool(&mut state, IDLE_WARM_MAX);
        }
    }

    /// Bytes of pages that exist, the workers' included.
    #[must_use]
    pub fn resident_size(&self) -> u64 {
        self.0.memory.resident_size()
    }

    /// How many blocks live.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.0.lock().live.len()
    }
}

impl AsFd for ClientArena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.memory.as_fd()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cool(&self, state: &mut State, limit: u64) {
        for (offset, size) in state.space.cool(limit) {
            self.memory.release(None, offset, size);
        }
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
            Maker::Client => {
                state.space.give_back(self.offset);
                let limit = warm_max();
                if state.space.warm_size() > limit {
                    shared.cool(&mut state, limit);
                }
            }
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
    /// Where it is.
    #[must_use]
    pub const fn range(&self) -> BlockRange {
        self.range
    }

    /// Its first byte in this process; valid for its size as long as any part of the block lives. Other processes may
    /// write to it: it is read as bytes behind a pointer, and no reference is made to it.
    #[must_use]
    pub fn pointer(&self) -> *mut u8 {
        self.block.shared.memory.pointer(self.range.offset)
    }

    /// Its size, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        usize::try_from(self.range.size).unwrap_or(0)
    }

    /// Copies its bytes out.
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

    /// Copies its bytes to `space`, as many as both have.
    pub fn copy_to(&self, space: &mut [u8]) {
        let size = self.size().min(space.len());
        // SAFETY: the part is at least `size` readable bytes, the slice as many writable ones, and nobody else has it.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer(), space.as_mut_ptr(), size) };
    }

    /// Makes the pages of `size` bytes exist from its byte `offset` on, as far as it goes.
    ///
    /// # Errors
    /// [`ArenaError::NoMemory`].
    pub fn populate(&self, offset: u64, size: u64) -> Result<(), ArenaError> {
        let first = (self.range.offset + offset.min(self.range.size)) / PAGE_SIZE * PAGE_SIZE;
        let end = self.range.offset + offset.saturating_add(size).min(self.range.size);
        let size = end.next_multiple_of(PAGE_SIZE).saturating_sub(first);
        if size == 0 { Ok(()) } else { self.block.shared.memory.populate(first, size) }
    }

    /// Copies bytes out, from its byte `offset` on; how many: as many as both have.
    #[must_use]
    pub fn read_at(&self, offset: u64, space: &mut [u8]) -> usize {
        let Some((pointer, left)) = self.at(offset) else { return 0 };
        let size = left.min(space.len());
        // SAFETY: `left` readable bytes are there, the slice has `size` writable ones, and nobody else has it.
        unsafe { std::ptr::copy_nonoverlapping(pointer, space.as_mut_ptr(), size) };
        size
    }

    /// Copies bytes in, from its byte `offset` on; false, and nothing happens, where they do not fit.
    #[must_use]
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some((pointer, _)) = self.at(offset).filter(|(_, left)| bytes.len() <= *left) else {
            return false;
        };
        // SAFETY: at least so many writable bytes are there, which no reference covers: see `Self::pointer`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
        true
    }

    /// Where its byte `offset` is, and how many there are from there on.
    fn at(&self, offset: u64) -> Option<(*mut u8, usize)> {
        let left = self.range.size.checked_sub(offset)?;
        if left == 0 {
            return None;
        }
        let pointer = self.block.shared.memory.pointer(self.range.offset + offset);
        Some((pointer, usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// What its bytes hash to, if [`Self::note_digest`] was told, and nobody can have changed them since.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.block.digest.get().copied().filter(|_| self.is_whole() && !self.is_exposed())
    }

    /// Notes what its bytes hash to, for as long as the block lives.
    pub fn note_digest(&self, digest: Digest) {
        if self.is_whole() && !self.is_exposed() {
            let _ = self.block.digest.set(digest);
        }
    }

    /// Whether it is all of its block.
    fn is_whole(&self) -> bool {
        self.range.offset == self.block.offset && self.range.size == self.block.size
    }

    /// Whether this is the only need for its block anywhere.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        Arc::strong_count(&self.block) == 1
    }

    /// Notes that somebody may write to the block from now on.
    pub fn expose(&self) {
        // Relaxed without a partner: it is asked by those who hold the interpreter, as the exposer does.
        self.block.is_exposed.store(true, Ordering::Relaxed);
    }

    /// Whether somebody may write to it.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        self.block.is_exposed.load(Ordering::Relaxed)
    }
}
