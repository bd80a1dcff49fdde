//! What can go wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a journal could not be opened, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file exists and holds something else; it was not touched.
    #[error("{} is no journal", path.display())]
    NotAJournal {
        /// Which file.
        path: PathBuf,
    },
    /// A version that this program does not know; it was not touched.
    #[error("{} has version {version} of the journal's format, which is unknown here", path.display())]
    UnknownVersion {
        /// Which file.
        path: PathBuf,
        /// The version it has.
        version: u8,
    },
    /// Another process, or another part of this one, has it open for writing.
    #[error("{} is being written by another process", path.display())]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// A key must fit its entry's frame.
    #[error("a key of {size} bytes is too long for a journal: at most {limit}")]
    KeyTooLong {
        /// Its size in bytes.
        size: usize,
        /// The most there may be.
        limit: usize,
    },
    /// An append failed and could not be undone; nothing can be appended any more.
    #[error("{} takes no more entries: an earlier one failed and could not be undone", path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    System {
        /// Which file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl JournalError {
    /// A name that stays the same.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            JournalError::NotAJournal { .. } => "not-a-journal",
            JournalError::UnknownVersion { .. } => "unknown-version",
            JournalError::Locked { .. } => "locked",
            JournalError::KeyTooLong { .. } => "key-too-long",
            JournalError::Broken { .. } => "broken",
            JournalError::System { .. } => "system",
        }
    }

    /// Whether the same may succeed later: after another writer has closed, or with more room on the disk.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, JournalError::Locked { .. } | JournalError::System { .. })
    }
}

/// Names the file and the action that an operating error belongs to.
pub fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    move |source| JournalError::System { path: path.to_owned(), action, source }
}
