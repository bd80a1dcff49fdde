//! Starts of workers that came to nothing, and the pauses between them.

use crate::Config;

/// How starts have gone lately.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Workers that ended without having run anything, in a row.
    fruitless: u32,
    /// Rounds of workers that did not come up, in a row.
    failures: u32,
    /// No worker is to be started before.
    pause_until: u64,
}

impl Starts {
    /// A worker came up.
    pub const fn succeed(&mut self) {
        self.failures = 0;
    }

    /// A worker has run something.
    #[inline]
    pub const fn bear_fruit(&mut self) {
        self.fruitless = 0;
    }

    /// A worker ended that had not run anything: the pause before the next start is longer. Those that end in the same pause
    /// count once: they were started together, and ended by one cause. Says whether it counts.
    pub fn note_fruitless(&mut self, now: u64, config: &Config) -> bool {
        if self.must_pause(now) {
            return false;
        }
        let shift = self.fruitless.min(20);
        self.fruitless += 1;
        let pause = (config.backoff_min_ns << shift).min(config.backoff_max_ns);
        self.pause_until = now.saturating_add(pause);
        true
    }

    /// A worker did not come up; gives how many rounds of such there were in a row.
    pub fn fail(&mut self, now: u64, config: &Config) -> u32 {
        self.failures += u32::from(self.note_fruitless(now, config));
        self.failures
    }

    /// Whether no worker is to be started now.
    pub const fn must_pause(&self, now: u64) -> bool {
        self.fruitless > 0 && now < self.pause_until
    }

    /// When the pause ends, if there is one now.
    pub fn pause_after(&self, now: u64) -> Option<u64> {
        self.must_pause(now).then_some(self.pause_until)
    }
}
