//! The part of an arena that is on disk: an unlinked file, which the system frees when the last process that has it
//! open ends.

use crate::shared::{check, punch_file};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Bytes that are written before the system is told to start moving them to the disk.
const STEP: usize = 8 << 20;
/// Magic numbers of file systems in memory: tmpfs, ramfs, hugetlbfs.
const MEMORY_SYSTEMS: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// Smallest useful room on a disk, bytes.
const ROOM_MIN: u64 = 64 << 20;

/// A directory for payloads on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillDirectory {
    /// The directory.
    pub directory: PathBuf,
    /// Bytes that payloads may take there: half of the free space of its file system, and at most `ulimit -f`.
    pub room: u64,
}

/// The reason why a directory cannot hold payloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillRefusal {
    /// The directory.
    pub directory: PathBuf,
    /// The reason: a clause that follows the directory's name in a message.
    pub reason: String,
}

/// The file on disk.
#[derive(Debug)]
pub(super) struct Disk {
    file: File,
}

/// Finds the first usable directory for payloads. Returns it with the refusals of the directories before it.
#[must_use]
pub fn find_spill_directory(
    directories: &[PathBuf],
) -> (Option<SpillDirectory>, Vec<SpillRefusal>) {
    let mut refusals = Vec::new();
    for directory in directories {
        match Disk::create(directory) {
            Ok((_, room)) => {
                return (Some(SpillDirectory { directory: directory.clone(), room }), refusals);
            }
            Err(reason) => refusals.push(SpillRefusal { directory: directory.clone(), reason }),
        }
    }
    (None, refusals)
}

impl Disk {
    /// Creates a file in the first usable directory. Returns it with the bytes that it may hold.
    pub fn create_in(directories: &[PathBuf]) -> Option<(Self, u64)> {
        directories.iter().find_map(|directory| Self::create(directory).ok())
    }

    fn create(directory: &Path) -> Result<(Self, u64), String> {
        let plain = |error: io::Error| error.to_string();
        let room = free_room(directory)?;
        let limit = gristmill_machine::process_limits().file_size;
        let room = room.min(limit.unwrap_or(u64::MAX));
        if room < ROOM_MIN {
            return Err(format!(
                "has room for {room} bytes only (half of what is free, or `ulimit -f`)"
            ));
        }
        let file = nameless(directory).map_err(plain)?;
        let disk = Self { file };
        disk.probe().map_err(|error| format!("cannot be mapped: {error}"))?;
        Ok((disk, room))
    }

    /// Opens the file that the client made.
    pub fn open(descriptor: OwnedFd) -> Self {
        Self { file: descriptor.into() }
    }

    /// Sets the size of the file, which stays sparse.
    pub fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Checks that the file can be mapped: some network file systems refuse it.
    fn probe(&self) -> io::Result<()> {
        self.file.set_len(4096)?;
        // SAFETY: no address is given, so the kernel chooses one.
        let base = unsafe { self.map(None, 4096, libc::PROT_READ) }?;
        // SAFETY: the range was just mapped, and nothing refers to it.
        check(unsafe { libc::munmap(base.as_ptr().cast(), 4096) }).map(drop)
    }

    /// Maps the file. If `place` is given, the mapping replaces those at that address.
    ///
    /// # Safety
    /// If `place` is given, `size` bytes from there on belong to the caller, and nothing refers to them.
    pub unsafe fn map(
        &self,
        place: Option<NonNull<u8>>,
        size: u64,
        protection: libc::c_int,
    ) -> io::Result<NonNull<u8>> {
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let at = place.map_or(std::ptr::null_mut(), |place| place.as_ptr().cast());
        let flags = libc::MAP_SHARED | if place.is_some() { libc::MAP_FIXED } else { 0 };
        let descriptor = self.file.as_raw_fd();
        // SAFETY: a mapping at an address that the kernel chooses disturbs no other memory; one at a given address
        // replaces memory that the caller owns.
        let base = unsafe { libc::mmap(at, length, protection, flags, descriptor, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable.into())
    }

    /// Reserves room on the disk, so that a later write to the mapping never finds the disk full, which would raise a
    /// signal.
    pub fn take_room(&self, offset: u64, size: u64) -> io::Result<()> {
        let beyond = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let (start, length) =
            (offset.try_into().map_err(beyond)?, size.try_into().map_err(beyond)?);
        // SAFETY: the call takes no pointers.
        match check(unsafe { libc::fallocate(self.file.as_raw_fd(), 0, start, length) }) {
            // Such a file system allocates when it is written to, and the write reports a full disk.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            taken => taken.map(drop),
        }
    }

    /// Writes bytes and makes the system move them to the disk meanwhile, so that the memory of a control group does
    /// not fill up with dirty pages.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut at = offset;
        for part in bytes.chunks(STEP) {
            self.file.write_all_at(part, at)?;
            self.begin_writing(at, part.len() as u64);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes bytes, which stay in memory until [`Self::begin_writing`] covers them or the system moves them.
    pub fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Starts the write-back of a range, whose pages are still in the page cache. Does not wait for it.
    pub fn begin_writing(&self, offset: u64, size: u64) {
        if let (Ok(start), Ok(length)) = (offset.try_into(), size.try_into()) {
            let flags = libc::SYNC_FILE_RANGE_WRITE;
            // SAFETY: the call takes no pointers. If it fails, the system writes later.
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), start, length, flags) };
        }
    }

    /// Returns room to the file system.
    pub fn punch(&self, offset: u64, size: u64) {
        punch_file(self.file.as_fd(), offset, size);
    }

    /// Returns the directory of the file, for messages.
    pub fn directory(&self) -> String {
        let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let path = std::fs::read_link(link).unwrap_or_default();
        path.parent().map_or_else(|| "the disk".to_owned(), |parent| parent.display().to_string())
    }
}

impl AsFd for Disk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns half of the free bytes of a directory's file system. Refuses a file system in memory.
fn free_room(directory: &Path) -> Result<u64, String> {
    let path = CString::new(directory.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: all-zero bytes are a valid description.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a terminated string, and the structure is valid to write to.
    check(unsafe { libc::statfs(path.as_ptr(), &raw mut found) }).map_err(|e| e.to_string())?;
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "a number of 32 bits"
    )]
    let kind = u64::from(found.f_type as u32);
    if MEMORY_SYSTEMS.contains(&kind) {
        return Err("is memory, not disk (tmpfs)".to_owned());
    }
    Ok(found.f_bavail.saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0)) / 2)
}

/// Creates an unlinked file.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let made = options.clone().custom_flags(libc::O_TMPFILE).open(directory);
    if made.is_ok() {
        return made;
    }
    // Some file systems do not support `O_TMPFILE`.
    for number in 0..NAMES_MAX {
        let path = directory.join(format!("gristmill-spill-{}-{number}", std::process::id()));
        match options.clone().create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Number of names that one process tries for a file.
const NAMES_MAX: u32 = 1000;
