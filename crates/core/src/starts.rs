//! Failed starts of workers, and the pauses between them. A worker that ends without having run a task is *fruitless*.

use crate::Config;

/// Results of the latest starts.
#[derive(Debug, Default)]
pub(crate) struct StartBackoff {
    /// Workers that ended without having run a task, in a row.
    fruitless: u32,
    /// Failed starts in a row, after which the worker did not come up. Starts that fail within one pause count once.
    failures: u32,
    /// Failed starts in a row while no worker lived: those since the last one beside a live worker.
    failures_alone: u32,
    /// Time before which no worker may be started.
    pause_until: u64,
}

impl StartBackoff {
    /// Records that a worker came up.
    pub const fn succeed(&mut self) {
        self.failures = 0;
        self.failures_alone = 0;
    }

    /// Records that a worker has run a task. Returns whether workers before it had not.
    #[inline]
    pub const fn record_success(&mut self) -> bool {
        let was_fruitless = self.fruitless > 0;
        self.fruitless = 0;
        was_fruitless
    }

    /// Records that a worker ended without having run a task, and lengthens the pause before the next start. Workers
    /// that end in the same pause count once: they were started together, and ended by one cause. Returns whether this
    /// one counts.
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

    /// Records that a worker did not come up. Starts that fail within one pause count once.
    ///
    /// Each task that a live worker runs ends the pause, so failures beside it follow each other fast: they show that a
    /// start is unlikely to succeed now, but not that none can. `is_alone` is true if no worker lives.
    pub fn fail(&mut self, now: u64, config: &Config, is_alone: bool) {
        let counted = u32::from(self.note_fruitless(now, config));
        self.failures += counted;
        self.failures_alone = if is_alone { self.failures_alone + counted } else { 0 };
    }

    /// Returns true if further starts are likely to fail too, so that a task should not wait for one.
    pub const fn are_unlikely(&self, config: &Config) -> bool {
        self.failures >= config.start_failures_max
    }

    /// Returns true if no worker can be started: the engine, or the context, is then broken.
    pub const fn are_hopeless(&self, config: &Config) -> bool {
        self.failures_alone >= config.start_failures_max
    }

    /// Returns true if no worker may be started now.
    pub const fn must_pause(&self, now: u64) -> bool {
        self.fruitless > 0 && now < self.pause_until
    }

    /// Returns the end of the pause, if there is one now.
    pub fn pause_after(&self, now: u64) -> Option<u64> {
        self.must_pause(now).then_some(self.pause_until)
    }
}
