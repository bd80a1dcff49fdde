//! Clocks that disagree and drift.

/// The monotonic clock of one machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Reading of the clock at true time 0.
    pub offset_ns: u64,
    /// Excess of the clock's speed over true time, parts per million.
    pub drift_ppm: u64,
}

impl Clock {
    /// Returns the clock's reading at true time `now`.
    pub fn local(&self, now: u64) -> u64 {
        let drift = u128::from(now) * u128::from(self.drift_ppm) / 1_000_000;
        self.offset_ns + now + u64::try_from(drift).expect("hours")
    }

    /// Returns a true time at which the clock reads at least `local`.
    pub fn when(&self, local: u64) -> u64 {
        let passed = u128::from(local.saturating_sub(self.offset_ns));
        let truly = passed * 1_000_000 / (1_000_000 + u128::from(self.drift_ppm));
        u64::try_from(truly).expect("hours") + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_says_what_is_waited_for_when_it_should() {
        for (offset_ns, drift_ppm) in [(0, 0), (7, 1), (1 << 50, 20_000), (3, 999_999)] {
            let clock = Clock { offset_ns, drift_ppm };
            for local in [0, 1, 999_999, 1_000_000, 123_456_789_012] {
                let local = offset_ns + local;
                assert!(clock.local(clock.when(local)) >= local);
            }
        }
    }
}
