//! The time that an idle thread polls before it sleeps. A worker is *hot* while it polls and *warm* after that (rFaaS,
//! section 3.3).

use std::time::Duration;

/// The rule for the polling time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// A fixed time.
    Fixed(Duration),
    /// A time learned from the recent gaps between arrivals.
    Learned,
    /// No polling: the thread that writes next needs this core.
    Never,
}

impl Window {
    /// Creates a fixed window from microseconds; a negative number gives a learned one.
    #[must_use]
    pub fn of_us(us: f64) -> Self {
        Duration::try_from_secs_f64(us / 1e6).map_or(Self::Learned, Self::Fixed)
    }
}

/// The limits of a learned window.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The window if nothing is expected soon.
    pub shortest: Duration,
    /// The longest window: a core does not poll for rarer arrivals.
    pub longest: Duration,
}

/// Weight of a new gap in the moving average: after eight gaps a change of phase is forgotten.
const WEIGHT: f64 = 0.125;
/// Factor on the mean gap: the thread polls up to this multiple of it.
const SLACK: f64 = 2.0;

/// The statistics of the gaps between arrivals.
#[derive(Debug, Clone, Copy)]
pub struct Gaps {
    window: Window,
    bounds: Bounds,
    /// Moving average of the gaps, seconds.
    mean: f64,
}

impl Gaps {
    /// Creates the statistics before the first gap.
    #[must_use]
    pub const fn new(window: Window, bounds: Bounds) -> Self {
        Self { window, bounds, mean: f64::INFINITY }
    }

    /// Records a gap between two arrivals.
    pub fn observe(&mut self, gap: Duration) {
        // A single long pause must not dominate the mean: a gap counts as at most twice the longest window.
        let gap = gap.as_secs_f64().min(SLACK * self.bounds.longest.as_secs_f64());
        self.mean =
            if self.mean.is_finite() { self.mean + WEIGHT * (gap - self.mean) } else { gap };
    }

    /// Returns the time to poll for the next arrival.
    #[must_use]
    pub fn window(&self) -> Duration {
        match self.window {
            Window::Fixed(window) => window,
            Window::Never => Duration::ZERO,
            Window::Learned if SLACK * self.mean <= self.bounds.longest.as_secs_f64() => {
                Duration::from_secs_f64(SLACK * self.mean).max(self.bounds.shortest)
            }
            Window::Learned => self.bounds.shortest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_micros(50);
    const BOUNDS: Bounds = Bounds { shortest: SHORTEST, longest: Duration::from_millis(5) };

    fn after(gaps: &[u64]) -> Duration {
        let mut known = Gaps::new(Window::Learned, BOUNDS);
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
    fn nothing_is_waited_for_before_it_came_soon_where_the_shortest_window_is_none() {
        let bounds = Bounds { shortest: Duration::ZERO, longest: Duration::from_micros(500) };
        let mut known = Gaps::new(Window::Learned, bounds);
        assert_eq!(known.window(), Duration::ZERO);
        known.observe(Duration::from_millis(20));
        assert_eq!(known.window(), Duration::ZERO);
        (0..30).for_each(|_| known.observe(Duration::from_micros(40)));
        assert!(known.window() >= Duration::from_micros(40));
    }

    #[test]
    fn a_window_that_is_set_stays() {
        let mut known = Gaps::new(Window::Fixed(Duration::ZERO), BOUNDS);
        known.observe(Duration::from_micros(1));
        assert_eq!(known.window(), Duration::ZERO);
        assert_eq!(Gaps::new(Window::Never, BOUNDS).window(), Duration::ZERO);
    }
}
