//! Payloads: the contents of arguments and results, and the large ones, each of which is freed exactly once.

use std::collections::BTreeMap;

use gristmill_client::BlobTables;
use gristmill_core::{Block, Payload, PayloadRef};
use gristmill_wire::Verdict;

use crate::random::SeededRandom;

/// Size of the longest part, bytes.
const SIZE_MAX: u64 = 1_500;

/// Large payloads of one engine.
#[derive(Debug)]
pub struct SimMemory {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
    /// Minimum size of a payload, bytes.
    padded_size: usize,
    /// Size from which on a payload is large, bytes; 0 if none is.
    large_size: usize,
    /// Payloads with large parts, or `None` if there are none.
    pub blobs: Option<BlobTables>,
}

impl SimMemory {
    /// Creates an empty memory whose payloads have `padded_size` bytes at least, and are large from `large_size` on.
    #[must_use]
    pub const fn new(padded_size: usize, large_size: usize) -> Self {
        Self { blocks: BTreeMap::new(), next: 0, padded_size, large_size, blobs: None }
    }

    /// Stores bytes, padded, as a payload.
    pub fn store(&mut self, mut bytes: Vec<u8>) -> Payload {
        bytes.resize(bytes.len().max(self.padded_size), 0);
        if bytes.len() < self.large_size || self.large_size == 0 || self.blobs.is_some() {
            return Payload::from(bytes);
        }
        let block = Block { offset: self.next, size: bytes.len() as u64 };
        self.next += 1;
        self.blocks.insert(block.offset, bytes);
        Payload::in_arena(block)
    }

    /// Stores a result of bytes and large parts.
    pub fn store_result(&mut self, bytes: Vec<u8>, parts: &[u64]) -> Payload {
        let Some(blobs) = self.blobs.as_mut().filter(|_| !parts.is_empty()) else {
            return self.store(bytes);
        };
        let parts: Vec<_> = parts.iter().map(|&id| content(id)).collect();
        blobs.store(&bytes, &parts).expect("there is memory")
    }

    /// Stores arguments of bytes and large parts, which are sent by name.
    pub fn store_arguments(&mut self, bytes: Vec<u8>, parts: &[u64]) -> Payload {
        let Some(blobs) = self.blobs.as_mut().filter(|_| !parts.is_empty()) else {
            return self.store(bytes);
        };
        let parts: Vec<_> = parts.iter().map(|&id| content(id)).collect();
        blobs.name(&bytes, &parts).expect("there is memory")
    }

    /// Returns the large parts of a payload.
    #[must_use]
    pub fn contents(&self, payload: &Payload) -> Vec<Vec<u8>> {
        self.blobs.as_ref().map(|blobs| blobs.contents(payload)).unwrap_or_default()
    }

    /// Returns the bytes of a payload.
    ///
    /// # Panics
    /// If it was freed.
    #[must_use]
    pub fn get<'a>(&'a self, payload: &'a Payload) -> &'a [u8] {
        if let Some(blobs) = &self.blobs {
            return blobs.bytes(payload);
        }
        match payload.get() {
            PayloadRef::Bytes(bytes) => bytes,
            PayloadRef::Block(block) => {
                self.blocks.get(&block.offset).expect("a payload's block lives as long as it")
            }
        }
    }

    /// Frees blocks.
    ///
    /// # Panics
    /// If one was freed before.
    pub fn free(&mut self, blocks: &mut Vec<Block>) {
        for block in blocks.drain(..) {
            assert!(self.blocks.remove(&block.offset).is_some(), "a block is freed once");
        }
    }

    /// Returns the number of large payloads.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blobs.as_ref().map_or(self.blocks.len(), BlobTables::payload_count)
    }
}

/// Returns the value that a run of a task returns or raises.
#[must_use]
pub fn value_of(verdict: Verdict, number: usize, run: u32) -> Vec<u8> {
    let mut bytes = vec![verdict as u8];
    bytes.extend_from_slice(&(number as u64).to_le_bytes());
    bytes.extend_from_slice(&run.to_le_bytes());
    bytes
}

/// Returns the verdict, the task and the run of a value.
///
/// # Panics
/// If the bytes are no value.
#[must_use]
pub fn read_value(bytes: &[u8]) -> (u8, usize, u32) {
    let (number, run) = (&bytes[1..9], &bytes[9..13]);
    (bytes[0], number_of(number), u32::from_le_bytes(run.try_into().expect("four bytes")))
}

/// Returns the number at the beginning of arguments.
///
/// # Panics
/// If they are too short.
#[must_use]
pub fn number_of(bytes: &[u8]) -> usize {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    usize::try_from(number).expect("a number")
}

/// Returns the bytes of a part. They follow from its number, so that each receiver can check them.
#[must_use]
pub fn content(id: u64) -> Vec<u8> {
    let mut random = SeededRandom::new(id);
    let size = 1 + random.index(usize::try_from(SIZE_MAX).expect("small"));
    let words = std::iter::repeat_with(|| random.next()).flat_map(u64::to_le_bytes);
    words.take(size).collect()
}
