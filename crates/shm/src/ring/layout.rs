//! The measures of a ring.

use super::LayoutError;
use gristmill_wire::RECORD_HEADER_SIZE;

/// Control lines in front of a ring's data: the reader's line and the writer's, 128 bytes each.
pub(crate) const CONTROL_SIZE: u32 = 256;

/// How large a ring is, and what follows from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    capacity: u32,
}

impl RingLayout {
    /// Below this a quarter of the ring holds no header.
    pub const SMALLEST: u32 = 64;
    /// Sizes and their sums stay below 2^32.
    pub const LARGEST: u32 = 1 << 30;

    /// A ring with `capacity` bytes for records.
    ///
    /// # Errors
    /// [`LayoutError`] unless it is a power of two in range.
    pub const fn new(capacity: u32) -> Result<Self, LayoutError> {
        let (smallest, largest) = (Self::SMALLEST, Self::LARGEST);
        if capacity < smallest || capacity > largest || !capacity.is_power_of_two() {
            return Err(LayoutError { capacity, smallest, largest });
        }
        Ok(Self { capacity })
    }

    /// Bytes for records.
    #[inline]
    #[must_use]
    pub const fn capacity(self) -> u32 {
        self.capacity
    }

    /// The largest body of a record, bytes: with its header it fills a quarter of the ring, so that a
    /// drained ring always has room for it and the pad in front of it.
    #[inline]
    #[must_use]
    pub const fn max_body(self) -> u32 {
        self.capacity / 4 - RECORD_HEADER_SIZE
    }

    /// Bytes that the ring occupies with its control lines.
    #[must_use]
    pub const fn region_size(self) -> u32 {
        CONTROL_SIZE + self.capacity
    }

    /// Bytes from `position` to the end of the ring.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "masked to less than the capacity")]
    pub(crate) const fn to_end(self, position: u64) -> u32 {
        self.capacity - (position as u32 & (self.capacity - 1))
    }

    /// After how many read bytes the reader publishes its tail: rarely, since the line is the writer's
    /// to read, but well before the writer runs out of room.
    #[inline]
    pub(crate) const fn tail_stride(self) -> u64 {
        self.capacity as u64 / 8
    }

    /// Words of data.
    pub(crate) const fn word_count(self) -> usize {
        self.capacity as usize / 8
    }
}
