//! Errors of keys.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a key could not be made, read or written. No variant contains a part of a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text does not begin with the prefix of such a key.
    #[error("this is not the expected key: it does not begin with {name}")]
    Prefix {
        /// The expected prefix.
        name: &'static str,
    },
    /// The version of the key is unknown to this program.
    #[error("the key has an unknown version: this program knows version 1")]
    UnknownVersion,
    /// The text is too short or too long.
    #[error("the key has {found} characters behind its prefix, not {expected}: was it cut?")]
    Length {
        /// Characters behind the prefix.
        found: usize,
        /// The expected number of characters.
        expected: usize,
    },
    /// The text contains a character that cannot be in a key.
    #[error("character {position} of the key cannot be in a key")]
    Character {
        /// The position of the character in the text, from 1.
        position: usize,
    },
    /// The checksum differs: a character of the text was changed.
    #[error("the checksum of the key is wrong: a character was changed")]
    Checksum,
    /// Users other than the owner may access the file; it was not read.
    #[error("{} has mode {mode:03o}: only its owner may read a key (chmod 600)", path.display())]
    Exposed {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The path is not that of a regular file.
    #[error("{} is not a regular file", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    System {
        /// The path of the file.
        path: PathBuf,
        /// The action that was tried.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system returned no random bytes for a new key")]
    NoRandom,
}

impl KeyError {
    pub(super) const fn prefix(name: &'static str) -> Self {
        Self::Prefix { name }
    }

    /// Returns the code that the exception in Python has.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Prefix { .. } => "key_prefix",
            Self::UnknownVersion => "key_unknown_version",
            Self::Length { .. } => "key_length",
            Self::Character { .. } => "key_character",
            Self::Checksum => "key_checksum",
            Self::Exposed { .. } => "key_exposed",
            Self::NoFile { .. } => "key_no_file",
            Self::System { .. } => "key_system",
            Self::NoRandom => "key_no_random",
        }
    }

    /// Returns true if the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::System { .. })
    }
}

/// Adds the path and the action to an error of the system.
pub fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> KeyError {
    move |source| KeyError::System { path: path.to_owned(), action, source }
}
