//! Naps: the sleep of a leader while the workers use every core and have enough to do.
//!
//! Polling beside the workers would take a core from one of them, and sleeping on the bell costs a wake-up for each answer. So
//! the leader sleeps by the clock, and looks again well before the first worker runs out of work. It does not nap while a core
//! is free, when work runs out, or once tasks make requests in the middle of their runs.

use std::sync::MutexGuard;
use std::time::Duration;

use gristmill_core::Load;

use crate::client::Client;
use crate::inner::Inner;

/// Backlog of the least loaded worker below which the leader does not nap, nanoseconds.
const BACKLOG_MIN_NS: u64 = 100_000;
/// Delay of the end of a nap, nanoseconds: the slack of the kernel's timers for ordinary threads, and the wake-up.
const LATE_NS: u64 = 40_000;
/// The longest nap. It delays a kick, a signal and a timer of the graph by at most this time.
const NAP_MAX: Duration = Duration::from_micros(250);

/// Returns half of the least backlog, less the delay of a nap; `None` if the leader should not nap.
fn length(load: &Load, cores: usize) -> Option<Duration> {
    if load.busy < cores || load.least_backlog_ns < BACKLOG_MIN_NS {
        return None;
    }
    Some(Duration::from_nanos(load.least_backlog_ns / 2 - LATE_NS).min(NAP_MAX))
}

impl Inner {
    /// Returns the time that the leader should nap now; `None` means not at all.
    pub fn nap_length(&self, cores: usize) -> Option<Duration> {
        if self.nested.is_used { None } else { length(&self.core.load(), cores) }
    }
}

impl Client {
    /// Naps without the mutex, with the token. No thread can wake the leader before the nap ends.
    pub(crate) fn nap<'a>(
        &'a self,
        inner: MutexGuard<'a, Inner>,
        length: Duration,
    ) -> MutexGuard<'a, Inner> {
        drop(inner);
        std::thread::sleep(length);
        self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(busy: usize, least_backlog_ns: u64) -> Load {
        Load { busy, run_ns: 1_000, least_backlog_ns }
    }

    #[test]
    fn no_thread_naps_beside_a_free_core_or_when_work_runs_out() {
        assert_eq!(length(&load(1, 200_000), 2), None);
        assert_eq!(length(&load(2, BACKLOG_MIN_NS - 1), 2), None);
        assert!(length(&load(2, 200_000), 2).is_some());
    }

    proptest! {
        #[test]
        fn a_nap_is_short_and_ends_before_the_work_does(backlog_ns: u64) {
            let length = length(&load(4, backlog_ns), 2).unwrap_or_default();
            prop_assert!(length <= NAP_MAX);
            let end_ns = length + Duration::from_nanos(LATE_NS);
            prop_assert!(length.is_zero() || end_ns <= Duration::from_nanos(backlog_ns / 2));
        }
    }
}
