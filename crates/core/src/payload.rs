//! Encoded bytes that travel with a task: its arguments, then its outcome.
//!
//! A payload takes only 24 bytes, so that most of a task record's cache lines are left for other fields. Small payloads
//! need no allocation. The module does not know what the bytes mean.

use gristmill_wire::PayloadKind;

/// Most bytes that a [`Payload`] stores inline; longer ones are on the heap.
pub const INLINE_MAX: usize = 22;

/// Block of the client's arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Offset from the start of the arena, bytes.
    pub offset: u64,
    /// Bytes of the block in use.
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    Inline { size: u8, bytes: [u8; INLINE_MAX] },
    Heap(Box<[u8]>),
    Arena(Block),
}

/// Encoded bytes, owned: inline, on the heap, or a block of the arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Repr);

const _: () = assert!(size_of::<Payload>() == 24);
const _: () = assert!(size_of::<Option<Payload>>() == 24);

/// Bytes of a [`Payload`], or the arena block that holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadRef<'a> {
    /// The bytes.
    Bytes(&'a [u8]),
    /// The block of the arena.
    Block(Block),
}

impl Payload {
    /// Payload of no bytes.
    pub const EMPTY: Self = Self(Repr::Inline { size: 0, bytes: [0; INLINE_MAX] });

    /// Copies `bytes`.
    #[inline]
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE_MAX {
            return Self(Repr::Heap(bytes.into()));
        }
        let mut inline = [0; INLINE_MAX];
        inline[..bytes.len()].copy_from_slice(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "at most INLINE_MAX")]
        Self(Repr::Inline { size: bytes.len() as u8, bytes: inline })
    }

    /// Lets `fill` write `size` bytes in place: moves the body of a record without a copy in between.
    #[inline]
    pub fn fill_with(size: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        if size > INLINE_MAX {
            let mut bytes = vec![0; size].into_boxed_slice();
            fill(&mut bytes);
            return Self(Repr::Heap(bytes));
        }
        let mut bytes = [0; INLINE_MAX];
        fill(&mut bytes[..size]);
        #[expect(clippy::cast_possible_truncation, reason = "at most INLINE_MAX")]
        Self(Repr::Inline { size: size as u8, bytes })
    }

    /// Takes over a block of the arena. The owner that drops the payload must return the block: `Core` hands the blocks
    /// of the payloads that it drops to `Core::freed_blocks`.
    #[must_use]
    pub const fn in_arena(block: Block) -> Self {
        Self(Repr::Arena(block))
    }

    /// Returns the bytes, or the arena block that holds them.
    #[inline]
    #[must_use]
    pub fn get(&self) -> PayloadRef<'_> {
        match &self.0 {
            Repr::Inline { size, bytes } => PayloadRef::Bytes(&bytes[..usize::from(*size)]),
            Repr::Heap(bytes) => PayloadRef::Bytes(bytes),
            Repr::Arena(block) => PayloadRef::Block(*block),
        }
    }

    /// Returns the arena block, if the bytes are in one.
    #[inline]
    #[must_use]
    pub const fn block(&self) -> Option<Block> {
        if let Repr::Arena(block) = &self.0 { Some(*block) } else { None }
    }

    /// Returns the number of bytes on the heap; 0 if the payload is inline or in the arena.
    #[inline]
    #[must_use]
    pub const fn heap_size(&self) -> u64 {
        if let Repr::Heap(bytes) = &self.0 { bytes.len() as u64 } else { 0 }
    }

    /// Returns the form in which the bytes travel in a record.
    #[must_use]
    pub const fn kind(&self) -> PayloadKind {
        match self.0 {
            Repr::Inline { .. } | Repr::Heap(_) => PayloadKind::Inline,
            Repr::Arena(_) => PayloadKind::Arena,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() > INLINE_MAX {
            Self(Repr::Heap(bytes.into_boxed_slice()))
        } else {
            Self::copy_from(&bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_arena_block_is_not_bytes() {
        let block = Block { offset: 64, size: 1 << 20 };
        let payload = Payload::in_arena(block);
        assert_eq!(payload.get(), PayloadRef::Block(block));
        assert_eq!((payload.block(), payload.kind()), (Some(block), PayloadKind::Arena));
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let copied = Payload::copy_from(&bytes);
            prop_assert_eq!(copied.get(), PayloadRef::Bytes(&bytes));
            let filled = Payload::fill_with(bytes.len(), |space| space.copy_from_slice(&bytes));
            prop_assert_eq!(&filled, &copied);
            prop_assert_eq!(Payload::from(bytes), copied);
        }
    }
}
