//! The mapping of a segment, and a ring's words in it.

use super::SegmentError;
use super::layout::{CLIENT_PAGE, Header, PAGE_SIZE, SlotPage};
use crate::bell::Bell;
use crate::ring::{CONTROL_SIZE, RingLayout, Words};
use crate::shared::{OpenError, SharedError, SharedMemory, check};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// Creates the memory of a segment.
pub(super) fn create_memory(size: u64) -> Result<SharedMemory, SegmentError> {
    SharedMemory::create(c"gristmill", size).map_err(|error| match error {
        SharedError::Descriptor(source) => SegmentError::Create { source },
        SharedError::Size(source) => SegmentError::Resize { size, source },
    })
}

/// Opens the memory of a segment that another process made.
pub(super) fn open_memory(descriptor: OwnedFd) -> Result<SharedMemory, SegmentError> {
    let memory = SharedMemory::open(descriptor).map_err(|error| match error {
        OpenError::NotMemory(source) => SegmentError::NotMemory { source },
        OpenError::NotSealed(seals) => SegmentError::NotSealed { seals },
    })?;
    let needed = CLIENT_PAGE + PAGE_SIZE;
    if memory.size() < needed {
        return Err(SegmentError::WrongSize { found: memory.size(), needed });
    }
    Ok(memory)
}

/// A mapping of a whole segment, at least two pages long, that other processes write at any time.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to no thread, and everything reached through it is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(memory: &SharedMemory) -> Result<Self, SegmentError> {
        let fail = |source| SegmentError::Map { size: memory.size(), source };
        let length = usize::try_from(memory.size());
        let length = length.map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: no address is given, so the kernel chooses one.
        let base = unsafe { memory.map(None, libc::PROT_READ | libc::PROT_WRITE) };
        Ok(Self { base: base.map_err(fail)?, size: length })
    }

    /// Keeps the mapping out of children made by fork: they must not write to the client's end.
    pub(super) fn keep_from_children(&self) -> Result<(), SegmentError> {
        // SAFETY: the range is this mapping, and the advice changes nothing for this process.
        let result = check(unsafe {
            libc::madvise(self.base.as_ptr().cast(), self.size, libc::MADV_DONTFORK)
        });
        let size = self.size as u64;
        result.map(|_| ()).map_err(|source| SegmentError::Map { size, source })
    }

    pub(super) fn header(&self) -> Result<&Header, SegmentError> {
        self.at(0).map(|header| {
            // SAFETY: `at` returns memory of the right size and alignment; `Header` is all atomics, for which any bytes
            // are valid and writes by other processes are no data race.
            unsafe { header.as_ref() }
        })
    }

    pub(super) fn client_bell(&self) -> &Bell {
        let place = self.at(CLIENT_PAGE).expect("a mapping has two pages at least");
        // SAFETY: as for the header; a bell is one atomic word.
        unsafe { place.as_ref() }
    }

    /// Returns the address of a `T` that lies wholly inside the mapping.
    fn at<T>(&self, offset: u64) -> Result<NonNull<T>, SegmentError> {
        let size = self.size as u64;
        let outside = SegmentError::WrongSize { found: size, needed: offset };
        let Ok(offset) = usize::try_from(offset) else { return Err(outside) };
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.size);
        if !fits || !offset.is_multiple_of(align_of::<T>()) {
            return Err(outside);
        }
        // SAFETY: the offset was just checked to be inside the mapping.
        Ok(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the range, and every borrower of it borrows from `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// A slot's page, and the mapping that it lies in.
#[derive(Debug, Clone)]
pub(super) struct SlotHandle {
    page: NonNull<SlotPage>,
    mapping: Arc<Mapping>,
}

// SAFETY: the memory outlives the handle, belongs to no thread, and is reached as atomics only.
unsafe impl Send for SlotHandle {}
// SAFETY: as above.
unsafe impl Sync for SlotHandle {}

impl SlotHandle {
    pub(super) fn new(mapping: &Arc<Mapping>, offset: u64) -> Result<Self, SegmentError> {
        Ok(Self { page: mapping.at(offset)?, mapping: Arc::clone(mapping) })
    }

    #[inline]
    pub(super) fn client_bell(&self) -> &Bell {
        self.mapping.client_bell()
    }
}

impl Deref for SlotHandle {
    type Target = SlotPage;

    #[inline]
    fn deref(&self) -> &SlotPage {
        // SAFETY: `at` returned memory of the right size and alignment, which is mapped as long as `self` lives; a
        // slot's page is all atomics, for which any bytes are valid.
        unsafe { self.page.as_ref() }
    }
}

/// A ring in a segment.
#[derive(Debug, Clone)]
pub struct MappedWords {
    /// The first word of data; `CONTROL_SIZE` bytes of control lines are in front of it.
    data: NonNull<AtomicU64>,
    /// Words of data - 1, to wrap an index: all indices from 0 to the mask are inside the mapping.
    mask: usize,
    layout: RingLayout,
    /// Keeps the memory mapped.
    _mapping: Arc<Mapping>,
}

// SAFETY: the memory outlives the handle, belongs to no thread, and is reached as atomics only.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    /// Returns the ring at `offset`, or `None` unless it lies inside the mapping and is aligned to 128 bytes.
    pub(super) fn new(mapping: &Arc<Mapping>, offset: u64, layout: RingLayout) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(layout.region_size() as usize)?;
        if offset == 0 || !offset.is_multiple_of(128) || end > mapping.size {
            return None;
        }
        // SAFETY: the whole region was just checked to be inside the mapping.
        let data = unsafe { mapping.base.add(offset + CONTROL_SIZE as usize) }.cast();
        let mask = layout.word_count() - 1;
        Some(Self { data, mask, layout, _mapping: Arc::clone(mapping) })
    }

    /// Empties the ring. Both former ends must be gone.
    pub(super) fn reset(&self) {
        for word in [self.data(0), self.tail(), self.room()] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the control word `distance` bytes before the data.
    #[inline]
    fn control(&self, distance: usize) -> &AtomicU64 {
        // SAFETY: `CONTROL_SIZE` bytes before the data are inside the mapping, zeroed or written as atomics, and the
        // distances below are multiples of 8 up to that.
        unsafe { self.data.byte_sub(distance).as_ref() }
    }
}

impl Words for MappedWords {
    #[inline]
    fn layout(&self) -> RingLayout {
        self.layout
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked right away")]
    fn data(&self, index: u64) -> &AtomicU64 {
        // SAFETY: a masked index is inside the data, which is mapped as long as `self` lives, aligned to 8, and only
        // ever accessed as atomics, for which any bytes are valid.
        unsafe { self.data.add(index as usize & self.mask).as_ref() }
    }

    #[inline]
    fn tail(&self) -> &AtomicU64 {
        self.control(256)
    }

    #[inline]
    fn room(&self) -> &AtomicU64 {
        self.control(128)
    }
}
