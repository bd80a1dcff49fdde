//! The priority floor of a slot: the least priority that may begin, so that a waiting task of a higher priority does
//! not wait for a ring to drain.
//!
//! The client raises the floor when a task of a higher priority than those in the ring waits for a worker. The worker
//! reads the floor before each task and each call of a batch, and answers tasks below it as not started. One store per
//! slot withdraws all records of a ring, however many there are. Raising needs no barrier: a worker that reads the old
//! floor begins one more task. Lowering is ordered by the ring: the client lowers the floor before it publishes a
//! record below the old one, so a worker that has read this record finds the new floor and does not hand the record
//! back again.

use gristmill_sync::atomic::{AtomicU64, Ordering};

/// The client's word: the least priority that may begin, counted from the lowest one. Zero admits every task.
#[derive(Debug, Default)]
pub struct FloorWord(AtomicU64);

const fn rank(priority: i32) -> u64 {
    priority.abs_diff(i32::MIN) as u64
}

impl FloorWord {
    /// Sets the least priority that may begin; `i32::MIN` admits every task.
    #[inline]
    pub fn set(&self, priority: i32) {
        // PAIRS: floor (`admits`): a record that is published after this store carries it to its reader.
        self.0.store(rank(priority), Ordering::Relaxed);
    }

    /// Returns true if a task of this priority may begin.
    #[inline]
    #[must_use = "a task below the floor must not run"]
    pub fn admits(&self, priority: i32) -> bool {
        // PAIRS: floor (`set`): a worker that has read a record sees the floor that was stored before its publication.
        let floor = self.0.load(Ordering::Relaxed);
        floor == 0 || rank(priority) >= floor
    }
}

#[cfg(all(test, not(gristmill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_floor_admits_its_own_priority_and_higher_ones() {
        let floor = FloorWord::default();
        assert!(floor.admits(i32::MIN) && floor.admits(0) && floor.admits(i32::MAX));
        for priority in [i32::MIN + 1, -1, 0, 1, i32::MAX] {
            floor.set(priority);
            assert!(
                floor.admits(priority) && !floor.admits(priority - 1) && floor.admits(i32::MAX)
            );
        }
        floor.set(i32::MIN);
        assert!(floor.admits(i32::MIN));
    }
}
