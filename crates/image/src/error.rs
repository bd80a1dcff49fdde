//! What can go wrong with an image.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why an image could not be made or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Its bytes are not those that its name says.
    #[error("{} is truncated or altered: it has {found_size} bytes with hash {found}, not {wanted_size} with {wanted}", path.display())]
    Altered {
        /// Which file.
        path: PathBuf,
        /// The hash it should have, in hexadecimal digits.
        wanted: String,
        /// Bytes it should have.
        wanted_size: u64,
        /// The hash it has.
        found: String,
        /// Bytes it has.
        found_size: u64,
    },
    /// It is something else.
    #[error("{} is no image", path.display())]
    NotAnImage {
        /// Which file.
        path: PathBuf,
    },
    /// A version that this program does not know.
    #[error("{} has version {version} of the format of images, which is unknown here", path.display())]
    UnknownVersion {
        /// Which file.
        path: PathBuf,
        /// The version it has.
        version: u32,
    },
    /// It breaks the rules of the format; nothing of it may be used.
    #[error("{} is damaged or hostile: {what}: {name:?}", path.display())]
    Hostile {
        /// Which file.
        path: PathBuf,
        /// Which rule.
        what: &'static str,
        /// The name in the image where that was seen.
        name: String,
    },
    /// A name cannot be in an image.
    #[error("{name:?} cannot go into an image: {what}")]
    Name {
        /// Which name.
        name: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// A file was written to while it was packed; the same may succeed later.
    #[error("{} changed while it was packed", path.display())]
    Changed {
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

impl ImageError {
    /// A name that stays the same.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            ImageError::Altered { .. } => "altered",
            ImageError::NotAnImage { .. } => "not-an-image",
            ImageError::UnknownVersion { .. } => "unknown-version",
            ImageError::Hostile { .. } => "hostile",
            ImageError::Name { .. } => "name",
            ImageError::Changed { .. } => "changed",
            ImageError::System { .. } => "system",
        }
    }

    /// Whether the same may succeed later: with more room on the disk, once nobody writes to a file, or with another copy
    /// of the image.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            ImageError::Altered { .. } | ImageError::Changed { .. } | ImageError::System { .. }
        )
    }
}

/// Names the file and the action that an operating error belongs to.
pub fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.to_owned();
    move |source| ImageError::System { path, action, source }
}
