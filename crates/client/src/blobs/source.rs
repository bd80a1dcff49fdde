//! Where the bytes of a blob are that is given over a link.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use gristmill_shm::BlockPart;

/// Where the bytes of a blob are.
#[derive(Debug, Clone)]
pub enum Source {
    /// In memory.
    Block(BlockPart),
    /// In a file, from its begin, and how many there were when they were named.
    File(Arc<File>, u64),
}

impl From<BlockPart> for Source {
    fn from(part: BlockPart) -> Self {
        Self::Block(part)
    }
}

impl Source {
    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Block(part) => part.range().size,
            Self::File(_, size) => *size,
        }
    }

    /// Copies bytes out, from byte `offset` on. What a file does not have any more is left as it is: whoever takes the bytes
    /// hashes them, and finds out.
    pub fn read_at(&self, offset: u64, space: &mut [u8]) {
        match self {
            Self::Block(part) => {
                let _all = part.read_at(offset, space);
            }
            Self::File(file, _) => {
                let _changed = file.read_exact_at(space, offset);
            }
        }
    }
}
