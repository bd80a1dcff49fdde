//! What goes into an image.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::error::{ImageError, system};

/// One name of an image, and what is there.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where it is in the image.
    pub name: PathBuf,
    /// What it is.
    pub content: Content,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Content {
    /// A folder.
    Folder,
    /// Bytes of a file that is there.
    Piece {
        /// Which file.
        path: PathBuf,
        /// Where they begin in it; nothing: they are all of it.
        offset: Option<u64>,
        /// How many.
        size: u64,
        /// It can be run.
        is_executable: bool,
    },
    /// Bytes that were made for the image.
    Made {
        /// They.
        bytes: Vec<u8>,
        /// They can be run.
        is_executable: bool,
    },
    /// A symbolic link with this target.
    Link(PathBuf),
}

impl Content {
    /// In which part of an image it is: folders are first, links last.
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

    /// Bytes of its own.
    pub(crate) const fn size(&self) -> u64 {
        match self {
            Content::Piece { size, .. } => *size,
            Content::Made { bytes, .. } => bytes.len() as u64,
            Content::Folder | Content::Link(_) => 0,
        }
    }
}

impl Entry {
    /// What comes first in an image.
    pub(crate) fn order(&self, other: &Entry) -> Ordering {
        (self.content.rank(), &self.name).cmp(&(other.content.rank(), &other.name))
    }

    /// Copies its bytes: as many as it said, or an error.
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
                // One more byte than it had means that somebody writes to it as much as one less does.
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
