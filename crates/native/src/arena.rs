//! Blocks of the arena as Python objects with a buffer, and their use in encoding and decoding.
//!
//! In the worker an argument is a read-only view. In the client a result is writable: in its block if no one else needs
//! that block, else as a copy. If the program asked for views, the result is a read-only view. A view that is sent
//! again travels as the index of its block, without a copy.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_client::{ArenaError, BlockPart, ClientArena};
use gristmill_shm::{WeakBlock, WorkerArena};
use gristmill_wire::BlockRange;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer_view::{OwnedMemory, fill_view};
use crate::codec::{BlockSink, BlockSource, malformed};
use crate::error;
use crate::object::Owned;

/// A piece of the arena with a buffer. Arrays over it keep it alive, and it keeps the block alive.
#[pyclass(frozen, module = "gristmill._native")]
pub struct ArenaMemory {
    pointer: *mut u8,
    size: usize,
    is_readonly: bool,
    _holder: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointer is to shared memory that the holder keeps mapped, and is not bound to a thread.
unsafe impl Send for ArenaMemory {}
// SAFETY: as above; only users of the buffer write to the memory, as with any buffer.
unsafe impl Sync for ArenaMemory {}

#[pymethods]
impl ArenaMemory {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let &Self { pointer, size, is_readonly, .. } = slf.get();
        let memory = OwnedMemory { pointer, size, is_readonly };
        // SAFETY: Python passes a view to fill in; the holder keeps the memory for as long as this object lives.
        unsafe { fill_view(slf.as_any(), (view, flags), &memory) }
    }

    fn __len__(&self) -> usize {
        self.size
    }
}

impl ArenaMemory {
    fn make(
        py: Python<'_>,
        (pointer, size): (*mut u8, usize),
        is_readonly: bool,
        holder: Arc<dyn Any + Send + Sync>,
    ) -> PyResult<Owned> {
        let memory = Self { pointer, size, is_readonly, _holder: holder };
        Ok(Owned::from_bound(Bound::new(py, memory)?.into_any()))
    }

    /// Makes an object over a part of the client's arena.
    ///
    /// # Errors
    /// `MemoryError`.
    pub fn of_part(py: Python<'_>, part: &BlockPart, is_readonly: bool) -> PyResult<Owned> {
        if !is_readonly {
            part.expose();
        }
        let place = (part.pointer(), part.size());
        Self::make(py, place, is_readonly, Arc::new(part.clone()))
    }
}

/// Converts an error of the arena into a `MemoryError`.
pub fn no_memory(py: Python<'_>, error: &ArenaError) -> PyErr {
    error::coded(py, PyMemoryError::new_err(error.to_string()), error.code())
}

/// Blocks that store the large parts of waiting calls, by the address and size of each part in the program. The same
/// array is stored only once while its contents stay the same.
#[derive(Debug, Default)]
pub struct Stored {
    blocks: HashMap<(usize, usize), WeakBlock>,
    /// Number of blocks at which dead ones are removed.
    sweep_at: usize,
    passed: u64,
}

/// Minimum number of remembered blocks before dead ones are removed.
const STORED_MIN: usize = 64;
/// Maximum number of live remembered blocks: a program rarely submits more large arrays than this in turn.
const STORED_MAX: usize = 1024;

impl Stored {
    /// Adds the bytes of a call besides its large parts.
    pub const fn note_payload(&mut self, size: usize) {
        self.passed += size as u64;
    }

    /// Returns the bytes of all large parts of calls so far, including those that were stored already, and those of
    /// [`Self::note_payload`].
    pub const fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the block of an earlier, still waiting call for bytes at this address. The bytes may have changed since:
    /// the caller compares them. That reads both, costs less than the copy that it saves, and ends at the first
    /// difference.
    fn find(&mut self, bytes: &[u8]) -> Option<BlockPart> {
        self.passed += bytes.len() as u64;
        self.blocks.get(&(bytes.as_ptr() as usize, bytes.len()))?.upgrade()
    }

    fn note(&mut self, bytes: &[u8], part: &BlockPart) {
        if self.blocks.len() >= self.sweep_at.max(STORED_MIN) {
            self.blocks.retain(|_, block| block.is_live());
            if self.blocks.len() >= STORED_MAX {
                self.blocks.clear();
            }
            self.sweep_at = self.blocks.len() * 2;
        }
        self.blocks.insert((bytes.as_ptr() as usize, bytes.len()), part.downgrade());
    }
}

/// A sink for the arguments that the client sends.
pub struct ClientSink<'a> {
    arena: &'a ClientArena,
    stored: &'a Mutex<Stored>,
    /// True if arrays in the arena travel by reference even if the program could still change them.
    views: bool,
    parts: Vec<BlockPart>,
    error: Option<ArenaError>,
}

impl<'a> ClientSink<'a> {
    /// Creates a sink without blocks.
    pub const fn new(arena: &'a ClientArena, stored: &'a Mutex<Stored>, views: bool) -> Self {
        Self { arena, stored, views, parts: Vec::new(), error: None }
    }

    /// Copies bytes into the arena, unless a waiting call has stored the same bytes.
    fn copy(&self, bytes: &[u8]) -> Result<BlockPart, ArenaError> {
        let known = self.lock().find(bytes);
        if let Some(part) = known.filter(|part| part.holds(bytes)) {
            return Ok(part);
        }
        let part = self.arena.store(bytes)?;
        self.lock().note(bytes, &part);
        Ok(part)
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the blocks stored so far.
    pub fn parts(&self) -> &[BlockPart] {
        &self.parts
    }

    /// Forgets the blocks stored so far.
    pub fn clear(&mut self) {
        self.parts.clear();
    }

    /// Returns the exception for a block that could not be stored.
    pub fn failure(&self, py: Python<'_>) -> PyErr {
        let no_memory = |error| no_memory(py, error);
        self.error.as_ref().map_or_else(|| PyMemoryError::new_err(()), no_memory)
    }
}

impl BlockSink for ClientSink<'_> {
    unsafe fn store(&mut self, data: *const u8, size: usize, is_readonly: bool) -> Option<u32> {
        let known = self.arena.find(data, size);
        let known = known.filter(|part| self.views || (is_readonly && !part.is_exposed()));
        let part = known.map_or_else(
            // SAFETY: the caller guarantees it.
            || self.copy(unsafe { std::slice::from_raw_parts(data, size) }),
            Ok,
        );
        match part {
            Ok(part) => self.parts.push(part),
            Err(error) => {
                self.error = Some(error);
                return None;
            }
        }
        u32::try_from(self.parts.len() - 1).ok()
    }
}

/// The blocks of a result at the client.
pub struct ClientSource<'a> {
    parts: &'a [BlockPart],
    views: bool,
}

impl<'a> ClientSource<'a> {
    /// Creates a source from the blocks of one outcome.
    pub const fn new(parts: &'a [BlockPart], views: bool) -> Self {
        Self { parts, views }
    }

    fn part(&self, index: u32) -> PyResult<&'a BlockPart> {
        self.parts
            .get(index as usize)
            .ok_or_else(|| malformed("it names a block that does not exist"))
    }
}

impl BlockSource for ClientSource<'_> {
    fn bytes(&self, index: u32) -> PyResult<(*const u8, usize)> {
        let part = self.part(index)?;
        Ok((part.pointer(), part.size()))
    }

    fn memory(&self, py: Python<'_>, index: u32) -> PyResult<Owned> {
        let part = self.part(index)?;
        if self.views || part.is_sole() {
            return ArenaMemory::of_part(py, part, self.views);
        }
        // SAFETY: the part is `size` readable bytes, which are copied.
        let copy = unsafe {
            ffi::PyByteArray_FromStringAndSize(part.pointer().cast(), part.size().cast_signed())
        };
        Owned::or_raise(py, copy)
    }
}

/// A sink for the results that a worker sends. If a payload is discarded, the sink frees the blocks made for it.
pub struct WorkerSink<'a> {
    arena: &'a WorkerArena,
    blocks: Vec<BlockRange>,
    /// Offsets of the blocks that this sink made.
    own: Vec<u64>,
    error: Option<ArenaError>,
}

impl<'a> WorkerSink<'a> {
    /// Creates a sink without blocks.
    pub const fn new(arena: &'a WorkerArena) -> Self {
        Self { arena, blocks: Vec::new(), own: Vec::new(), error: None }
    }

    /// Returns the blocks, which belong to the client from now on.
    pub fn into_blocks(mut self) -> Vec<BlockRange> {
        self.own.clear();
        std::mem::take(&mut self.blocks)
    }

    /// Stores the encoded bytes themselves in a block, in front of the others.
    ///
    /// # Errors
    /// `MemoryError`.
    pub fn store_body(&mut self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        self.end_if_forked();
        // SAFETY: a slice is as many readable bytes as its length.
        let block = unsafe { self.arena.store(bytes.as_ptr(), bytes.len()) };
        let block = block.map_err(|error| no_memory(py, &error))?;
        self.own.push(block.offset);
        self.blocks.insert(0, block);
        Ok(())
    }

    /// Ends this process if methods of the value have forked it: its blocks would be those of the worker.
    fn end_if_forked(&self) {
        if !self.arena.is_ours() {
            // SAFETY: the interpreter is held whenever values are encoded.
            crate::forked::leave(unsafe { Python::assume_attached() }, None);
        }
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the bytes of all blocks.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| block.size).sum()
    }

    /// Forgets the blocks stored so far, and frees those made here.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.own.drain(..).for_each(|offset| self.arena.free(offset));
    }

    /// Returns the exception for a block that could not be stored.
    pub fn failure(&self, py: Python<'_>) -> PyErr {
        let no_memory = |error| no_memory(py, error);
        self.error.as_ref().map_or_else(|| PyMemoryError::new_err(()), no_memory)
    }
}

impl BlockSink for WorkerSink<'_> {
    unsafe fn store(&mut self, data: *const u8, size: usize, _is_readonly: bool) -> Option<u32> {
        self.end_if_forked();
        // In a worker Python only has views of arguments in the arena, and those cannot change.
        let block = match self.arena.find(data, size) {
            Some(known) => known,
            // SAFETY: the caller guarantees it.
            None => match unsafe { self.arena.store(data, size) } {
                Ok(block) => {
                    self.own.push(block.offset);
                    block
                }
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            },
        };
        self.blocks.push(block);
        u32::try_from(self.blocks.len() - 1).ok()
    }
}

impl Drop for WorkerSink<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The blocks of one argument, or of one parent's result, in a worker.
pub struct WorkerSource<'a> {
    arena: &'a Arc<WorkerArena>,
    blocks: Vec<BlockRange>,
}

impl<'a> WorkerSource<'a> {
    /// Creates a source from the blocks that a record names.
    pub const fn new(arena: &'a Arc<WorkerArena>, blocks: Vec<BlockRange>) -> Self {
        Self { arena, blocks }
    }

    /// Returns the bytes of all blocks.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| block.size).sum()
    }

    fn block(&self, index: u32) -> PyResult<(BlockRange, *const u8, usize)> {
        let missing = || malformed("it names a block that does not exist");
        let block = *self.blocks.get(index as usize).ok_or_else(missing)?;
        let pointer = self.arena.pointer(block).map_err(|_| missing())?;
        Ok((block, pointer, usize::try_from(block.size).map_err(|_| missing())?))
    }
}

impl BlockSource for WorkerSource<'_> {
    fn bytes(&self, index: u32) -> PyResult<(*const u8, usize)> {
        let (_, pointer, size) = self.block(index)?;
        Ok((pointer, size))
    }

    fn memory(&self, py: Python<'_>, index: u32) -> PyResult<Owned> {
        let (block, pointer, size) = self.block(index)?;
        let holder = Arc::new(self.arena.begin_use(block.offset));
        ArenaMemory::make(py, (pointer.cast_mut(), size), true, holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ArenaOptions;

    #[test]
    fn addresses_of_stored_arguments_are_bounded_in_number() {
        let options = ArenaOptions { memory: Some(1 << 20), spill: Vec::new() };
        let arena = ClientArena::create_with(1, &options).expect("there is memory");
        let bytes = vec![7; 8 * STORED_MAX];
        let part = arena.store(&bytes).expect("there is room");
        let mut stored = Stored::default();
        for argument in bytes.windows(8).take(3 * STORED_MAX) {
            assert!(stored.find(argument).is_none());
            stored.note(argument, &part);
            assert!(stored.find(argument).is_some());
            assert!(stored.blocks.len() <= STORED_MAX);
        }
        drop(part);
        assert!(stored.find(&bytes[..8]).is_none(), "the blocks are not kept");
    }
}
