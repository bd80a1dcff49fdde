//! Errors of images.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why an image could not be made or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes of the image do not hash to its name.
    #[error("{} is truncated or altered: it has {found_size} bytes with hash {found}, not {wanted_size} with {wanted}", path.display())]
    Altered {
        /// Path of the image.
        path: PathBuf,
        /// Expected hash, in hexadecimal digits.
        wanted: String,
        /// Expected number of bytes.
        wanted_size: u64,
        /// Actual hash, in hexadecimal digits.
        found: String,
        /// Actual number of bytes.
        found_size: u64,
    },
    /// The file is not an image.
    #[error("{} is not an image", path.display())]
    NotAnImage {
        /// Path of the file.
        path: PathBuf,
    },
    /// The image has a version that this program does not know.
    #[error("{} has version {version} of the image format, which this version of gristmill does not know", path.display())]
    UnknownVersion {
        /// Path of the image.
        path: PathBuf,
        /// Version of the image.
        version: u32,
    },
    /// The image breaks the rules of the format; nothing of it may be used.
    #[error("{} is damaged or hostile: {what}: {name:?}", path.display())]
    Hostile {
        /// Path of the image.
        path: PathBuf,
        /// Rule that is broken.
        what: &'static str,
        /// Name in the image at which the fault was found.
        name: String,
    },
    /// The name cannot be in an image.
    #[error("an image cannot contain {name:?}: {what}")]
    Name {
        /// The name.
        name: PathBuf,
        /// Reason.
        what: &'static str,
    },
    /// A file was written to while it was packed; a retry may succeed.
    #[error("{} changed while it was packed", path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
    },
    /// The operating system refused an operation.
    #[error("{}: cannot {action}: {source}", path.display())]
    System {
        /// Path of the file, name of the entry that was being written, or `zstd` if the compressor failed.
        path: PathBuf,
        /// Operation that failed.
        action: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl ImageError {
    /// Returns the code that the exception in Python has.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            ImageError::Altered { .. } => "image_altered",
            ImageError::NotAnImage { .. } => "not_an_image",
            ImageError::UnknownVersion { .. } => "image_unknown_version",
            ImageError::Hostile { .. } => "image_hostile",
            ImageError::Name { .. } => "image_name",
            ImageError::Changed { .. } => "image_changed",
            ImageError::System { .. } => "image_system",
        }
    }

    /// Returns true if a retry may succeed: with more room on the disk, once no process writes to a file, or with another
    /// copy of the image.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            ImageError::Altered { .. } | ImageError::Changed { .. } | ImageError::System { .. }
        )
    }
}

/// Returns a function that turns an operating system error into an [`ImageError`] with this path and action.
pub fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.to_owned();
    move |source| ImageError::System { path, action, source }
}
