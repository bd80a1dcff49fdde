//! The file that blobs are in for which memory is not meant.
//!
//! It has no name: the system takes it back with the process, whatever ends that. Its space is used again and does not
//! shrink.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use gristmill_shm::{BlockPart, Space};
use gristmill_wire::Digest;

use crate::hash::Verifier;

/// Bytes that are moved at a time.
const STEP: usize = 256 << 10;
/// More than any disk has.
const ADDRESSES: u64 = 1 << 50;

/// Files of one process that may have their names at the same time.
const NAMES_MAX: u32 = 1000;

/// A piece of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The file, and which parts of it are in use.
#[derive(Debug)]
pub struct Spill {
    file: Arc<File>,
    space: Space,
}

impl Spill {
    /// Makes a file in a directory.
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
                    return Ok(Self { file, space: Space::new(0, ADDRESSES) });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Takes room for so many bytes.
    pub fn take(&mut self, size: u64) -> Option<Extent> {
        let taken = self.space.take(size)?;
        Some(Extent { offset: taken.offset, size })
    }

    /// Gives room back.
    pub fn give_back(&mut self, extent: Extent) {
        self.space.give_back(extent.offset);
    }

    /// As one whose disk has failed: nothing can be read or written any more.
    pub fn fail(&mut self) -> io::Result<()> {
        self.file = Arc::new(File::open("/dev/null")?);
        Ok(())
    }

    /// What the bytes are read from and written to, without the lock around this.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Writes a block.
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

/// Reads a block; gives what its bytes hash to, which may have changed on the disk.
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

/// Reads bytes from an offset on; how many.
pub fn read_some(file: &File, extent: Extent, offset: u64, space: &mut [u8]) -> io::Result<usize> {
    let left = usize::try_from(extent.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let count = left.min(space.len());
    file.read_exact_at(&mut space[..count], extent.offset + offset.min(extent.size))?;
    Ok(count)
}
