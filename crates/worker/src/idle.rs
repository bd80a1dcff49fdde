//! What a worker does while nothing is there: it polls for as long as that is likely to pay, then sleeps.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gristmill_shm::{Bounds, Gaps, Tail, Window, WorkerLane};
use gristmill_wire::Temperature;

use crate::callee::Callee;
use crate::run::Worker;

/// So many tasks in a row are a stream, whose writer the worker has caught up with.
const STREAM: u32 = 4;
/// How long it then leaves the writer alone, about half a microsecond: each look at the line that is being written takes
/// it away from the writer for longer than a small task lasts.
const STREAM_PAUSES: u32 = 20;
/// Looks at the ring before the callee is asked to give up what it holds: about a microsecond, within which a client that
/// calls and waits comes back.
const ATTACHED_POLLS: u32 = 100;
const POLLS_PER_LOOK: u32 = 64;
/// For how long it looks before a sleep if that is learned: at least what a wake-up costs, so that to look costs at most
/// as much again.
const LOOKS: Bounds =
    Bounds { shortest: Duration::from_micros(50), longest: Duration::from_millis(5) };
/// The longest sleep: whatever was missed is found after it.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(500);

/// How work comes, as far as this worker has seen.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How ready the worker is for the next record.
    temperature: Cell<Temperature>,
    gaps: Cell<Gaps>,
    /// Since when there is nothing to do.
    idle_since: Cell<Option<Instant>>,
    /// Tasks run since the ring was found empty last.
    streak: Cell<u32>,
}

impl Pace {
    pub fn new(window: Window) -> Self {
        Self {
            temperature: Cell::default(),
            gaps: Cell::new(Gaps::new(window, LOOKS)),
            idle_since: Cell::default(),
            streak: Cell::new(0),
        }
    }

    #[inline]
    pub fn count_task(&self) {
        self.streak.set(self.streak.get() + 1);
    }

    /// Something came: learns for how long nothing did, and says how ready the worker was.
    #[inline]
    pub fn end_gap(&self) -> Temperature {
        if let Some(since) = self.idle_since.take() {
            let mut gaps = self.gaps.get();
            gaps.observe(since.elapsed());
            self.gaps.set(gaps);
        }
        self.temperature.take()
    }
}

impl<C: Callee> Worker<C> {
    /// Polls for a while, then sleeps until the bell rings or `left` has passed.
    pub(crate) fn idle(&self, left: Duration) {
        let is_stream = self.pace.streak.take() >= STREAM && self.options.window != Window::Never;
        for _ in 0..if is_stream { STREAM_PAUSES } else { 0 } {
            gristmill_sync::hint::spin_loop();
        }
        let polls = if self.options.window == Window::Never { 0 } else { ATTACHED_POLLS };
        for _ in 0..polls {
            if self.lane.borrow().tasks.has_record() {
                return;
            }
            gristmill_sync::hint::spin_loop();
        }
        let begun = Instant::now();
        self.pace.idle_since.set(self.pace.idle_since.get().or(Some(begun)));
        self.callee.while_idle(&mut || self.wait_for_record(left));
        if begun.elapsed() >= SLEEP_MAX {
            self.arena.look();
        }
    }

    fn wait_for_record(&self, left: Duration) {
        let mut lane = self.lane.borrow_mut();
        let begun = Instant::now();
        let spin = self.pace.gaps.get().window().min(left);
        while begun.elapsed() < spin {
            for _ in 0..POLLS_PER_LOOK {
                if lane.tasks.has_record() {
                    return;
                }
                gristmill_sync::hint::spin_loop();
            }
        }
        if lane.tasks.publish_tail() == Tail::Published && lane.tasks.writer_waits(self.mode) {
            self.control.peer_bell().wake();
        }
        self.sleep(&mut lane, left);
    }

    /// Sleeps until something is there, an interrupt or a stop is asked for, or the time is over.
    fn sleep(&self, lane: &mut WorkerLane, left: Duration) {
        let WorkerLane { tasks, control, .. } = lane;
        let is_empty =
            || !tasks.has_record() && !self.running.is_interrupted() && !control.is_stopped();
        let _ = control.own_bell().sleep(self.mode, is_empty, Some(left));
        self.pace.temperature.set(Temperature::Warm);
    }
}
