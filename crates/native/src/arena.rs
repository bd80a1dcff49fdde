//! Blocks of the arena as Python sees them: objects with a buffer, and what encoding and decoding do with them.
//!
//! An argument is a read-only view in the worker. A result is writable, in its very block if nobody else needs that, else
//! as a copy; where views were asked for it is a read-only view. A view that travels again names its block: no copy.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use gristmill_client::{ArenaError, BlockPart, ClientArena};
use gristmill_shm::WorkerArena;
use gristmill_wire::BlockRange;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::codec::{BlockSink, BlockSource, malformed};
use crate::object::Owned;

/// A piece of the arena with a buffer; arrays over it keep it, and it keeps the block.
#[pyclass(frozen, module = "gristmill._native")]
pub struct ArenaMemory {
    pointer: *mut u8,
    size: usize,
    is_readonly: bool,
    _holder: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointer is to shared memory that the holder keeps mapped; it belongs to no thread.
unsafe impl Send for ArenaMemory {}
// SAFETY: as above; what is written to it is written by users of the buffer, as with any buffer.
unsafe impl Sync for ArenaMemory {}

#[pymethods]
impl ArenaMemory {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get();
        let size = memory.size.cast_signed();
        let (pointer, readonly) =
            (memory.pointer.cast::<c_void>(), c_int::from(memory.is_readonly));
        // SAFETY: Python calls with a view to fill in; the buffer is `size` bytes as long as this object lives, of which
        // the view takes a reference.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer, size, readonly, flags) };
        if filled < 0 {
            return Err(PyErr::take(slf.py())
                .unwrap_or_else(|| PyBufferError::new_err("the memory is read-only")));
        }
        Ok(())
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

    /// A part of the client's arena.
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

/// No memory in the arena, as Python says it.
pub fn no_memory(error: &ArenaError) -> PyErr {
    PyMemoryError::new_err(error.to_string())
}

/// The client's arguments on their way out.
pub struct ClientSink<'a> {
    arena: &'a ClientArena,
    /// Arrays in the arena go by reference even where somebody could change them.
    views: bool,
    parts: Vec<BlockPart>,
    error: Option<ArenaError>,
}

impl<'a> ClientSink<'a> {
    /// With no blocks yet.
    pub const fn new(arena: &'a ClientArena, views: bool) -> Self {
        Self { arena, views, parts: Vec::new(), error: None }
    }

    /// The blocks.
    pub fn parts(&self) -> &[BlockPart] {
        &self.parts
    }

    /// Starts over.
    pub fn clear(&mut self) {
        self.parts.clear();
    }

    /// Why a block could not be stored.
    pub fn failure(&self) -> PyErr {
        self.error.as_ref().map_or_else(|| PyMemoryError::new_err(()), no_memory)
    }
}

impl BlockSink for ClientSink<'_> {
    unsafe fn store(&mut self, data: *const u8, size: usize, is_readonly: bool) -> Option<u32> {
        let known = self.arena.find(data, size);
        let known = known.filter(|part| self.views || (is_readonly && !part.is_exposed()));
        let part = known.map_or_else(
            // SAFETY: passed on from the caller.
            || self.arena.store(unsafe { std::slice::from_raw_parts(data, size) }),
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

/// A result's blocks at the client.
pub struct ClientSource<'a> {
    parts: &'a [BlockPart],
    views: bool,
}

impl<'a> ClientSource<'a> {
    /// The blocks of one outcome.
    pub const fn new(parts: &'a [BlockPart], views: bool) -> Self {
        Self { parts, views }
    }

    fn part(&self, index: u32) -> PyResult<&'a BlockPart> {
        self.parts
            .get(index as usize)
            .ok_or_else(|| malformed("it names a block that is not there"))
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
        // SAFETY: the part is as many readable bytes; they are copied.
        let copy = unsafe {
            ffi::PyByteArray_FromStringAndSize(part.pointer().cast(), part.size().cast_signed())
        };
        Owned::or_raise(py, copy)
    }
}

/// A worker's results on their way out. Blocks that were made for a payload that was then discarded are freed.
pub struct WorkerSink<'a> {
    arena: &'a WorkerArena,
    blocks: Vec<BlockRange>,
    /// Those of the blocks that were made here.
    own: Vec<u64>,
    error: Option<ArenaError>,
}

impl<'a> WorkerSink<'a> {
    /// With no blocks yet.
    pub const fn new(arena: &'a WorkerArena) -> Self {
        Self { arena, blocks: Vec::new(), own: Vec::new(), error: None }
    }

    /// The blocks; they are the client's from now on.
    pub fn into_blocks(mut self) -> Vec<BlockRange> {
        self.own.clear();
        std::mem::take(&mut self.blocks)
    }

    /// Puts the encoded bytes themselves into a block, in front of the others.
    ///
    /// # Errors
    /// `MemoryError`.
    pub fn store_body(&mut self, bytes: &[u8]) -> PyResult<()> {
        // SAFETY: a slice is as many readable bytes as it is long.
        let block = unsafe { self.arena.store(bytes.as_ptr(), bytes.len()) };
        let block = block.map_err(|error| no_memory(&error))?;
        self.own.push(block.offset);
        self.blocks.insert(0, block);
        Ok(())
    }

    /// How many blocks there are.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Starts over.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.own.drain(..).for_each(|offset| self.arena.free(offset));
    }

    /// Why a block could not be stored.
    pub fn failure(&self) -> PyErr {
        self.error.as_ref().map_or_else(|| PyMemoryError::new_err(()), no_memory)
    }
}

impl BlockSink for WorkerSink<'_> {
    unsafe fn store(&mut self, data: *const u8, size: usize, _is_readonly: bool) -> Option<u32> {
        // All that Python has of the arena in a worker are views of arguments, which cannot change.
        let block = match self.arena.find(data, size) {
            Some(known) => known,
            // SAFETY: passed on from the caller.
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
    /// Blocks as a record names them.
    pub const fn new(arena: &'a Arc<WorkerArena>, blocks: Vec<BlockRange>) -> Self {
        Self { arena, blocks }
    }

    fn block(&self, index: u32) -> PyResult<(BlockRange, *const u8, usize)> {
        let missing = || malformed("it names a block that is not there");
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
