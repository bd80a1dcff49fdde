//! The worker's side of the arena: it reads everything and allocates in its own region.

use super::layout::Tier;
use super::memory::Memory;
use super::space::RegionAllocator;
use super::{ArenaError, IDLE_LOOKS, IDLE_WARM_MAX, warm_max};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_sync::process;
use gristmill_wire::{BlockRange, SlotId};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A worker's handle to the arena.
#[derive(Debug)]
pub struct WorkerArena {
    memory: Memory,
    slot: SlotId,
    state: Mutex<State>,
    /// True if there may be keeps or returns to report to the client.
    has_unsent: AtomicBool,
    /// The generation of the process that opened the arena.
    generation: u32,
}

#[derive(Debug)]
struct State {
    /// The worker's allocators, by tier.
    spaces: [RegionAllocator; 2],
    /// Arguments that objects in this process view, by offset.
    used: HashMap<u64, Used>,
    /// Offsets of `used` that were added since the last report to the client.
    fresh: Vec<u64>,
    /// Kept blocks that no object views any more.
    returns: Vec<u64>,
    quiet_looks: u32,
}

#[derive(Debug, Default)]
struct Used {
    count: usize,
    /// True if the client knows that the block is kept beyond its task.
    is_kept: bool,
}

/// A use of a part of the arena by an object in this process; dropping it ends the use.
#[derive(Debug)]
pub struct BlockUse {
    arena: Arc<WorkerArena>,
    offset: u64,
}

impl WorkerArena {
    /// Maps the arena as the worker in `slot`, from the descriptors of [`super::ClientArena::descriptors`].
    ///
    /// # Errors
    /// [`ArenaError::NotAnArena`], [`ArenaError::Create`] if the process lacks address space for it.
    pub fn open([memory, disk]: [OwnedFd; 2], slot: SlotId) -> Result<Self, ArenaError> {
        let memory = Memory::open(memory, disk, slot)?;
        let space = |tier| {
            let (start, end) = memory.granted(slot, tier);
            RegionAllocator::new(start, end)
        };
        let state = State {
            spaces: Tier::ALL.map(space),
            used: HashMap::new(),
            fresh: Vec::new(),
            returns: Vec::new(),
            quiet_looks: 0,
        };
        let (state, has_unsent) = (Mutex::new(state), AtomicBool::new(false));
        Ok(Self { memory, slot, state, has_unsent, generation: process::generation() })
    }

    /// Returns true if any object in this process views arguments.
    #[must_use]
    pub fn is_viewed(&self) -> bool {
        !self.lock().used.is_empty()
    }

    /// Returns true if this process opened the arena. A forked child shares the memory and must not allocate from it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        process::generation() == self.generation
    }

    /// Copies `size` bytes into a new block of this worker: in memory, or on disk if memory has no room.
    ///
    /// # Errors
    /// [`ArenaError::Unspilled`]; without a disk [`ArenaError::Full`], [`ArenaError::NoMemory`].
    ///
    /// # Safety
    /// `bytes` points to `size` readable bytes.
    pub unsafe fn store(&self, bytes: *const u8, size: usize) -> Result<BlockRange, ArenaError> {
        let wanted = size.max(1) as u64;
        let offset = match self.take(wanted, Tier::Memory) {
            Err(error) if self.memory.disk().is_some() => {
                self.take(wanted, Tier::Disk).map_err(|disk| error.and_unspilled(disk))?
            }
            taken => taken?,
        };
        // SAFETY: the block is new and has at least `size` bytes; the caller promises `bytes`, which cannot overlap the
        // new block.
        let filled = unsafe { self.memory.fill(offset, bytes, size) };
        filled.inspect_err(|_| self.free(offset))?;
        Ok(BlockRange { offset, size: wanted })
    }

    /// Allocates a block in a tier. Returns its offset.
    fn take(&self, size: u64, tier: Tier) -> Result<u64, ArenaError> {
        let mut state = self.lock();
        state.quiet_looks = 0;
        let space = &mut state.spaces[tier.index()];
        let (in_use, limit) = (space.used_size(), self.memory.granted(self.slot, tier));
        let limit = limit.1 - limit.0;
        let taken = space.take(size).ok_or(ArenaError::full(tier, size, in_use, limit))?;
        if taken.is_warm {
            return Ok(taken.offset);
        }
        let owner = Some(self.slot);
        let mut charged = self.memory.charge(owner, tier, taken.size);
        if charged.is_err() && tier == Tier::Memory && state.spaces[0].warm_size() > 0 {
            self.cool(&mut state, 0);
            charged = self.memory.charge(owner, tier, taken.size);
        }
        let committed = charged.and_then(|()| {
            let committed = self.memory.commit(taken.offset, taken.size);
            committed.inspect_err(|_| self.memory.release(owner, taken.offset, taken.size))
        });
        if let Err(error) = committed {
            state.spaces[tier.index()].give_back_cold(taken.offset);
            return Err(error);
        }
        Ok(taken.offset)
    }

    /// Frees a block of this worker; ignores an unknown offset.
    pub fn free(&self, offset: u64) {
        let mut state = self.lock();
        let tier = self.memory.tier_of(offset);
        let space = &mut state.spaces[tier.index()];
        if tier == Tier::Disk {
            if let Some(size) = space.give_back_cold(offset) {
                self.memory.release(Some(self.slot), offset, size);
            }
            return;
        }
        space.give_back(offset);
        let limit = warm_max(&self.memory, space.warm_size());
        if space.warm_size() > limit {
            self.cool(&mut state, limit);
        }
    }

    /// Returns the range of the arena at an address range of this process.
    #[must_use]
    pub fn find(&self, pointer: *const u8, size: usize) -> Option<BlockRange> {
        let offset = self.memory.offset_of(pointer, size)?;
        let range = BlockRange { offset, size: size as u64 };
        self.memory.contains(range).then_some(range)
    }

    /// Returns the address of the first byte of a range that the client names.
    ///
    /// # Errors
    /// [`ArenaError::BadRange`] unless all of the range is in the arena.
    pub fn pointer(&self, range: BlockRange) -> Result<*const u8, ArenaError> {
        if !self.memory.contains(range) {
            return Err(ArenaError::BadRange { offset: range.offset, size: range.size });
        }
        Ok(self.memory.pointer(range.offset))
    }

    /// Appends the bytes of a range that the client names to `out`.
    ///
    /// # Errors
    /// As [`Self::pointer`].
    pub fn append_to(&self, range: BlockRange, out: &mut Vec<u8>) -> Result<(), ArenaError> {
        let pointer = self.pointer(range)?;
        let size = usize::try_from(range.size).unwrap_or(0);
        out.reserve(size);
        // SAFETY: the range was just checked; the vector has room for that many bytes after its end.
        unsafe {
            std::ptr::copy_nonoverlapping(pointer, out.as_mut_ptr().add(out.len()), size);
            out.set_len(out.len() + size);
        }
        Ok(())
    }

    /// Records that an object views the block at `offset`, until the returned use is dropped.
    #[must_use]
    pub fn begin_use(self: &Arc<Self>, offset: u64) -> BlockUse {
        let mut state = self.lock();
        let used = state.used.entry(offset).or_default();
        used.count += 1;
        if used.count == 1 {
            state.fresh.push(offset);
            self.tell();
        }
        BlockUse { arena: Arc::clone(self), offset }
    }

    /// Returns true if [`Self::take_keeps`] or [`Self::take_returns`] may have entries.
    #[inline]
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.has_unsent.load(Ordering::Relaxed) // the entries are behind the mutex
    }

    /// Takes the offsets of blocks that are still viewed although their task is over. The worker reports them before
    /// the task's answer.
    #[must_use]
    pub fn take_keeps(&self) -> Vec<u64> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut keeps = Vec::new();
        for offset in state.fresh.drain(..) {
            if let Some(used) = state.used.get_mut(&offset)
                && !used.is_kept
            {
                used.is_kept = true;
                keeps.push(offset);
            }
        }
        keeps
    }

    /// Takes the offsets of kept blocks that no object views any more. The worker reports them after an answer that may
    /// name them.
    #[must_use]
    pub fn take_returns(&self) -> Vec<u64> {
        let mut state = self.lock();
        self.has_unsent.store(!state.fresh.is_empty(), Ordering::Relaxed);
        std::mem::take(&mut state.returns)
    }

    /// Frees warm pages of an idle arena. The worker calls it about twice a second.
    pub fn look(&self) {
        let mut state = self.lock();
        state.quiet_looks = state.quiet_looks.saturating_add(1);
        if state.quiet_looks >= IDLE_LOOKS {
            self.cool(&mut state, IDLE_WARM_MAX);
        }
    }

    /// Releases the pages of free blocks to the system until at most `limit` bytes of free blocks are warm, that is, have
    /// pages.
    fn cool(&self, state: &mut State, limit: u64) {
        for (offset, size) in state.spaces[Tier::Memory.index()].cool(limit) {
            self.memory.release(Some(self.slot), offset, size);
        }
    }

    fn tell(&self) {
        self.has_unsent.store(true, Ordering::Relaxed); // see `has_unsent`
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BlockUse {
    fn drop(&mut self) {
        let mut state = self.arena.lock();
        let Some(used) = state.used.get_mut(&self.offset) else { return };
        used.count -= 1;
        if used.count == 0 {
            let was_kept = used.is_kept;
            state.used.remove(&self.offset);
            if was_kept {
                state.returns.push(self.offset);
                self.arena.tell();
            }
        }
    }
}
