//! Pseudo-random latencies.

/// A stream of latencies that depends on its seed only (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    state: u64,
    scatter: f64,
}

impl Latencies {
    pub const fn new(seed: u64, scatter: f64) -> Self {
        Self { state: seed, scatter }
    }

    /// Returns a latency around a median. Its logarithm is nearly normal: a sum of twelve uniform numbers.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn draw(&mut self, median_ns: u64) -> u64 {
        if self.scatter == 0.0 || median_ns == 0 {
            return median_ns;
        }
        let sum: f64 = (0..12).map(|_| (self.next() >> 11) as f64 / (1_u64 << 53) as f64).sum();
        (median_ns as f64 * ((sum - 6.0) * self.scatter).exp()) as u64
    }

    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_latencies_are_below_the_median_and_one_in_a_hundred_is_twice_as_long() {
        let mut latencies = Latencies::new(7, 0.3);
        let mut drawn: Vec<u64> = (0..10_000).map(|_| latencies.draw(1_000)).collect();
        drawn.sort_unstable();
        assert!((980..1_020).contains(&drawn[5_000]), "{}", drawn[5_000]);
        assert!((1_850..2_150).contains(&drawn[9_900]), "{}", drawn[9_900]);
        assert_eq!(Latencies::new(7, 0.0).draw(1_000), 1_000);
    }
}
