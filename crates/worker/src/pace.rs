//! The arrival pattern of work, from which an idle worker learns for how long to poll.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gristmill_shm::{Bounds, Gaps, Window};
use gristmill_wire::WorkerState;

/// Bounds of the learned time that the worker polls before it sleeps. The lower bound is about the cost of a wake-up: a
/// worker that polls that long in vain and then sleeps pays at most about twice that cost.
const LOOKS: Bounds =
    Bounds { shortest: Duration::from_micros(50), longest: Duration::from_millis(5) };
/// Longest single sleep; the worker finds a missed event after it at the latest.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(500);

/// The arrival pattern of work, learned from the gaps so far.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The state (hot or warm) in which the worker receives the next record.
    worker_state: Cell<WorkerState>,
    gaps: Cell<Gaps>,
    /// Start of the time without work.
    idle_since: Cell<Option<Instant>>,
    /// Tasks run since the ring was last found empty.
    streak: Cell<u32>,
}

impl Pace {
    pub fn new(window: Window) -> Self {
        Self {
            worker_state: Cell::default(),
            gaps: Cell::new(Gaps::new(window, LOOKS)),
            idle_since: Cell::default(),
            streak: Cell::new(0),
        }
    }

    #[inline]
    pub fn count_task(&self) {
        self.streak.set(self.streak.get() + 1);
    }

    /// Ends an idle time: records its length, and returns the state in which the worker received the record.
    #[inline]
    pub fn end_gap(&self) -> WorkerState {
        if let Some(since) = self.idle_since.take() {
            let mut gaps = self.gaps.get();
            gaps.observe(since.elapsed());
            self.gaps.set(gaps);
        }
        self.worker_state.take()
    }

    /// Returns the number of tasks run since the ring was last found empty, and begins to count anew.
    #[inline]
    pub fn take_streak(&self) -> u32 {
        self.streak.take()
    }

    /// Begins an idle time, unless one has begun.
    pub fn begin_gap(&self, now: Instant) {
        self.idle_since.set(self.idle_since.get().or(Some(now)));
    }

    /// Returns the time for which polling is likely to pay.
    pub fn window(&self) -> Duration {
        self.gaps.get().window()
    }

    /// Notes that the worker has slept.
    pub fn mark_warm(&self) {
        self.worker_state.set(WorkerState::Warm);
    }
}
