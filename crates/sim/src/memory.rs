//! Payloads: what arguments and results say, and the large ones, each of which is freed exactly once.

use std::collections::BTreeMap;

use gristmill_core::{Block, Payload, PayloadRef};
use gristmill_wire::Verdict;

/// The large payloads of one engine.
#[derive(Debug)]
pub struct Memory {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
    /// Payloads are so many bytes at least.
    padded_size: usize,
    /// From how many bytes on a payload is a large one; 0 is never.
    large_size: usize,
}

impl Memory {
    /// Without payloads; they are to have `padded_size` bytes at least, and are large from `large_size` on.
    #[must_use]
    pub const fn new(padded_size: usize, large_size: usize) -> Self {
        Self { blocks: BTreeMap::new(), next: 0, padded_size, large_size }
    }

    /// A payload of some bytes, padded.
    pub fn store(&mut self, mut bytes: Vec<u8>) -> Payload {
        bytes.resize(bytes.len().max(self.padded_size), 0);
        if bytes.len() < self.large_size || self.large_size == 0 {
            return Payload::from(bytes);
        }
        let block = Block { offset: self.next, size: bytes.len() as u64 };
        self.next += 1;
        self.blocks.insert(block.offset, bytes);
        Payload::in_arena(block)
    }

    /// The bytes of a payload.
    ///
    /// # Panics
    /// It was freed.
    #[must_use]
    pub fn get<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        match payload.get() {
            PayloadRef::Bytes(bytes) => bytes,
            PayloadRef::Block(block) => {
                self.blocks.get(&block.offset).expect("a payload's block lives as long as it")
            }
        }
    }

    /// Drops blocks.
    ///
    /// # Panics
    /// One was dropped before.
    pub fn free(&mut self, blocks: &mut Vec<Block>) {
        for block in blocks.drain(..) {
            assert!(self.blocks.remove(&block.offset).is_some(), "a block is freed once");
        }
    }

    /// How many large payloads there are.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }
}

/// What a run of a task gives.
#[must_use]
pub fn value_of(verdict: Verdict, number: usize, run: u32) -> Vec<u8> {
    let mut bytes = vec![verdict as u8];
    bytes.extend_from_slice(&(number as u64).to_le_bytes());
    bytes.extend_from_slice(&run.to_le_bytes());
    bytes
}

/// The verdict, the task and the run that a value is of.
///
/// # Panics
/// It is none.
#[must_use]
pub fn read_value(bytes: &[u8]) -> (u8, usize, u32) {
    let (number, run) = (&bytes[1..9], &bytes[9..13]);
    (bytes[0], number_of(number), u32::from_le_bytes(run.try_into().expect("four bytes")))
}

/// The number that arguments begin with.
///
/// # Panics
/// They have none.
#[must_use]
pub fn number_of(bytes: &[u8]) -> usize {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    usize::try_from(number).expect("a number")
}
