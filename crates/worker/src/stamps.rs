//! Times at which a task passes the stages of its run in the worker, clock ticks.
//!
//! With the feature `timings` (the timings of each task), each stage reads the clock. A build without it serves to measure
//! the cost of the timings. Its worker times one task in [`SAMPLE`]: the client needs only some run times for its
//! estimate, and its timeouts count from the last timed start, so they are as coarse as the samples.

#[cfg(not(feature = "timings"))]
use std::cell::Cell;

use gristmill_sync::clock::ticks;

/// A clock that is read at each stage.
#[cfg(feature = "timings")]
#[derive(Debug)]
pub(crate) struct Stamps(());

#[cfg(feature = "timings")]
impl Stamps {
    pub const fn new() -> Self {
        Self(())
    }

    /// Returns the present time, at the claim of a task.
    #[inline]
    pub fn claimed(&self) -> u64 {
        ticks()
    }

    /// Returns the present time, at the start of user code.
    #[inline]
    pub fn started(&self) -> u64 {
        ticks()
    }

    /// Returns the present time, at the end of user code that began at `started`.
    #[inline]
    pub fn ended(&self, _started: u64) -> u64 {
        ticks()
    }
}

/// Number of tasks of which one is timed.
#[cfg(not(feature = "timings"))]
const SAMPLE: u32 = 64;

/// A clock that repeats its last reading between samples.
#[cfg(not(feature = "timings"))]
#[derive(Debug)]
pub(crate) struct Stamps {
    claims: Cell<u32>,
    started: Cell<u64>,
    ran: Cell<u64>,
}

#[cfg(not(feature = "timings"))]
impl Stamps {
    pub const fn new() -> Self {
        Self { claims: Cell::new(0), started: Cell::new(0), ran: Cell::new(0) }
    }

    fn is_sampled(&self) -> bool {
        self.claims.get() % SAMPLE == 1
    }

    /// Returns the time of the last timed start, up to [`SAMPLE`] tasks ago.
    #[inline]
    pub fn claimed(&self) -> u64 {
        self.claims.set(self.claims.get().wrapping_add(1));
        self.started.get()
    }

    /// Returns the present time for a sampled task, and the time of the last timed start for others.
    #[inline]
    pub fn started(&self) -> u64 {
        if self.is_sampled() {
            self.started.set(ticks());
        }
        self.started.get()
    }

    /// Returns the end of a run that takes as long as the last one that was timed.
    #[inline]
    pub fn ended(&self, started: u64) -> u64 {
        if self.is_sampled() {
            self.ran.set(ticks().saturating_sub(started));
        }
        started + self.ran.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_borders_of_each_task_are_in_order_and_those_of_a_stream_go_on() {
        let stamps = Stamps::new();
        let mut last = 0;
        for _ in 0..1000 {
            let claimed = stamps.claimed();
            let started = stamps.started();
            let ended = stamps.ended(started);
            assert!(last <= claimed && claimed <= started && started <= ended);
            last = claimed;
        }
        assert!(last > 0, "the clock was read");
    }
}
