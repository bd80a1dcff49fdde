//! When a task crossed the worker's borders, clock ticks.
//!
//! With tags each border is a reading of the clock. Without them, which is for measuring what tags cost, one task in
//! [`SAMPLE`] is timed: the client's estimate of run times needs a few, and its timeouts are that coarse.

#[cfg(not(feature = "tags"))]
use std::cell::Cell;

use gristmill_sync::clock::ticks;

/// Reads the clock.
#[cfg(feature = "tags")]
#[derive(Debug)]
pub(crate) struct Stamps(());

#[cfg(feature = "tags")]
impl Stamps {
    pub const fn new() -> Self {
        Self(())
    }

    /// Now, when a task is claimed.
    #[inline]
    pub fn claimed(&self) -> u64 {
        ticks()
    }

    /// Now, when user code begins.
    #[inline]
    pub fn started(&self) -> u64 {
        ticks()
    }

    /// Now, when user code that began at `started` has ended.
    #[inline]
    pub fn ended(&self, _started: u64) -> u64 {
        ticks()
    }
}

/// Reads the clock for one task in so many.
#[cfg(not(feature = "tags"))]
const SAMPLE: u32 = 64;

/// Repeats what the last reading gave.
#[cfg(not(feature = "tags"))]
#[derive(Debug)]
pub(crate) struct Stamps {
    claims: Cell<u32>,
    started: Cell<u64>,
    ran: Cell<u64>,
}

#[cfg(not(feature = "tags"))]
impl Stamps {
    pub const fn new() -> Self {
        Self { claims: Cell::new(0), started: Cell::new(0), ran: Cell::new(0) }
    }

    fn is_sampled(&self) -> bool {
        self.claims.get() % SAMPLE == 1
    }

    /// The last start.
    #[inline]
    pub fn claimed(&self) -> u64 {
        self.claims.set(self.claims.get().wrapping_add(1));
        self.started.get()
    }

    /// Now, or the last start.
    #[inline]
    pub fn started(&self) -> u64 {
        if self.is_sampled() {
            self.started.set(ticks());
        }
        self.started.get()
    }

    /// The end of a run that took as long as the last one that was timed.
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
