//! The entries of an image.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::error::{ImageError, system};

/// One name of an image with its content.
#[derive(Debug, Clone)]
pub struct ImageEntry {
    /// Path in the image.
    pub name: PathBuf,
    /// Content of this name.
    pub content: Content,
}

/// The content of an entry.
#[derive(Debug, Clone)]
pub enum Content {
    /// A folder.
    Folder,
    /// Bytes of an existing file.
    Piece {
        /// Path of that file.
        path: PathBuf,
        /// Offset of the first byte in that file; `None` if the entry is the whole file.
        offset: Option<u64>,
        /// Number of bytes.
        size: u64,
        /// True if the unpacked file is executable.
        is_executable: bool,
    },
    /// Bytes that were made for the image.
    Made {
        /// The bytes of the file.
        bytes: Vec<u8>,
        /// True if the unpacked file is executable.
        is_executable: bool,
    },
    /// A symbolic link with this target.
    Link(PathBuf),
}

impl Content {
    /// Returns the part of an image that the content belongs to: folders come first, links last.
    const fn rank(&self) -> u8 {
        match self {
            Content::Folder => 0,
            Content::Piece { .. } | Content::Made { .. } => 1,
            Content::Link(_) => 2,
        }
    }

    pub(crate) const fn is_folder(&self) -> bool {
        matches!(self, Content::Folder)
    }

    pub(crate) const fn is_link(&self) -> bool {
        matches!(self, Content::Link(_))
    }

    /// Returns the number of bytes of the file; 0 for folders and links.
    pub(crate) const fn size(&self) -> u64 {
        match self {
            Content::Piece { size, .. } => *size,
            Content::Made { bytes, .. } => bytes.len() as u64,
            Content::Folder | Content::Link(_) => 0,
        }
    }
}

impl ImageEntry {
    /// Compares two entries by their order in an image.
    pub(crate) fn order(&self, other: &ImageEntry) -> Ordering {
        (self.content.rank(), &self.name).cmp(&(other.content.rank(), &other.name))
    }

    /// Copies the bytes of the file to `out`. Fails if they are not as many as the entry says.
    pub(crate) fn copy_to(&self, out: &mut impl io::Write) -> Result<(), ImageError> {
        match &self.content {
            Content::Folder | Content::Link(_) => Ok(()),
            Content::Made { bytes, .. } => {
                out.write_all(bytes).map_err(system(&self.name, "compress it"))
            }
            Content::Piece { path, offset, size, .. } => {
                let mut file = File::open(path).map_err(system(path, "open it"))?;
                let from = offset.unwrap_or(0);
                if from > 0 {
                    file.seek(SeekFrom::Start(from)).map_err(system(path, "read it"))?;
                }
                let mut bytes = file.take(*size);
                let count = io::copy(&mut bytes, out).map_err(system(path, "read it"))?;
                // Extra bytes mean, as missing bytes do, that another process writes to the file.
                bytes.set_limit(u64::from(offset.is_none()));
                let is_longer = bytes.read(&mut [0]).map_err(system(path, "read it"))? > 0;
                if count < *size || is_longer {
                    return Err(ImageError::Changed { path: path.clone() });
                }
                Ok(())
            }
        }
    }
}
