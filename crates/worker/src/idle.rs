//! The idle worker: it polls for as long as polling is likely to pay, then sleeps.

use std::time::{Duration, Instant};

use gristmill_shm::{Tail, Window, WorkerEnds};

use crate::callee::Callee;
use crate::pace::SLEEP_MAX;
use crate::run::Worker;

/// Least number of tasks, run since the ring was last found empty, after which the worker assumes a stream: the writer
/// is still sending tasks, and the worker has caught up with it.
const STREAM: u32 = 4;
/// Pauses in a stream before the worker reads the ring again, about half a microsecond. Each read takes away from the
/// writer the cache line that it is writing, for longer than a small task lasts.
const STREAM_PAUSES: u32 = 20;
/// Polls of the ring before the callee is asked to release its lock: about a microsecond. A client that submits one
/// task at a time and waits for its result submits the next one within that time.
const ATTACHED_POLLS: u32 = 100;
/// Polls between two readings of the clock.
const POLLS_PER_LOOK: u32 = 64;
impl<C: Callee> Worker<C> {
    /// Polls for a while, then sleeps until the bell rings or `left` has passed.
    pub(crate) fn idle(&self, left: Duration) {
        let is_stream = self.pace.take_streak() >= STREAM && self.options.window != Window::Never;
        for _ in 0..if is_stream { STREAM_PAUSES } else { 0 } {
            gristmill_sync::hint::spin_loop();
        }
        let polls = if self.options.window == Window::Never { 0 } else { ATTACHED_POLLS };
        for _ in 0..polls {
            if self.ends.borrow().tasks.has_record() {
                return;
            }
            gristmill_sync::hint::spin_loop();
        }
        let begun = Instant::now();
        self.pace.begin_gap(begun);
        self.callee.while_idle(&mut || self.wait_for_record(left));
        if begun.elapsed() >= SLEEP_MAX {
            // Frees warm pages of an arena that stays idle.
            self.arena.look();
        }
    }

    fn wait_for_record(&self, left: Duration) {
        let mut ends = self.ends.borrow_mut();
        let begun = Instant::now();
        let window = self.pace.window();
        let spin = window.min(left);
        while begun.elapsed() < spin {
            for _ in 0..POLLS_PER_LOOK {
                if ends.tasks.has_record() {
                    return;
                }
                gristmill_sync::hint::spin_loop();
            }
        }
        if ends.tasks.publish_tail() == Tail::Published
            && ends.tasks.writer_waits(self.control.mode())
        {
            self.control.peer_bell().wake();
        }
        // If the window is not shorter than `left`, the worker has polled for all of `left`: the caller comes back and
        // polls on.
        if window < left {
            self.sleep(&mut ends, left - spin);
        }
    }

    /// Sleeps until a record is there, an interrupt or a stop is requested, or the time is over.
    fn sleep(&self, ends: &mut WorkerEnds, left: Duration) {
        let WorkerEnds { tasks, control, .. } = ends;
        let is_empty =
            || !tasks.has_record() && !self.stack.running.is_interrupted() && !control.is_stopped();
        let _ = control.own_bell().sleep(self.control.mode(), is_empty, Some(left));
        self.pace.mark_warm();
    }
}
