//! Run time estimates: learned per function, used for the backlog of each worker.

use crate::Config;

/// Run time in 16 bits: 11 bits of value, 5 of shift. A task record keeps exactly the cost that its slot's backlog was
/// charged, so the sum never drifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost(u16);

const VALUE_BITS: u32 = 11;

impl Cost {
    pub const ZERO: Self = Self(0);

    /// Rounds down to 11 significant bits.
    #[expect(clippy::cast_possible_truncation, reason = "5 and 11 bits, by construction")]
    pub const fn from_ns(ns: u32) -> Self {
        let shift = (u32::BITS - ns.leading_zeros()).saturating_sub(VALUE_BITS);
        Self(((shift << VALUE_BITS) | (ns >> shift)) as u16)
    }

    #[inline]
    pub const fn ns(self) -> u64 {
        ((self.0 & ((1 << VALUE_BITS) - 1)) as u64) << (self.0 >> VALUE_BITS)
    }
}

/// Run time statistics of one function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    /// Moving average of the run time, ns; below 0 if no run was seen.
    mean_ns: f32,
    /// Value of `mean_ns` when `cost` was computed.
    coded_ns: f32,
    cost: Cost,
    /// Calls that ended since the last one that died or ran out of time.
    clean_runs: u16,
    /// Outliers in a row.
    outliers: u8,
}

/// Weight of a new observation: eight runs forget a change of phase.
const WEIGHT: f32 = 0.125;
/// Weight of an outlier: a run that takes more than twice as long as a short function usually does. Mostly another thread had
/// the core meanwhile. As a full observation, one in ten of them would halve the work that each worker gets.
const OUTLIER_WEIGHT: f32 = 0.01;
/// Outliers in a row from which on they are what the function takes now.
const OUTLIERS_MAX: u8 = 3;
/// Mean run time below which a function is short, ns. Another thread keeps a core for longer than that.
const SHORT_NS: f32 = 50_000.0;
/// Relative change of the mean after which the cost is computed again.
const STEP: f32 = 0.1;

impl Estimate {
    pub const fn unknown(config: &Config) -> Self {
        Self {
            mean_ns: -1.0,
            coded_ns: 0.0,
            cost: Cost::from_ns(config.unknown_run_ns),
            clean_runs: 0,
            outliers: 0,
        }
    }

    /// Returns true if a run was observed.
    #[inline]
    pub fn is_seen(&self) -> bool {
        self.mean_ns >= 0.0
    }

    #[inline]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns the mean run time, ns; 0 if no run was seen.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    pub const fn mean_ns(&self) -> u64 {
        self.mean_ns as u64
    }

    /// Returns how many calls ended since the last one that died or ran out of time; saturates at `u16::MAX`.
    #[inline]
    pub const fn clean_runs(&self) -> u16 {
        self.clean_runs
    }

    /// Resets the count of clean runs: a call died or ran out of time.
    pub const fn soil(&mut self) {
        self.clean_runs = 0;
    }

    /// Adds a run of `ran_ns` to the average.
    #[inline]
    pub fn observe(&mut self, ran_ns: f32, min_ns: u32) {
        self.clean_runs = self.clean_runs.saturating_add(1);
        self.mean_ns = if self.mean_ns < 0.0 {
            ran_ns
        } else {
            self.mean_ns + (ran_ns - self.mean_ns) * self.weight(ran_ns)
        };
        if (self.mean_ns - self.coded_ns).abs() > STEP * self.coded_ns {
            self.code(min_ns);
        }
    }

    /// Returns the weight of a new observation.
    #[inline]
    fn weight(&mut self, ran_ns: f32) -> f32 {
        if ran_ns <= 2.0 * self.mean_ns || self.mean_ns >= SHORT_NS {
            self.outliers = 0;
            WEIGHT
        } else if self.outliers < OUTLIERS_MAX {
            self.outliers += 1;
            OUTLIER_WEIGHT
        } else {
            WEIGHT
        }
    }

    #[cold]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    fn code(&mut self, min_ns: u32) {
        self.coded_ns = self.mean_ns;
        self.cost = Cost::from_ns((self.mean_ns as u32).max(min_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_run_counts_whole_and_a_phase_is_forgotten() {
        let config = Config::default();
        let mut estimate = Estimate::unknown(&config);
        estimate.observe(2_000.0, 50);
        assert_eq!(estimate.cost().ns(), 2_000);
        for _ in 0..40 {
            estimate.observe(10.0, 50);
        }
        assert_eq!(estimate.cost().ns(), 50, "never below what a call costs");
    }

    #[test]
    fn a_core_that_another_thread_had_for_a_while_makes_no_short_function_long() {
        let mut estimate = Estimate::unknown(&Config::default());
        for number in 0..200 {
            estimate.observe(if number % 10 == 9 { 60_000.0 } else { 5_000.0 }, 50);
        }
        assert!(estimate.cost().ns() < 6_500, "the mean of all runs is 10.5 us");
    }

    #[test]
    fn a_function_that_takes_longer_from_now_on_is_noticed_soon() {
        let mut estimate = Estimate::unknown(&Config::default());
        estimate.observe(5_000.0, 50);
        for _ in 0..30 {
            estimate.observe(400_000.0, 50);
        }
        assert!(estimate.cost().ns() > 300_000);
    }

    proptest! {
        #[test]
        fn a_cost_is_close_and_never_above(ns: u32) {
            let cost = Cost::from_ns(ns).ns();
            prop_assert!(cost <= u64::from(ns) && u64::from(ns) - cost <= u64::from(ns) / 1024);
        }
    }
}
