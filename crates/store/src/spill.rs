//! The file for blobs that exceed the memory limit.
//!
//! The file has no name, so the operating system frees it with the process, however the process ends. Freed space in the
//! file is used again; the file does not shrink.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use gristmill_shm::{BlockPart, RegionAllocator};
use gristmill_wire::Digest;

use crate::hash::Verifier;

/// Bytes that are read or written at a time.
const STEP: usize = 256 << 10;
/// Size of the file's address space, bytes: more than any disk has.
const ADDRESSES: u64 = 1 << 50;

/// Number of names that are tried. A file loses its name right after it is made, so a name is taken only if a crash left it
/// behind or another thread makes a file at this moment.
const NAMES_MAX: u32 = 1000;

/// A range of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    offset: u64,
    /// Bytes in the range.
    pub size: u64,
}

/// The file, and the ranges of it that are in use.
#[derive(Debug)]
pub struct Spill {
    file: Arc<File>,
    space: RegionAllocator,
}

impl Spill {
    /// Creates the file in a directory, and removes its name.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        for number in 0..NAMES_MAX {
            let path = directory.join(format!("gristmill-{}-{number}", std::process::id()));
            match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => {
                    let file = Arc::new(opened?);
                    std::fs::remove_file(&path)?;
                    return Ok(Self { file, space: RegionAllocator::new(0, ADDRESSES) });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Reserves `size` bytes. Returns `None` if the address space has no free range of this size.
    pub fn take(&mut self, size: u64) -> Option<Extent> {
        let taken = self.space.take(size)?;
        Some(Extent { offset: taken.offset, size })
    }

    /// Releases a range.
    pub fn give_back(&mut self, extent: Extent) {
        self.space.give_back(extent.offset);
    }

    /// Makes all later reads and writes fail, as a failed disk does.
    pub fn fail(&mut self) -> io::Result<()> {
        self.file = Arc::new(File::open("/dev/null")?);
        Ok(())
    }

    /// Returns the file, for reads and writes without the store's lock.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Writes a block to a range of the file.
pub fn write(file: &File, extent: Extent, part: &BlockPart) -> io::Result<()> {
    let mut copy = vec![0; STEP];
    let mut done = 0;
    while done < extent.size {
        let count = part.read_at(done, &mut copy);
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_all_at(&copy[..count], extent.offset + done)?;
        done += count as u64;
    }
    Ok(())
}

/// Reads a block from a range of the file. Returns the hash of the bytes read, because the disk may have changed them.
pub fn read(file: &File, extent: Extent, part: &BlockPart) -> io::Result<Digest> {
    let mut copy = vec![0; STEP];
    let mut verifier = Verifier::default();
    let mut done = 0;
    while done < extent.size {
        let count = read_some(file, extent, done, &mut copy)?;
        if count == 0 || !part.write_at(done, &copy[..count]) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        verifier.take(&copy[..count]);
        done += count as u64;
    }
    Ok(verifier.digest())
}

/// Reads bytes of a range, from `offset` on, to the buffer `space`. Returns the number of bytes read.
pub fn read_some(file: &File, extent: Extent, offset: u64, space: &mut [u8]) -> io::Result<usize> {
    let left = usize::try_from(extent.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let count = left.min(space.len());
    file.read_exact_at(&mut space[..count], extent.offset + offset.min(extent.size))?;
    Ok(count)
}
