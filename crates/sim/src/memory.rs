//! Payloads: what arguments and results say, and the large ones, each of which is freed exactly once.

use std::collections::BTreeMap;

use gristmill_client::BlobTables;
use gristmill_core::{Block, Payload, PayloadRef};
use gristmill_wire::Verdict;

use crate::contents::content;

/// The large payloads of one engine.
#[derive(Debug)]
pub struct Memory {
    blocks: BTreeMap<u64, Vec<u8>>,
    next: u64,
    /// Payloads are so many bytes at least.
    padded_size: usize,
    /// From how many bytes on a payload is a large one; 0 is never.
    large_size: usize,
    /// Payloads with large parts are there; none: there are no such.
    pub blobs: Option<BlobTables>,
}

impl Memory {
    /// Without payloads; they are to have `padded_size` bytes at least, and are large from `large_size` on.
    #[must_use]
    pub const fn new(padded_size: usize, large_size: usize) -> Self {
        Self { blocks: BTreeMap::new(), next: 0, padded_size, large_size, blobs: None }
    }

    /// A payload of some bytes, padded.
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

    /// A result of some bytes and large parts.
    pub fn store_result(&mut self, bytes: Vec<u8>, parts: &[u64]) -> Payload {
        let Some(blobs) = self.blobs.as_mut().filter(|_| !parts.is_empty()) else {
            return self.store(bytes);
        };
        let parts: Vec<_> = parts.iter().map(|&id| content(id)).collect();
        blobs.store(&bytes, &parts).expect("there is memory")
    }

    /// Arguments of some bytes and large parts, which travel by name.
    pub fn store_arguments(&mut self, bytes: Vec<u8>, parts: &[u64]) -> Payload {
        let Some(blobs) = self.blobs.as_mut().filter(|_| !parts.is_empty()) else {
            return self.store(bytes);
        };
        let parts: Vec<_> = parts.iter().map(|&id| content(id)).collect();
        blobs.name(&bytes, &parts).expect("there is memory")
    }

    /// The large parts of a payload, as they are here.
    #[must_use]
    pub fn contents(&self, payload: &Payload) -> Vec<Vec<u8>> {
        self.blobs.as_ref().map(|blobs| blobs.contents(payload)).unwrap_or_default()
    }

    /// The bytes of a payload.
    ///
    /// # Panics
    /// It was freed.
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
        self.blobs.as_ref().map_or(self.blocks.len(), BlobTables::payload_count)
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
