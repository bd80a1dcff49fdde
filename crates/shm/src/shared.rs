//! Memory that the processes of one executor share: a sealed memory file, or, if `ulimit -f` forbids one of that size,
//! a System V segment, which is no file.
//!
//! A descriptor stands for either. For a segment it is a sealed file of three words that name the segment. A segment is
//! marked for removal as soon as its maker has mapped it, so the system frees it with the last process that maps it.

use gristmill_sync::atomic::{AtomicBool, Ordering};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use thiserror::Error;

/// "GRSTSEGM" in memory: the first word of a file that names a segment.
const MAGIC: u64 = u64::from_le_bytes(*b"GRSTSEGM");
/// Size of such a file, bytes: the magic, the segment's id, its size. No other shared memory is as small.
const NAME_SIZE: u64 = 24;
/// `SHM_NORESERVE`: pages count when they are touched.
const NO_RESERVE: libc::c_int = 0o10000;
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The reason why shared memory cannot be created.
#[derive(Debug, Error)]
pub(crate) enum SharedError {
    #[error("no descriptor: {0}")]
    Descriptor(io::Error),
    #[error("no file or segment of that size: {0}")]
    Size(io::Error),
}

/// The reason why a descriptor is not shared memory.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    NotMemory(io::Error),
    #[error("its seals are {0:#x}")]
    NotSealed(i32),
}

/// A System V segment.
#[derive(Debug)]
struct Segment {
    id: libc::c_int,
    /// True if this process must mark the segment for removal and has not done so yet.
    is_named: AtomicBool,
}

/// Shared memory that is not mapped by this value.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    descriptor: OwnedFd,
    size: u64,
    segment: Option<Segment>,
}

pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl SharedMemory {
    /// Creates zeroed memory that no process can resize. It lies in no file system that can be full, and pages that are
    /// never touched take no memory.
    pub fn create(name: &CStr, size: u64) -> Result<Self, SharedError> {
        let limit = gristmill_machine::process_limits().file_size;
        // A larger file would raise a signal in this process.
        if limit.is_some_and(|limit| size > limit) {
            return Self::create_segment(name, size);
        }
        let descriptor = memory_file(name).map_err(SharedError::Descriptor)?;
        let too_large = |_| SharedError::Size(io::ErrorKind::FileTooLarge.into());
        let length = libc::off_t::try_from(size).map_err(too_large)?;
        // SAFETY: the call takes no pointers.
        check(unsafe { libc::ftruncate(descriptor.as_raw_fd(), length) })
            .map_err(SharedError::Size)?;
        seal(&descriptor, SEALS).map_err(SharedError::Size)?;
        Ok(Self { descriptor, size, segment: None })
    }

    /// Creates a System V segment and the file that names it.
    fn create_segment(name: &CStr, size: u64) -> Result<Self, SharedError> {
        let descriptor = memory_file(name).map_err(SharedError::Descriptor)?;
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | NO_RESERVE | 0o600;
        // SAFETY: the call takes no pointers.
        let id = check(unsafe { libc::shmget(libc::IPC_PRIVATE, length, flags) });
        let id = id.map_err(SharedError::Size)?;
        let segment = Some(Segment { id, is_named: AtomicBool::new(true) });
        let file = File::from(descriptor);
        let mut words = Vec::with_capacity(24);
        for word in [MAGIC, u64::from(id.cast_unsigned()), size] {
            words.extend_from_slice(&word.to_le_bytes());
        }
        let written = file.write_all_at(&words, 0);
        let memory = Self { descriptor: file.into(), size, segment };
        written.map_err(SharedError::Size)?;
        seal(&memory.descriptor, SEALS | libc::F_SEAL_WRITE).map_err(SharedError::Size)?;
        Ok(memory)
    }

    /// Opens memory that another process made. Refuses memory that could shrink under its mapping.
    pub fn open(descriptor: OwnedFd) -> Result<Self, OpenError> {
        // SAFETY: the call takes no pointers.
        let seals = check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) });
        let seals = seals.map_err(OpenError::NotMemory)?;
        if seals & libc::F_SEAL_SHRINK == 0 {
            return Err(OpenError::NotSealed(seals));
        }
        let file = File::from(descriptor);
        let size = file.metadata().map_err(OpenError::NotMemory)?.len();
        if size == NAME_SIZE && seals & libc::F_SEAL_WRITE != 0 {
            let (id, size) = read_name(&file).map_err(OpenError::NotMemory)?;
            let segment = Some(Segment { id, is_named: AtomicBool::new(false) });
            return Ok(Self { descriptor: file.into(), size, segment });
        }
        Ok(Self { descriptor: file.into(), size, segment: None })
    }

    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Maps all of the memory. If `place` is given, the mapping replaces those at that address.
    ///
    /// # Safety
    /// If `place` is given, `size()` bytes from there on belong to the caller, and nothing refers to them.
    pub unsafe fn map(
        &self,
        place: Option<NonNull<u8>>,
        protection: libc::c_int,
    ) -> io::Result<NonNull<u8>> {
        let length = usize::try_from(self.size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let at = place.map_or(std::ptr::null_mut(), |place| place.as_ptr().cast());
        let base = if let Some(segment) = &self.segment {
            let flags = if place.is_some() { libc::SHM_REMAP } else { 0 };
            // SAFETY: a mapping at an address that the kernel chooses disturbs no other memory; one at a given address
            // replaces memory that the caller owns.
            let base = unsafe { libc::shmat(segment.id, at, flags) };
            if base as isize == -1 {
                return Err(io::Error::last_os_error());
            }
            segment.remove_name();
            // SAFETY: the range was just mapped.
            check(unsafe { libc::mprotect(base, length, protection) })?;
            base
        } else {
            let fixed = if place.is_some() { libc::MAP_FIXED } else { 0 };
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | fixed;
            let descriptor = self.descriptor.as_raw_fd();
            // SAFETY: as above.
            let base = unsafe { libc::mmap(at, length, protection, flags, descriptor, 0) };
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            base
        };
        NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable.into())
    }

    /// Returns pages to the system. If that fails the pages stay, which costs memory and is no error.
    ///
    /// # Safety
    /// `pointer` is the mapped byte at `offset`, `size` bytes from there on are mapped, and nothing refers to them.
    pub unsafe fn punch(&self, pointer: *mut u8, offset: u64, size: u64) {
        if self.segment.is_some() {
            let length = usize::try_from(size).unwrap_or(0);
            // SAFETY: passed on from the caller.
            unsafe { libc::madvise(pointer.cast(), length, libc::MADV_REMOVE) };
        } else {
            punch_file(self.descriptor.as_fd(), offset, size);
        }
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Segment {
    fn remove_name(&self) {
        if self.is_named.swap(false, Ordering::Relaxed) {
            // SAFETY: the command takes no structure.
            unsafe { libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.remove_name();
    }
}

/// Punches a hole into a file. If that fails the bytes stay, which costs room and is no error.
pub(crate) fn punch_file(descriptor: BorrowedFd<'_>, offset: u64, size: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    if let (Ok(start), Ok(length)) = (offset.try_into(), size.try_into()) {
        // SAFETY: the call takes no pointers.
        unsafe { libc::fallocate(descriptor.as_raw_fd(), mode, start, length) };
    }
}

fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a terminated string that outlives the call.
    let descriptor = check(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
    // SAFETY: the call just returned the descriptor, so it is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn seal(descriptor: &OwnedFd, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
}

/// Reads the id and the size of the segment that a file names. Checks that the segment is at least that large.
fn read_name(file: &File) -> io::Result<(libc::c_int, u64)> {
    let mut words = [[0; 8]; 3];
    file.read_exact_at(words.as_flattened_mut(), 0)?;
    let [magic, id, size] = words.map(u64::from_le_bytes);
    let id = u32::try_from(id).map(u32::cast_signed);
    let (MAGIC, Ok(id)) = (magic, id) else { return Err(io::ErrorKind::InvalidData.into()) };
    // SAFETY: all-zero bytes are a valid description.
    let mut found: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid to write to.
    check(unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut found) })?;
    if found.shm_segsz as u64 >= size {
        Ok((id, size))
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
