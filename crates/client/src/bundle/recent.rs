//! Deduplication of the blocks of calls that tasks submitted: equal blocks that wait share one block.

use std::collections::VecDeque;

use gristmill_shm::{BlockPart, WeakBlock};

/// Maximum number of blocks that a new one is compared with. A task submits calls with one large value in a row, or with a
/// few values in turn.
const COMPARED_MAX: usize = 16;

/// Most recent blocks that still live.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<WeakBlock>);

impl Recent {
    /// Returns the block to hold for a new one: an earlier block with the same bytes, or the new block. A comparison ends at
    /// the first byte that differs.
    pub fn share(&mut self, part: BlockPart) -> BlockPart {
        self.0.retain(WeakBlock::is_live);
        let known = self.0.iter().filter_map(WeakBlock::upgrade);
        if let Some(known) = known.into_iter().find(|known| known.has_same_bytes(&part)) {
            return known;
        }
        if self.0.len() == COMPARED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(part.downgrade());
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_shm::ClientArena;

    #[test]
    fn of_blocks_with_the_same_bytes_one_is_held() {
        let arena = ClientArena::create(1).expect("there is memory");
        let mut recent = Recent::default();
        let mut come =
            |seed: u8| recent.share(arena.store(&[seed; 100_000]).expect("there is room"));
        let first = come(1);
        let (again, other) = (come(1), come(2));
        assert_eq!(first.range(), again.range());
        assert_ne!(first.range(), other.range());
        assert_eq!(arena.live_count(), 2);
        drop((first, again, other));
        assert_eq!(arena.live_count(), 0, "none is held for those that may come");
    }

    #[test]
    fn a_block_that_can_change_is_shared_with_none() {
        let arena = ClientArena::create(1).expect("there is memory");
        let mut recent = Recent::default();
        let first = recent.share(arena.store(&[1; 100_000]).expect("there is room"));
        first.expose();
        let again = recent.share(arena.store(&[1; 100_000]).expect("there is room"));
        assert_ne!(first.range(), again.range());
    }
}
