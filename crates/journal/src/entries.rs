//! Reading: the entries of a journal in order, up to the first that is torn or damaged.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{JournalError, system};
use crate::format::{HEAD_SIZE, JournalHeader, PREFIX_SIZE, Prefix};

/// Size of the read buffer, bytes: a million small entries are 120 reads.
const READ_SIZE: usize = 1 << 20;

/// One entry, valid until the next read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// A reader of a journal's entries, in the order in which they were appended.
///
/// It reads up to the size that the source had at the beginning. A reader may therefore run beside the writer; an entry
/// that the writer has not finished counts as torn.
#[derive(Debug)]
pub struct Entries<R> {
    source: BufReader<R>,
    path: PathBuf,
    /// Bytes of the source after the last whole entry.
    left: u64,
    /// End of the last whole entry, bytes from the start.
    end: u64,
    count: u64,
    is_over: bool,
    /// Key of the last entry, and pickle's `0` opcode ("drop") that follows it in the file.
    key_and_drop: Vec<u8>,
    value: Vec<u8>,
}

impl Entries<File> {
    /// Opens a file for reading only. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// The file cannot be read, is no journal, or has an unknown version.
    pub fn open(path: &Path) -> Result<Entries<File>, JournalError> {
        // Check this before opening: opening a pipe would wait for its writer.
        if !path.metadata().map_err(system(path, "look at it"))?.is_file() {
            return Err(JournalError::NotAJournal { path: path.to_owned() });
        }
        let file = File::open(path).map_err(system(path, "open it"))?;
        let size = file.metadata().map_err(system(path, "look at it"))?.len();
        Entries::new(file, size, path)
    }
}

impl<R: Read> Entries<R> {
    /// Reads a journal of `size` bytes from any source. Errors name `path`.
    ///
    /// # Errors
    /// The errors of [`Entries::open`].
    pub fn new(source: R, size: u64, path: &Path) -> Result<Entries<R>, JournalError> {
        let capacity = usize::try_from(size).unwrap_or(READ_SIZE).min(READ_SIZE);
        let mut source = BufReader::with_capacity(capacity, source);
        let mut head = Vec::with_capacity(HEAD_SIZE);
        let limit = size.min(HEAD_SIZE as u64);
        let read = source.by_ref().take(limit).read_to_end(&mut head);
        read.map_err(system(path, "read it"))?;
        let (end, is_over) = match JournalHeader::of(&head) {
            JournalHeader::Known => (HEAD_SIZE as u64, false),
            JournalHeader::Torn => (0, true),
            JournalHeader::Other(version) => {
                return Err(JournalError::UnknownVersion { path: path.to_owned(), version });
            }
            JournalHeader::Foreign => {
                return Err(JournalError::NotAJournal { path: path.to_owned() });
            }
        };
        Ok(Entries {
            source,
            path: path.to_owned(),
            left: size - end,
            end,
            count: 0,
            is_over,
            key_and_drop: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Returns the next entry; `None` after the last whole one. The entry borrows the reader's buffers, and must be dropped
    /// before the next call.
    ///
    /// # Errors
    /// The source could not be read. Entries that were returned before remain valid. Later calls return `None`: the reader
    /// does not know at which byte an entry begins.
    #[expect(clippy::should_implement_trait, reason = "an entry lends the reader's memory")]
    pub fn next(&mut self) -> Result<Option<JournalEntry<'_>>, JournalError> {
        if self.is_over {
            return Ok(None);
        }
        // An error ends the reading, as a torn entry does.
        let read = self.read_entry();
        self.is_over = !matches!(read, Ok(true));
        if !read.map_err(system(&self.path, "read it"))? {
            return Ok(None);
        }
        let key = &self.key_and_drop[..self.key_and_drop.len() - 1];
        Ok(Some(JournalEntry { key, value: &self.value }))
    }

    /// Returns the number of entries read.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the end of the last entry read, bytes from the start.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of bytes after the last whole entry; 0 while entries are left to read.
    pub fn lost(&self) -> u64 {
        if self.is_over { self.left } else { 0 }
    }

    /// Reads an entry. Returns false if there is no further whole one. Only whole entries reduce `left`.
    fn read_entry(&mut self) -> io::Result<bool> {
        let mut prefix = [0; PREFIX_SIZE];
        if self.left < PREFIX_SIZE as u64 || !self.fill(&mut prefix)? {
            return Ok(false);
        }
        let Some(prefix) = Prefix::decode(&prefix) else { return Ok(false) };
        let frame_size = (PREFIX_SIZE + prefix.key_size + 1) as u64;
        let size = frame_size.checked_add(prefix.value_size).filter(|size| *size <= self.left);
        let Some(size) = size else { return Ok(false) };
        let mut key_and_drop = std::mem::take(&mut self.key_and_drop);
        key_and_drop.resize(prefix.key_size + 1, 0);
        let is_there = self.fill(&mut key_and_drop)?;
        self.key_and_drop = key_and_drop;
        if !is_there || !self.read_value(prefix.value_size)? {
            return Ok(false);
        }
        if !prefix.fits(&self.key_and_drop, &self.value) {
            return Ok(false);
        }
        (self.left, self.end, self.count) = (self.left - size, self.end + size, self.count + 1);
        Ok(true)
    }

    /// Reads a value. Returns false if the source ends early. The memory touched grows with the bytes actually read: a
    /// sparse file may claim more than fits in memory.
    fn read_value(&mut self, size: u64) -> io::Result<bool> {
        self.value.clear();
        let expected = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.value.try_reserve(expected).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(self.source.by_ref().take(size).read_to_end(&mut self.value)? == expected)
    }

    /// Fills `bytes` from the source. Returns false if the source ends early.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.source.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}
