//! What can go wrong with a key.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a key could not be made, read or written. No variant holds a part of a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text does not begin as such a key does.
    #[error("this is not the key that belongs here: it does not begin with {name}")]
    Prefix {
        /// What it begins with.
        name: &'static str,
    },
    /// A version that this program does not know.
    #[error("a key of an unknown version: this program knows version 1")]
    UnknownVersion,
    /// A part is missing, or there is too much.
    #[error("a key has {found} characters behind its prefix where {expected} belong: was it cut?")]
    Length {
        /// Characters behind the prefix.
        found: usize,
        /// Characters that belong there.
        expected: usize,
    },
    /// A character that is in no key.
    #[error("character {position} of a key is none that a key may have")]
    Character {
        /// Its place in the text, from 1.
        position: usize,
    },
    /// The text is not the one that was written: a character was changed.
    #[error("the checksum of a key does not fit: a character was changed")]
    Checksum,
    /// Others than its owner may read or write the file; it was not read.
    #[error("{} has mode {mode:03o}: a key is for its owner alone (chmod 600)", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Not a regular file.
    #[error("{} is no file", path.display())]
    NoFile {
        /// What is none.
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
    /// The system gives no random bytes.
    #[error("the system gives no random bytes to draw a key from")]
    NoRandom,
}

impl KeyError {
    pub(super) const fn prefix(name: &'static str) -> Self {
        Self::Prefix { name }
    }

    /// A name that stays the same.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Prefix { .. } => "key-prefix",
            Self::UnknownVersion => "key-unknown-version",
            Self::Length { .. } => "key-length",
            Self::Character { .. } => "key-character",
            Self::Checksum => "key-checksum",
            Self::Exposed { .. } => "key-exposed",
            Self::NoFile { .. } => "key-no-file",
            Self::System { .. } => "key-system",
            Self::NoRandom => "key-no-random",
        }
    }

    /// Whether the same may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::System { .. })
    }
}

/// Names the file and the action that an operating error belongs to.
pub fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> KeyError {
    move |source| KeyError::System { path: path.to_owned(), action, source }
}
