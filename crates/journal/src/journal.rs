//! Writing: one process appends entries, and each is with the kernel when its call returns.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::entries::Entries;
use crate::error::{JournalError, system};
use crate::format::{HEAD, encode_frame};

/// Values up to this size are copied behind their frames and written with them; larger ones are a write of their own.
const COPIED_SIZE_MAX: usize = 64 << 10;
/// So much is gathered before it is written, in bytes: larger writes are not cheaper by the byte.
const GATHERED_SIZE_MAX: usize = 1 << 20;

/// What a journal promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Each append waits for the disk: entries survive a power loss, and cost milliseconds instead of microseconds.
    pub durable: bool,
}

/// A journal open for writing; dropping it gives its lock back.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    options: Options,
    /// Where the next entry goes.
    end: u64,
    recovered: u64,
    lost: u64,
    is_broken: bool,
    /// Frames and small values on their way.
    gathered: Vec<u8>,
}

impl Journal {
    /// Opens a journal for writing, or makes one; cuts off what is torn or damaged at its end.
    ///
    /// Where the file system knows no locks (some parallel ones), there is none, and the caller has to see to it that
    /// nobody else writes.
    ///
    /// # Errors
    /// Another process writes it (retry once it has ended), it is no journal, or the system refuses.
    pub fn open(path: &Path, options: Options) -> Result<Journal, JournalError> {
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

    /// Entries that were there when it was opened.
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Bytes that were cut off when it was opened: of an entry that was not finished, or damaged, and all behind it.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one entry: it survives this process once this returns, and with [`Options::durable`] the machine.
    ///
    /// # Errors
    /// The key is too long, or the system refuses, as when the disk is full: then the journal is as it was before, and
    /// the same append may succeed later.
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Result<(), JournalError> {
        self.append_all([(key, value)])
    }

    /// Appends entries with as few system calls as possible: all of them or, on an error, none.
    ///
    /// After the death of the process within this call, the first of them may be there.
    ///
    /// # Errors
    /// As [`Journal::append`].
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
            // Nothing of it may stay: the next entry is written over it, and a rest would look like damage.
            self.is_broken = self.file.set_len(before).is_err();
        }
        done
    }

    /// Waits until the disk has every entry.
    ///
    /// # Errors
    /// The system could not write; entries may be lost if the machine stops.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(system(&self.path, "flush it to the disk"))
    }

    /// Brings the file to the state that the first append expects.
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
            // The name is in the folder's data.
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
