//! Blocks that get their pages: a gigabyte of them takes a second or more, which nobody else should wait for.

use std::collections::VecDeque;

use gristmill_shm::ArenaError;
use gristmill_store::Store;
use gristmill_wire::BlobName;

/// Bytes of pages that are made before other things have their turn.
const TURN: u64 = 16 << 20;

/// Blocks that get their pages, one after the other.
#[derive(Debug, Default)]
pub(super) struct Preparing(VecDeque<(BlobName, u64)>);

impl Preparing {
    /// Adds a blob's block.
    pub fn add(&mut self, name: BlobName) {
        self.0.push_back((name, 0));
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes some pages; gives the blob if they were its first ones, so that it can be asked for, or if it can have no
    /// more.
    pub fn attend(&mut self, store: &Store) -> Option<(BlobName, Result<(), ArenaError>)> {
        let (name, offset) = self.0.front_mut()?;
        let made = match store.progress(name.digest) {
            Some(progress) => progress.part.populate(*offset, TURN),
            // Nobody wants it any more.
            None => Ok(()),
        };
        let (name, is_first) = (*name, *offset == 0);
        *offset += TURN;
        if made.is_err() || *offset >= name.size {
            self.0.pop_front();
        }
        (is_first || made.is_err()).then_some((name, made))
    }
}
