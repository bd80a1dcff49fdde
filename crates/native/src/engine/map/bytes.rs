//! Bytes that a map holds: items read ahead, and results not yet requested.

use std::collections::VecDeque;
use std::sync::OnceLock;

/// Maximum bytes that a map holds, items and results together; an eighth of the usable memory if that is less.
const HELD_MAX: u64 = 256 << 20;

/// Returns the bytes that a map may hold if the caller did not choose its window.
pub fn usual_max() -> u64 {
    static USUAL: OnceLock<u64> = OnceLock::new();
    *USUAL.get_or_init(|| HELD_MAX.min(gristmill_machine::memory().usable / 8))
}

/// Bytes of an item below which it is limited only by the number of items: 16,384 of them are 16 MB.
const ITEM_MIN: u64 = 1 << 10;

/// The bytes of one map.
#[derive(Debug)]
pub(super) struct Bytes {
    max: u64,
    /// Items that are read ahead whatever their size: one for every worker, and one more behind it.
    items_min: u64,
    /// Items of `ITEM_MIN` bytes or more, or batches of such items, in order: the number of items read up to and
    /// including the last one, and the bytes.
    items: VecDeque<(u64, u64)>,
    /// Sum of those bytes.
    held: u64,
    /// Running mean of the bytes of a result.
    result_mean: u64,
}

impl Bytes {
    /// Creates a counter without a limit.
    pub const fn unbounded() -> Self {
        Self { max: u64::MAX, items_min: 0, items: VecDeque::new(), held: 0, result_mean: 0 }
    }

    /// Creates a counter with the usual limit, for a number of workers.
    pub fn bounded(workers: u16) -> Self {
        let mut bytes = Self { max: usual_max(), ..Self::unbounded() };
        bytes.set_workers(workers.into());
        bytes
    }

    /// Sets the number of workers.
    pub const fn set_workers(&mut self, workers: u32) {
        self.items_min = workers as u64 * 2;
    }

    /// Adds the bytes of `count` items, the last of which is the `read`th.
    #[inline]
    pub fn add(&mut self, read: u64, count: u64, size: u64) {
        if size >= count * ITEM_MIN && count > 0 {
            self.items.push_back((read, size));
            self.held += size;
        }
    }

    /// Updates the mean with the bytes of a result.
    pub fn note_result(&mut self, size: u64) {
        self.result_mean = self.result_mean - self.result_mean / 8 + size / 8;
    }

    /// Returns whether reading must pause, after `given` results were returned of `read` items. `is_pressed` means that
    /// the engine has little room for payloads.
    #[inline]
    pub fn is_full(&mut self, given: u64, read: u64, is_pressed: bool) -> bool {
        if self.items.is_empty() && self.result_mean == 0 && !is_pressed {
            return false;
        }
        while let Some(&(place, size)) = self.items.front()
            && place <= given
        {
            self.held -= size;
            self.items.pop_front();
        }
        let ahead = read.saturating_sub(given);
        let results = ahead.saturating_mul(self.result_mean);
        let is_enough = is_pressed || self.held.saturating_add(results) >= self.max;
        self.max < u64::MAX && is_enough && ahead >= self.items_min.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_count_until_their_results_are_given() {
        let mut bytes = Bytes { max: 10 << 20, ..Bytes::unbounded() };
        for read in 1..=10 {
            assert!(!bytes.is_full(0, read - 1, false));
            bytes.add(read, 1, 1 << 20);
        }
        assert!(bytes.is_full(0, 10, false));
        assert!(!bytes.is_full(1, 10, false));
        bytes.add(75, 64, 64 * 1000);
        assert!(!bytes.is_full(10, 75, false), "small items do not count");
        bytes.add(139, 64, 10 << 20);
        assert!(bytes.is_full(75, 139, false), "those of a batch count together");
    }

    #[test]
    fn every_worker_has_items_whatever_their_size() {
        let mut bytes = Bytes { max: 1, items_min: 4, ..Bytes::unbounded() };
        for read in 1..=4 {
            assert!(!bytes.is_full(0, read - 1, false));
            bytes.add(read, 1, 1 << 30);
        }
        assert!(bytes.is_full(0, 4, false));
    }

    #[test]
    fn no_more_than_the_workers_need_is_read_while_there_is_little_room() {
        let mut bytes = Bytes { max: 1 << 30, items_min: 4, ..Bytes::unbounded() };
        assert!(!bytes.is_full(0, 3, true) && bytes.is_full(0, 4, true));
        assert!(
            !Bytes::unbounded().is_full(0, 100, true),
            "a window of the caller's choice counts items"
        );
    }

    #[test]
    fn large_results_count_before_they_are_there() {
        let mut bytes = Bytes { max: 100 << 20, ..Bytes::unbounded() };
        assert!(!bytes.is_full(0, 1000, false));
        for _ in 0..64 {
            bytes.note_result(10 << 20);
        }
        assert!(bytes.is_full(64, 64 + 11, false) && !bytes.is_full(64, 64 + 9, false));
        for _ in 0..64 {
            bytes.note_result(8);
        }
        assert!(!bytes.is_full(128, 128 + 1000, false));
    }
}
