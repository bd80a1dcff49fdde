//! Random choices of a seed.

/// A stream of numbers that is a function of its seed (splitmix64).
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Creates the stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns an index into a sequence of `len` elements; `len` must not be 0.
    #[expect(clippy::cast_possible_truncation, reason = "below a length")]
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true in `percent` of all cases.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Draws the time between the interrupt of a task and the kill of its worker, less than `limit` ns: none in one of five cases.
pub(crate) const fn draw_grace(random: &mut SeededRandom, limit: u64) -> u64 {
    let quarter = limit / 4;
    random.below(limit + quarter).saturating_sub(quarter)
}

/// Draws one of `from`.
pub(crate) fn pick<T: Copy>(random: &mut SeededRandom, from: &[T]) -> T {
    from[random.index(from.len())]
}
