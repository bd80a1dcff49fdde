//! A worker's side of the arena: it reads everything and allocates in its own region.

use super::memory::Memory;
use super::space::Space;
use super::{ArenaError, IDLE_LOOKS, IDLE_WARM_MAX, warm_max};
use gristmill_sync::atomic::{AtomicBool, Ordering};
use gristmill_wire::{BlockRange, SlotId};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The arena as one worker has it.
#[derive(Debug)]
pub struct WorkerArena {
    memory: Memory,
    slot: SlotId,
    state: Mutex<State>,
    /// There is something to tell the client.
    has_news: AtomicBool,
}

#[derive(Debug)]
struct State {
    space: Space,
    /// Arguments that something in this process views.
    used: HashMap<u64, Used>,
    /// Of those, the ones that came into use since the client was told last.
    fresh: Vec<u64>,
    /// Kept ones that nothing views any more.
    returns: Vec<u64>,
    quiet_looks: u32,
}

#[derive(Debug, Default)]
struct Used {
    count: usize,
    /// The client knows that it is kept beyond its task.
    is_kept: bool,
}

/// Something in this process that views a piece of the arena.
#[derive(Debug)]
pub struct BlockUse {
    arena: Arc<WorkerArena>,
    offset: u64,
}

impl WorkerArena {
    /// Maps the arena as the worker in `slot`.
    ///
    /// # Errors
    /// [`ArenaError::NotAnArena`], [`ArenaError::Create`] when there are no addresses for it.
    pub fn open(descriptor: OwnedFd, slot: SlotId) -> Result<Self, ArenaError> {
        let memory = Memory::open(descriptor, slot)?;
        let (start, end) = memory.granted(slot);
        let state = State {
            space: Space::new(start, end),
            used: HashMap::new(),
            fresh: Vec::new(),
            returns: Vec::new(),
            quiet_looks: 0,
        };
        Ok(Self { memory, slot, state: Mutex::new(state), has_news: AtomicBool::new(false) })
    }

    /// Copies `size` bytes into a new block of the worker's own.
    ///
    /// # Errors
    /// [`ArenaError::Full`], [`ArenaError::NoMemory`].
    ///
    /// # Safety
    /// `bytes` points to `size` readable bytes.
    pub unsafe fn store(&self, bytes: *const u8, size: usize) -> Result<BlockRange, ArenaError> {
        let mut state = self.lock();
        state.quiet_looks = 0;
        let wanted = size.max(1) as u64;
        let (in_use, limit) = (state.space.used_size(), self.memory.granted(self.slot));
        let limit = limit.1 - limit.0;
        let taken =
            state.space.take(wanted).ok_or(ArenaError::Full { size: wanted, in_use, limit })?;
        if !taken.is_warm
            && let Err(error) = self.memory.commit(Some(self.slot), taken.offset, taken.size)
        {
            state.space.give_back_cold(taken.offset);
            return Err(error);
        }
        drop(state);
        // SAFETY: the block is new and `size` bytes at least; `bytes` is as the caller promised, and elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes, self.memory.pointer(taken.offset), size) };
        Ok(BlockRange { offset: taken.offset, size: wanted })
    }

    /// Frees a block of the worker's own; unknown ones are ignored.
    pub fn free(&self, offset: u64) {
        let mut state = self.lock();
        state.space.give_back(offset);
        let limit = warm_max();
        if state.space.warm_size() > limit {
            self.cool(&mut state, limit);
        }
    }

    /// The piece of the arena that an address range of this process is.
    #[must_use]
    pub fn find(&self, pointer: *const u8, size: usize) -> Option<BlockRange> {
        let offset = self.memory.offset_of(pointer, size)?;
        let range = BlockRange { offset, size: size as u64 };
        self.memory.contains(range).then_some(range)
    }

    /// The first byte of a piece that the client names.
    ///
    /// # Errors
    /// [`ArenaError::BadRange`] unless all of it is in the arena.
    pub fn pointer(&self, range: BlockRange) -> Result<*const u8, ArenaError> {
        if !self.memory.contains(range) {
            return Err(ArenaError::BadRange { offset: range.offset, size: range.size });
        }
        Ok(self.memory.pointer(range.offset))
    }

    /// Appends the bytes of a piece that the client names.
    ///
    /// # Errors
    /// As [`Self::pointer`].
    pub fn append_to(&self, range: BlockRange, out: &mut Vec<u8>) -> Result<(), ArenaError> {
        let pointer = self.pointer(range)?;
        let size = usize::try_from(range.size).unwrap_or(0);
        out.reserve(size);
        // SAFETY: the range was just checked; the vector has room for as many bytes behind its end.
        unsafe {
            std::ptr::copy_nonoverlapping(pointer, out.as_mut_ptr().add(out.len()), size);
            out.set_len(out.len() + size);
        }
        Ok(())
    }

    /// Notes that something views the piece at `offset` from now on.
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

    /// Whether [`Self::take_keeps`] or [`Self::take_returns`] may have something.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed) // what there is, is behind the mutex
    }

    /// Pieces that are still viewed although their task is over: to be told before its answer.
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

    /// Kept pieces that nothing views any more: to be told after the answer that may name them.
    #[must_use]
    pub fn take_returns(&self) -> Vec<u64> {
        let mut state = self.lock();
        self.has_news.store(!state.fresh.is_empty(), Ordering::Relaxed);
        std::mem::take(&mut state.returns)
    }

    /// To be called now and then: frees the pages of an arena that is not used.
    pub fn look(&self) {
        let mut state = self.lock();
        state.quiet_looks = state.quiet_looks.saturating_add(1);
        if state.quiet_looks >= IDLE_LOOKS {
            self.cool(&mut state, IDLE_WARM_MAX);
        }
    }

    fn cool(&self, state: &mut State, limit: u64) {
        for (offset, size) in state.space.cool(limit) {
            self.memory.release(Some(self.slot), offset, size);
        }
    }

    fn tell(&self) {
        self.has_news.store(true, Ordering::Relaxed); // see `has_news`
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
