//! How long a worker that has nothing to do looks for tasks before it sleeps: it is *hot* meanwhile, and *warm* after
//! (rFaaS, section 3.3).

use std::time::Duration;

/// How long that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// As long as this.
    Fixed(Duration),
    /// Until the next task should have come, as far as the last ones tell.
    Learned,
    /// Not for a moment: whoever is to write the next task needs this core for it.
    Never,
}

/// The longest learned window: a core is not kept busy for tasks that come more rarely.
const LONGEST: Duration = Duration::from_millis(5);
/// The shortest: what a wake-up costs. To look for so long before each sleep costs at most as much again.
const SHORTEST: Duration = Duration::from_micros(50);
/// Weight of a new gap: eight of them forget a change of phase.
const WEIGHT: f64 = 0.125;
/// How much longer than usual a gap may be for the next task to be waited for.
const SLACK: f64 = 2.0;

/// What is known of the gaps between tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gaps {
    window: Window,
    /// Moving average, seconds.
    mean: f64,
}

impl Gaps {
    pub const fn new(window: Window) -> Self {
        Self { window, mean: f64::INFINITY }
    }

    /// Takes in how long nothing came.
    pub fn observe(&mut self, gap: Duration) {
        let gap = gap.as_secs_f64();
        if self.mean.is_finite() {
            // One long pause is not a new habit: it counts as a little more than what would have been waited for.
            let gap = gap.min(SLACK * LONGEST.as_secs_f64());
            self.mean += WEIGHT * (gap - self.mean);
        } else {
            self.mean = gap;
        }
    }

    /// How long to look for the next task.
    pub fn window(&self) -> Duration {
        match self.window {
            Window::Fixed(window) => window,
            Window::Never => Duration::ZERO,
            Window::Learned if SLACK * self.mean <= LONGEST.as_secs_f64() => {
                Duration::from_secs_f64(SLACK * self.mean).max(SHORTEST)
            }
            Window::Learned => SHORTEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gaps: &[u64]) -> Duration {
        let mut known = Gaps::new(Window::Learned);
        gaps.iter().for_each(|&us| known.observe(Duration::from_micros(us)));
        known.window()
    }

    #[test]
    fn tasks_that_come_often_are_waited_for() {
        assert_eq!(after(&[]), SHORTEST);
        assert_eq!(after(&[1000; 4]), Duration::from_millis(2));
        assert_eq!(after(&[5; 4]), SHORTEST);
    }

    #[test]
    fn tasks_that_come_rarely_are_not() {
        assert_eq!(after(&[1_000_000]), SHORTEST);
        let mut gaps = vec![1000; 10];
        gaps.push(60_000_000);
        assert!(after(&gaps) > Duration::from_millis(2), "one pause does not change it");
        gaps.extend([60_000_000; 20]);
        assert_eq!(after(&gaps), SHORTEST, "a habit does");
    }

    #[test]
    fn a_window_that_is_set_stays() {
        let mut known = Gaps::new(Window::Fixed(Duration::ZERO));
        known.observe(Duration::from_micros(1));
        assert_eq!(known.window(), Duration::ZERO);
        assert_eq!(Gaps::new(Window::Never).window(), Duration::ZERO);
    }
}
