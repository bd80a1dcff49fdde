//! How a payload travels whose large parts are blocks of the arena.

use crate::FrameError;

/// A piece of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// Bytes from the start of the arena.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

impl BlockRange {
    /// One past its last byte; `None` beyond 64 bits.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// What is in a record in the place of a payload of kind `Arena`: a word that counts the blocks (with
/// [`ArenaDescriptor::BODY_IN_FIRST`]), offset and size of each, then the encoded bytes, which name the blocks by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaDescriptor<'a> {
    /// The blocks, in the order in which the bytes count them.
    pub blocks: Vec<BlockRange>,
    /// The encoded bytes are not here but in the first block, which is not counted.
    pub body_in_first: bool,
    /// The encoded bytes.
    pub bytes: &'a [u8],
}

impl<'a> ArenaDescriptor<'a> {
    /// The flag in the first word: the encoded bytes are too large for a record and are in the first block.
    pub const BODY_IN_FIRST: u64 = 1 << 32;

    /// The size of a descriptor, bytes.
    #[must_use]
    pub const fn size(block_count: usize, byte_count: usize) -> usize {
        8 + 16 * block_count + byte_count
    }

    /// Appends a descriptor.
    pub fn write(blocks: &[BlockRange], body_in_first: bool, bytes: &[u8], out: &mut Vec<u8>) {
        let flag = if body_in_first { Self::BODY_IN_FIRST } else { 0 };
        out.extend_from_slice(&(blocks.len() as u64 | flag).to_le_bytes());
        for block in blocks {
            out.extend_from_slice(&block.offset.to_le_bytes());
            out.extend_from_slice(&block.size.to_le_bytes());
        }
        out.extend_from_slice(bytes);
    }

    /// Reads a descriptor that is all of `bytes`. Where the blocks are is for the owner of the arena to check.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] when it counts more blocks than it holds.
    pub fn read(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let short = |needed| FrameError::Truncated { needed, found: bytes.len() };
        let (head, mut rest) = bytes.split_first_chunk::<8>().ok_or(short(8))?;
        let head = u64::from_le_bytes(*head);
        let body_in_first = head & Self::BODY_IN_FIRST != 0;
        let count = usize::try_from(head & !Self::BODY_IN_FIRST).unwrap_or(usize::MAX);
        if count > rest.len() / 16 || (body_in_first && count == 0) {
            return Err(short(count.saturating_mul(16).saturating_add(8)));
        }
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let (offset, behind) = rest.split_first_chunk::<8>().ok_or(short(16))?;
            let (size, behind) = behind.split_first_chunk::<8>().ok_or(short(16))?;
            let (offset, size) = (u64::from_le_bytes(*offset), u64::from_le_bytes(*size));
            blocks.push(BlockRange { offset, size });
            rest = behind;
        }
        Ok(Self { blocks, body_in_first, bytes: rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_descriptor() {
        let mut out = Vec::new();
        let block = BlockRange { offset: 4096, size: 2 };
        ArenaDescriptor::write(&[block], true, b"xy", &mut out);
        let golden =
            [1, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'x', b'y'];
        assert_eq!(out, golden);
        let read = ArenaDescriptor { blocks: vec![block], body_in_first: true, bytes: b"xy" };
        assert_eq!(ArenaDescriptor::read(&out), Ok(read));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_themselves_or_are_refused(bytes: Vec<u8>) {
            if let Ok(read) = ArenaDescriptor::read(&bytes) {
                let mut again = Vec::new();
                let ArenaDescriptor { blocks, body_in_first, bytes: inline } = read;
                ArenaDescriptor::write(&blocks, body_in_first, inline, &mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn descriptors_come_back(pairs: Vec<(u64, u64)>, inline: Vec<u8>) {
            let blocks: Vec<_> =
                pairs.into_iter().map(|(offset, size)| BlockRange { offset, size }).collect();
            let mut out = Vec::new();
            ArenaDescriptor::write(&blocks, false, &inline, &mut out);
            prop_assert_eq!(out.len(), ArenaDescriptor::size(blocks.len(), inline.len()));
            let read = ArenaDescriptor { blocks, body_in_first: false, bytes: &inline };
            prop_assert_eq!(ArenaDescriptor::read(&out), Ok(read));
        }
    }
}
