//! The dimensions of a ring.

use super::LayoutError;
use gristmill_wire::RECORD_HEADER_SIZE;

/// Size of the control lines in front of a ring's data, bytes: 128 for the reader's line and 128 for the writer's.
pub(crate) const CONTROL_SIZE: u32 = 256;

/// The capacity of a ring and the sizes derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    capacity: u32,
}

impl RingLayout {
    /// The smallest capacity, bytes: a quarter of a smaller ring would hold no header.
    pub const SMALLEST: u32 = 64;
    /// The largest capacity, bytes: sizes and their sums stay below 2^32.
    pub const LARGEST: u32 = 1 << 30;

    /// Creates the layout of a ring with `capacity` bytes for records.
    ///
    /// # Errors
    /// [`LayoutError`] unless `capacity` is a power of two in range.
    pub const fn new(capacity: u32) -> Result<Self, LayoutError> {
        let (smallest, largest) = (Self::SMALLEST, Self::LARGEST);
        if capacity < smallest || capacity > largest || !capacity.is_power_of_two() {
            return Err(LayoutError { capacity, smallest, largest });
        }
        Ok(Self { capacity })
    }

    /// Returns the size of the part that holds records, bytes.
    #[inline]
    #[must_use]
    pub const fn capacity(self) -> u32 {
        self.capacity
    }

    /// Returns the size of the largest record body, bytes. With its header it fills a quarter of the ring, so a drained
    /// ring always has room for it and the pad in front of it.
    #[inline]
    #[must_use]
    pub const fn max_body(self) -> u32 {
        self.capacity / 4 - RECORD_HEADER_SIZE
    }

    /// Returns the size of the ring, including its control lines, bytes.
    #[must_use]
    pub const fn region_size(self) -> u32 {
        CONTROL_SIZE + self.capacity
    }

    /// Returns the number of bytes from `position` to the end of the ring.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to less than the capacity")]
    pub(crate) const fn to_end(self, position: u64) -> u32 {
        self.capacity - (position as u32 & (self.capacity - 1))
    }

    /// Returns the number of bytes after which the reader publishes its tail. Publications are rare, because each takes
    /// the cache line of the tail from the writer, but frequent enough that the writer does not run out of room.
    #[inline]
    pub(crate) const fn tail_stride(self) -> u64 {
        self.capacity as u64 / 8
    }

    /// Returns the number of data words.
    pub(crate) const fn word_count(self) -> usize {
        self.capacity as usize / 8
    }
}
