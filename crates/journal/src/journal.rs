//! Writing: one process appends entries. The kernel has an entry once the call that appends it returns.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::entries::Entries;
use crate::error::{JournalError, system};
use crate::format::{HEAD, encode_frame};

/// Largest value that is copied after its frame and written together with it, bytes. Larger values take a write of their
/// own.
const COPIED_SIZE_MAX: usize = 64 << 10;
/// Bytes that are gathered before a write: larger writes do not cost less per byte.
const GATHERED_SIZE_MAX: usize = 1 << 20;

/// The durability of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalOptions {
    /// True if each append waits for the disk: entries survive a power loss, and cost milliseconds instead of microseconds.
    pub durable: bool,
}

/// A journal open for writing. Dropping it releases its lock.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    options: JournalOptions,
    /// Offset of the next entry.
    end: u64,
    recovered: u64,
    lost: u64,
    is_broken: bool,
    /// Frames and small values that are not written yet.
    gathered: Vec<u8>,
}

impl Journal {
    /// Opens a journal for writing, or creates one. Cuts off the file at the first torn or damaged entry.
    ///
    /// Some parallel file systems have no locks. There the journal takes none, and the caller must ensure that no other
    /// process writes.
    ///
    /// # Errors
    /// Another process writes to the journal (retry once it has ended), the file is no journal, or the system refuses.
    pub fn open(path: &Path, options: JournalOptions) -> Result<Journal, JournalError> {
        if path.exists() && !path.is_file() {
            return Err(JournalError::NotAJournal { path: path.to_owned() });
        }
        let mut open = OpenOptions::new();
        let file = open.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(system(path, "open it"))?;
        lock(&file, path)?;
        let size = file.metadata().map_err(system(path, "look at it"))?.len();
        let mut entries = Entries::new(&file, size, path)?;
        while entries.next()?.is_some() {}
        let (end, recovered, lost) = (entries.end(), entries.count(), entries.lost());
        let path = path.to_owned();
        let gathered = Vec::new();
        let mut journal =
            Journal { file, path, options, end, recovered, lost, is_broken: false, gathered };
        journal.begin().map_err(system(&journal.path, "prepare it"))?;
        Ok(journal)
    }

    /// Returns the number of entries that the journal had when it was opened.
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Returns the number of bytes that were cut off at opening: an unfinished or damaged entry, and all bytes after it.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one entry. The entry survives the death of this process once this method returns, and a power loss if
    /// [`JournalOptions::durable`] is set.
    ///
    /// # Errors
    /// The key is too long, or the system refuses, for example because the disk is full; in the latter case, a retry may
    /// succeed. The journal is unchanged, unless the bytes of the failed append cannot be removed: then this and all later
    /// appends fail, the later ones with [`JournalError::Broken`].
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), JournalError> {
        self.append_all([(key, value)])
    }

    /// Appends entries with as few system calls as possible: all of them or, on an error, none.
    ///
    /// If the process dies within this call, the journal may have only some of the entries: the first ones, in order.
    ///
    /// # Errors
    /// The errors of [`Journal::append`].
    pub fn append_all<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), JournalError> {
        if self.is_broken {
            return Err(JournalError::Broken { path: self.path.clone() });
        }
        let before = self.end;
        let done = self
            .write_entries(entries)
            .and_then(|()| if self.options.durable { self.sync() } else { Ok(()) });
        self.gathered.clear();
        if done.is_err() {
            self.end = before;
            // Remove all bytes of these entries: a shorter next entry would overwrite only a part of them, and the rest
            // would look like damage.
            self.is_broken = self.file.set_len(before).is_err();
        }
        done
    }

    /// Waits until all entries are on the disk.
    ///
    /// # Errors
    /// The system could not write; entries may be lost if the machine stops.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(system(&self.path, "flush it to the disk"))
    }

    /// Prepares the file for the first append.
    fn begin(&mut self) -> io::Result<()> {
        if self.lost > 0 {
            self.file.set_len(self.end)?;
        }
        if self.end == 0 {
            self.file.write_all_at(&HEAD, 0)?;
            self.end = HEAD.len() as u64;
        }
        if self.options.durable {
            self.file.sync_all()?;
            // The file's name is in the data of its folder.
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }

    fn write_entries<'a>(
        &mut self,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<(), JournalError> {
        for (key, value) in entries {
            encode_frame(key, value, &mut self.gathered)?;
            if value.len() <= COPIED_SIZE_MAX {
                self.gathered.extend(value);
                if self.gathered.len() < GATHERED_SIZE_MAX {
                    continue;
                }
            }
            self.write_gathered()?;
            if value.len() > COPIED_SIZE_MAX {
                self.write(value)?;
            }
        }
        self.write_gathered()
    }

    fn write_gathered(&mut self) -> Result<(), JournalError> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let done = self.write(&gathered);
        gathered.clear();
        self.gathered = gathered;
        done
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        let written = self.file.write_all_at(bytes, self.end);
        written.map_err(system(&self.path, "write to it"))?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(JournalError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(system(path, "lock it")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_for_a_write_is_bounded() {
        let name = format!("gristmill-gathered-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut journal = Journal::open(&path, JournalOptions::default()).expect("a journal");
        let (small, large) = ([1; 1000], vec![2; 8 * GATHERED_SIZE_MAX]);
        let entries = (0..20_000).map(|_| (&b"small"[..], &small[..]));
        journal.append_all(entries.chain([(&b"large"[..], &large[..])])).expect("there is room");
        assert!(journal.gathered.is_empty());
        // A vector doubles its memory when it is full.
        assert!(journal.gathered.capacity() <= 2 * (GATHERED_SIZE_MAX + COPIED_SIZE_MAX));
        assert!(journal.end > 20_000_000 + large.len() as u64);
        std::fs::remove_file(&path).expect("it was made");
    }
}
