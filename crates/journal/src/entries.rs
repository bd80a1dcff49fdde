//! Reading: the entries of a journal one after the other, up to the first that is torn or damaged.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{JournalError, system};
use crate::format::{HEAD_SIZE, Head, PREFIX_SIZE, Prefix};

/// So much is asked of the system at once, in bytes: a million small entries are 120 reads.
const READ_SIZE: usize = 1 << 20;

/// One entry, as long as nothing else is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// The entries of a journal, in the order in which they were appended.
///
/// Reads up to the size that the source had at the beginning: a journal that is being written may be read, and the entry
/// that is just being written counts as torn.
#[derive(Debug)]
pub struct Entries<R> {
    source: BufReader<R>,
    path: PathBuf,
    /// Bytes of the source that have not been looked at.
    left: u64,
    /// Where the last good entry ended.
    end: u64,
    count: u64,
    is_over: bool,
    key_and_drop: Vec<u8>,
    value: Vec<u8>,
}

impl Entries<File> {
    /// Opens a file for reading only; takes no lock and changes nothing.
    ///
    /// # Errors
    /// It cannot be read, or is no journal of a version known here.
    pub fn open(path: &Path) -> Result<Entries<File>, JournalError> {
        // Not after opening: to open a pipe is to wait for its writer.
        if !path.metadata().map_err(system(path, "look at it"))?.is_file() {
            return Err(JournalError::NotAJournal { path: path.to_owned() });
        }
        let file = File::open(path).map_err(system(path, "open it"))?;
        let size = file.metadata().map_err(system(path, "look at it"))?.len();
        Entries::new(file, size, path)
    }
}

impl<R: Read> Entries<R> {
    /// Reads a journal of `size` bytes from any source; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Entries::open`].
    pub fn new(source: R, size: u64, path: &Path) -> Result<Entries<R>, JournalError> {
        let capacity = usize::try_from(size).unwrap_or(READ_SIZE).min(READ_SIZE);
        let mut source = BufReader::with_capacity(capacity, source);
        let mut head = Vec::with_capacity(HEAD_SIZE);
        let limit = size.min(HEAD_SIZE as u64);
        let read = source.by_ref().take(limit).read_to_end(&mut head);
        read.map_err(system(path, "read it"))?;
        let (end, is_over) = match Head::of(&head) {
            Head::Known => (HEAD_SIZE as u64, false),
            Head::Torn => (0, true),
            Head::Other(version) => {
                return Err(JournalError::UnknownVersion { path: path.to_owned(), version });
            }
            Head::Foreign => return Err(JournalError::NotAJournal { path: path.to_owned() }),
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

    /// The next entry; `None` behind the last one that is whole.
    ///
    /// # Errors
    /// The source could not be read. What was read before stays good.
    #[expect(clippy::should_implement_trait, reason = "an entry lends the reader's memory")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, JournalError> {
        if self.is_over || !self.read_entry().map_err(system(&self.path, "read it"))? {
            self.is_over = true;
            return Ok(None);
        }
        let key = &self.key_and_drop[..self.key_and_drop.len() - 1];
        Ok(Some(Entry { key, value: &self.value }))
    }

    /// How many entries have been read.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Where the last entry that was read ends, in bytes from the beginning.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes behind the last whole entry; 0 until there are no more entries.
    pub fn lost(&self) -> u64 {
        if self.is_over { self.left } else { 0 }
    }

    /// Whether there was one more whole entry. What is left of the source shrinks only by whole ones.
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

    /// Grows with what is really there: a sparse file may claim more than there is memory for.
    fn read_value(&mut self, size: u64) -> io::Result<bool> {
        self.value.clear();
        let expected = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.value.try_reserve(expected).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(self.source.by_ref().take(size).read_to_end(&mut self.value)? == expected)
    }

    /// Whether the source had so many bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.source.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}
