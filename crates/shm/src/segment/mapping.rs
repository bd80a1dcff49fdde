//! Shared memory: its descriptor, its mapping, and a ring's words in it.

use super::SegmentError;
use super::layout::{CLIENT_PAGE, Header, PAGE_SIZE, SlotPage};
use crate::bell::Bell;
use crate::ring::{CONTROL_SIZE, RingLayout, Words};
use gristmill_sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes anonymous shared memory of zeroes that nobody can resize any more. It is not in a file system
/// that can be full; what is never touched takes no memory.
pub(super) fn create_memory(size: u64) -> Result<OwnedFd, SegmentError> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a terminated string that outlives the call.
    let result = check(unsafe { libc::memfd_create(c"gristmill".as_ptr(), flags) });
    let descriptor = result.map_err(|source| SegmentError::Create { source })?;
    // SAFETY: the call just returned it, so it is open and nobody else owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let fail = |source| SegmentError::Resize { size, source };
    let length =
        libc::off_t::try_from(size).map_err(|_| fail(io::ErrorKind::FileTooLarge.into()))?;
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::ftruncate(descriptor.as_raw_fd(), length) }).map_err(fail)?;
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })
        .map_err(fail)?;
    Ok(descriptor)
}

/// The size of shared memory that somebody else made, if it can be mapped without the danger that it
/// shrinks.
pub(super) fn checked_size(descriptor: BorrowedFd<'_>) -> Result<u64, SegmentError> {
    let fail = |source| SegmentError::NotMemory { source };
    // SAFETY: the call takes no pointers.
    let seals = check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) });
    let seals = seals.map_err(fail)?;
    if seals & libc::F_SEAL_SHRINK == 0 {
        return Err(SegmentError::NotSealed { seals });
    }
    // SAFETY: all-zero bytes are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid to write to.
    check(unsafe { libc::fstat(descriptor.as_raw_fd(), &raw mut stat) }).map_err(fail)?;
    let size = stat.st_size.cast_unsigned();
    let needed = CLIENT_PAGE + PAGE_SIZE;
    if size < needed {
        return Err(SegmentError::WrongSize { found: size, needed });
    }
    Ok(size)
}

/// A mapping of a whole segment, at least two pages long, that other processes write at any time.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to no thread, and all that is reached through it is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(descriptor: BorrowedFd<'_>, size: u64) -> Result<Self, SegmentError> {
        let fail = |source| SegmentError::Map { size, source };
        let length = usize::try_from(size).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (place, fd) = (std::ptr::null_mut(), descriptor.as_raw_fd());
        // SAFETY: a fresh mapping at a place of the kernel's choice disturbs no other memory.
        let base = unsafe { libc::mmap(place, length, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(fail(io::Error::last_os_error()));
        }
        let base = NonNull::new(base.cast()).ok_or(fail(io::ErrorKind::AddrNotAvailable.into()))?;
        Ok(Self { base, size: length })
    }

    /// Keeps the mapping out of children made by fork: they must not write the client's end.
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
            // SAFETY: `at` gives memory of the right size and alignment; `Header` is all atomics, for
            // which any bytes are valid and writes by others are no data race.
            unsafe { header.as_ref() }
        })
    }

    pub(super) fn client_bell(&self) -> &Bell {
        let place = self.at(CLIENT_PAGE).expect("a mapping has two pages at least");
        // SAFETY: as for the header; a bell is one atomic word.
        unsafe { place.as_ref() }
    }

    /// Where a `T` is that lies wholly inside of the mapping.
    fn at<T>(&self, offset: u64) -> Result<NonNull<T>, SegmentError> {
        let size = self.size as u64;
        let outside = SegmentError::WrongSize { found: size, needed: offset };
        let Ok(offset) = usize::try_from(offset) else { return Err(outside) };
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.size);
        if !fits || !offset.is_multiple_of(align_of::<T>()) {
            return Err(outside);
        }
        // SAFETY: the offset was just checked to be inside of the mapping.
        Ok(unsafe { self.base.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and every borrower of it borrows from `self`.
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
        // SAFETY: `at` gave memory of the right size and alignment, which is mapped as long as `self`
        // is; a slot's page is all atomics, for which any bytes are valid.
        unsafe { self.page.as_ref() }
    }
}

/// A ring in a segment.
#[derive(Debug, Clone)]
pub struct MappedWords {
    /// The first word of data; `CONTROL_SIZE` bytes of control lines are in front of it.
    data: NonNull<AtomicU64>,
    /// Words of data - 1, to wrap an index: all places from 0 to the mask are inside of the mapping.
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
    /// The ring at `offset`; `None` unless it lies inside of the mapping, aligned to its lines.
    pub(super) fn new(mapping: &Arc<Mapping>, offset: u64, layout: RingLayout) -> Option<Self> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(layout.region_size() as usize)?;
        if offset == 0 || !offset.is_multiple_of(128) || end > mapping.size {
            return None;
        }
        // SAFETY: the whole region was just checked to be inside of the mapping.
        let data = unsafe { mapping.base.add(offset + CONTROL_SIZE as usize) }.cast();
        let mask = layout.word_count() - 1;
        Some(Self { data, mask, layout, _mapping: Arc::clone(mapping) })
    }

    /// Empties the ring. Its ends are gone.
    pub(super) fn reset(&self) {
        for word in [self.data(0), self.tail(), self.room()] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The control word `distance` bytes before the data.
    #[inline]
    fn control(&self, distance: usize) -> &AtomicU64 {
        // SAFETY: `CONTROL_SIZE` bytes before the data are inside of the mapping, zeroed or written as
        // atomics, and the distances below are multiples of 8 up to that.
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
        // SAFETY: a masked index is inside of the data, which is mapped as long as `self` is, aligned
        // to 8, and only ever reached as atomics, for which any bytes are valid.
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
