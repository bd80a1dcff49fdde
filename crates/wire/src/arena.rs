//! The wire format of a payload whose large parts are blocks of the arena.

use crate::FrameError;

/// A range of bytes in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// Distance from the start of the arena, bytes.
    pub offset: u64,
    /// Size of the range, bytes.
    pub size: u64,
}

impl BlockRange {
    /// Returns the offset one past the last byte; `None` if it exceeds 64 bits.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// The content of a record whose payload kind is `Arena`: a word that counts the blocks (with
/// [`ArenaDescriptor::BODY_IN_FIRST`]), the offset and size of each block, then the encoded bytes, which name the blocks by
/// index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaDescriptor<'a> {
    /// The blocks, in the order of the indices that the encoded bytes use.
    pub blocks: Vec<BlockRange>,
    /// True if the encoded bytes are in the first block instead of here; the indices do not count that block.
    pub body_in_first: bool,
    /// The encoded bytes.
    pub bytes: &'a [u8],
}

impl<'a> ArenaDescriptor<'a> {
    /// The flag in the first word: the encoded bytes are too large for a record and are in the first block.
    pub const BODY_IN_FIRST: u64 = 1 << 32;

    /// Returns the size of a descriptor, bytes.
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

    /// Reads a descriptor that takes up all of `bytes`. The owner of the arena must check where the blocks are.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the descriptor counts more blocks than it holds.
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
