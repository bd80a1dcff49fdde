//! Errors of journals.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a journal could not be opened, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file exists and is not a journal; it was not changed.
    #[error("{} is not a journal", path.display())]
    NotAJournal {
        /// Path of the file.
        path: PathBuf,
    },
    /// The journal has a version that this program does not know; it was not changed.
    #[error("{} has version {version} of the journal format, which this version of gristmill does not know", path.display())]
    UnknownVersion {
        /// Path of the journal.
        path: PathBuf,
        /// Version of the journal.
        version: u8,
    },
    /// Another process, or another writer in this process, has the journal open for writing.
    #[error("{} is being written by another process", path.display())]
    Locked {
        /// Path of the journal.
        path: PathBuf,
    },
    /// The key is too long for the frame of an entry.
    #[error("a key of {size} bytes is too long for a journal: the limit is {limit}")]
    KeyTooLong {
        /// Size of the key, bytes.
        size: usize,
        /// Longest valid key, bytes.
        limit: usize,
    },
    /// An append failed and could not be undone; the journal takes no further entries.
    #[error("{} accepts no more entries: an earlier append failed and could not be undone", path.display())]
    Broken {
        /// Path of the journal.
        path: PathBuf,
    },
    /// The operating system refused an operation.
    #[error("{}: cannot {action}: {source}", path.display())]
    System {
        /// Path of the file.
        path: PathBuf,
        /// Operation that failed.
        action: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl JournalError {
    /// Returns the code that the exception in Python has.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            JournalError::NotAJournal { .. } => "not_a_journal",
            JournalError::UnknownVersion { .. } => "journal_unknown_version",
            JournalError::Locked { .. } => "journal_locked",
            JournalError::KeyTooLong { .. } => "journal_key_too_long",
            JournalError::Broken { .. } => "journal_broken",
            JournalError::System { .. } => "journal_system",
        }
    }

    /// Returns true if a retry may succeed: after another writer has closed the journal, or with more room on the disk.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, JournalError::Locked { .. } | JournalError::System { .. })
    }
}

/// Returns a function that turns an operating system error into a [`JournalError`] with this file and action.
pub fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    move |source| JournalError::System { path: path.to_owned(), action, source }
}
