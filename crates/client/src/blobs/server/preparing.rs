//! Queue of blocks that get their pages. The pages of a gigabyte take a second or more, so each turn creates only some of
//! them and other work does not wait.

use std::collections::VecDeque;

use gristmill_shm::ArenaError;
use gristmill_store::Store;
use gristmill_wire::BlobName;

/// Bytes of pages that are created before other work has its turn.
const TURN: u64 = 16 << 20;

/// Blocks that get their pages, one after the other.
#[derive(Debug, Default)]
pub(super) struct PrefaultQueue(VecDeque<(BlobName, u64)>);

impl PrefaultQueue {
    /// Adds a blob's block.
    pub fn add(&mut self, name: BlobName) {
        self.0.push_back((name, 0));
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Creates some pages. Returns the blob when its first pages exist, so that it can be requested, or when it gets no more.
    pub fn attend(&mut self, store: &Store) -> Option<(BlobName, Result<(), ArenaError>)> {
        let (name, offset) = self.0.front_mut()?;
        let made = match store.progress(name.digest) {
            Some(progress) => progress.part.populate(*offset, TURN),
            // The blob is not wanted any more.
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
