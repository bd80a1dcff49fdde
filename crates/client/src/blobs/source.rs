//! Source of the bytes of a blob that is sent over a link.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use gristmill_shm::BlockPart;

/// Source of the bytes of a blob.
#[derive(Debug, Clone)]
pub enum BlobSource {
    /// Block in memory.
    Block(BlockPart),
    /// File whose first bytes are the blob, and the size that the blob had when its digest was computed.
    File(Arc<File>, u64),
}

impl From<BlockPart> for BlobSource {
    fn from(part: BlockPart) -> Self {
        Self::Block(part)
    }
}

impl BlobSource {
    /// Returns the number of bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Block(part) => part.range().size,
            Self::File(_, size) => *size,
        }
    }

    /// Copies bytes into `space`, from byte `offset` on. Bytes that the file does not have any more are not copied: the
    /// receiver hashes the bytes and finds that they are wrong.
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
