//! Waits for tasks: a thread polls for a while, then sleeps, on the bell as the leader or on a condition of its own.

use std::sync::{Arc, Condvar, MutexGuard};
use std::time::{Duration, Instant};

use gristmill_core::Load;
use gristmill_lead::{HandOver, Leader};
use gristmill_sync::futex::Woken;
use gristmill_wire::TaskId;

use crate::blobs::BlobWork as _;
use crate::client::Client;
use crate::client_port::ResultWatch;
use crate::inner::Inner;

/// A waiting thread, for the threads that complete tasks.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Tasks that the thread waits for; if empty, it waits for a notice of any watched task.
    pub tasks: Vec<TaskId>,
    pub wake: Arc<Condvar>,
    /// True if one of the tasks is final, or the thread should look again.
    pub is_called: bool,
    /// True if the thread sleeps on `wake`, so that it can get the token.
    pub is_asleep: bool,
}

/// Number of looks at the rings between two readings of the clock.
const POLLS_PER_LOOK: u32 = 16;
/// Expected time between two answers above which each is worth a wake-up, nanoseconds.
const LONG_GAP_NS: u64 = 15_000;
/// Time for which waking workers takes so long that one of them must have got this thread's core. What is known of their work
/// is from before that.
const LOST_CORE: Duration = Duration::from_micros(20);
/// Number of records in flight above which results come in a stream.
const STREAM: u64 = 8;
/// Number of pauses between two looks at a stream, about half a microsecond: each look takes the cache line that is being
/// written away from its writer.
const STREAM_PAUSES: u32 = 20;
/// Number of pauses between two looks of a patient wait, about 2 microseconds.
const QUIET_PAUSES: u32 = 80;

/// Time that a thread waits for the results of a batch together before it takes them one by one: a look at the ring for each
/// result would cost both sides more than a small call.
const PATIENCE: Duration = Duration::from_micros(50);

/// A wait for all results of a batch that has just begun.
pub(crate) struct BatchSpinWait {
    begun: Instant,
    limit: Duration,
}

impl BatchSpinWait {
    /// Starts a wait that is no longer than the waiting thread polls: its sleep costs one wake-up.
    pub fn new(spin: Duration) -> Self {
        Self { begun: Instant::now(), limit: PATIENCE.min(spin) }
    }

    pub fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.limit
    }
}

impl Client {
    /// Waits until `task` is final. Returns false if `limit` has passed or a signal has arrived before that.
    pub fn wait(&self, task: TaskId, limit: Duration) -> bool {
        self.wait_until(&[task], limit, |inner| inner.is_final(task))
    }

    /// Waits until one of `tasks` is final.
    pub fn wait_any(&self, tasks: &[TaskId], limit: Duration) -> bool {
        self.wait_until(tasks, limit, |inner| tasks.iter().any(|&task| inner.is_final(task)))
    }

    /// Waits until a new task would be accepted.
    pub fn wait_for_room(&self, limit: Duration) -> bool {
        self.wait_until(&[], limit, |inner| inner.has_room())
    }

    /// Completes tasks until `is_done` returns true. Calls it after every completion that concerns `tasks`.
    pub(crate) fn wait_until(
        &self,
        tasks: &[TaskId],
        limit: Duration,
        is_done: impl Fn(&Inner) -> bool,
    ) -> bool {
        self.wait_patiently(tasks, limit, None, is_done)
    }

    /// Works as [`Self::wait_until`]. With `patience` it waits for the last of several results: it looks rarely even if results
    /// arrive, and once the patience is over it also looks at unfinished records of workers.
    pub(crate) fn wait_patiently(
        &self,
        tasks: &[TaskId],
        limit: Duration,
        patience: Option<&BatchSpinWait>,
        is_done: impl Fn(&Inner) -> bool,
    ) -> bool {
        let start = Instant::now();
        // A leader completes arrivals before its sleep returns.
        let (mut is_leader, mut has_led) = (false, false);
        let mut is_interrupted;
        let mut inner = self.lock();
        if limit.is_zero() {
            inner.port.links.look();
        }
        loop {
            if !std::mem::take(&mut has_led) {
                inner.drain_known();
            }
            inner.ask_for(tasks);
            if patience.is_some_and(BatchSpinWait::is_over) {
                inner.drain_growing();
            }
            let left = limit.saturating_sub(start.elapsed());
            let done = is_done(&inner);
            if done || left.is_zero() {
                self.leave(inner, is_leader);
                return done;
            }
            if !spread_in_time(&mut inner, patience.is_some()) {
                continue;
            }
            let load = inner.load(self.cores(), patience.is_some());
            if let Some(nap) = inner.nap_length(&load, self.cores(), patience.is_some())
                && (is_leader || inner.lead.try_take(Leader::Caller))
            {
                is_leader = true;
                (inner, is_interrupted) = self.nap_for(inner, tasks, nap.min(left));
                if is_interrupted {
                    return self.finish_wait(inner, is_leader, is_done);
                }
                continue;
            }
            let window = self.spin_beside(&load, patience.is_some()).min(left);
            // Without a window the sleep itself is the look: it ends at once if something has arrived.
            if !window.is_zero() {
                let has_arrived;
                (inner, has_arrived) = self.poll(inner, window, patience.is_some());
                if has_arrived {
                    inner.port.links.look();
                    continue;
                }
                inner.drain_known();
                inner.ask_for(tasks);
                if is_done(&inner) {
                    continue;
                }
                spread_new(&mut inner, patience.is_some());
            }
            is_leader = is_leader || inner.lead.try_take(Leader::Caller);
            let left = limit.saturating_sub(start.elapsed());
            (inner, is_interrupted) = self.sleep(inner, tasks, left, is_leader);
            has_led = is_leader;
            if is_interrupted {
                return self.finish_wait(inner, is_leader, is_done);
            }
        }
    }

    /// Ends a wait after a signal; returns whether what it waited for has come.
    fn finish_wait(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        is_leader: bool,
        is_done: impl Fn(&Inner) -> bool,
    ) -> bool {
        inner.drain_known();
        let done = is_done(&inner);
        self.leave(inner, is_leader);
        done
    }

    /// Returns the time to poll: zero if polling would take a core from workers for longer than a wake-up costs.
    ///
    /// A thread that waits for results that come together would poll until the last of them, not only until the next one.
    fn spin_beside(&self, load: &Load, results_come_together: bool) -> Duration {
        let is_worth_a_wake = results_come_together || load.answer_gap_ns > LONG_GAP_NS;
        let is_needed = load.busy >= self.cores() && is_worth_a_wake;
        if is_needed { Duration::ZERO } else { self.spin() }
    }

    /// Polls the result rings for `window`, without the mutex. Returns true at an arrival or a kick.
    fn poll<'a>(
        &'a self,
        inner: MutexGuard<'a, Inner>,
        window: Duration,
        is_patient: bool,
    ) -> (MutexGuard<'a, Inner>, bool) {
        let watch = inner.port.watch();
        let pauses = if inner.core.in_flight() > STREAM { STREAM_PAUSES } else { 1 };
        drop(inner);
        if is_patient {
            pause(QUIET_PAUSES);
        }
        let has_arrived = self.poll_rings(&watch, window, pauses);
        (self.lock(), has_arrived)
    }

    /// Looks at the rings, with `pauses` between two looks.
    fn poll_rings(&self, watch: &ResultWatch, window: Duration, pauses: u32) -> bool {
        let kicks = self.kicks();
        let begun = Instant::now();
        loop {
            for _ in 0..POLLS_PER_LOOK {
                if watch.has_arrived() || self.kicks() != kicks {
                    return true;
                }
                pause(pauses);
            }
            if begun.elapsed() >= window {
                return false;
            }
        }
    }

    /// Sleeps until an arrival: the leader on the bell, others until they are called. Returns true if a signal ended it.
    fn sleep<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        tasks: &[TaskId],
        left: Duration,
        is_leader: bool,
    ) -> (MutexGuard<'a, Inner>, bool) {
        let key = inner.add_waiter(tasks);
        let mut is_interrupted = false;
        if is_leader {
            (inner, is_interrupted) = self.lead_once(inner, left);
        } else {
            inner.waiter(key).is_asleep = true;
            inner.lead.begin_wait();
            let wake = Arc::clone(&inner.waiter(key).wake);
            let woken = wake.wait_timeout_while(inner, left, |inner| !inner.waiter(key).is_called);
            inner = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            inner.lead.end_wait();
            // A signal does not end a sleep on a condition. The caller's time slices limit that sleep instead.
        }
        inner.remove_waiter(key);
        (inner, is_interrupted)
    }

    /// Sleeps on the bell once, with the token. Returns true if a signal ended the sleep.
    pub(crate) fn lead_once<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        left: Duration,
    ) -> (MutexGuard<'a, Inner>, bool) {
        if std::mem::take(&mut inner.port.links.has_more) {
            drop(inner);
            // Other threads wait for the mutex.
            std::thread::yield_now();
            inner = self.lock();
            inner.drain_known();
            return (inner, false);
        }
        let load = inner.load(self.cores(), false);
        if let Some(nap) = inner.nap_length(&load, self.cores(), false) {
            let is_interrupted;
            (inner, is_interrupted) = self.nap(inner, nap.min(left));
            inner.drain();
            return (inner, is_interrupted);
        }
        let watch = inner.port.watch();
        let kicks = self.kicks();
        let left = inner.next_wake().map_or(left, |wake| left.min(wake));
        let window = inner.look_length(self.cores());
        inner.port.links.forget_calls();
        if inner.has_blob_events() {
            // The thread that queued the events may have called before `forget_calls` cleared its call.
            inner.drain_known();
            return (inner, false);
        }
        let mut ready = std::mem::take(&mut inner.port.links.ready);
        ready.clear();
        drop(inner);
        let still_empty = || !watch.has_record() && self.kicks() == kicks;
        let begun = self.shared().sleeper.as_ref().map(|_| Instant::now());
        let woken = self.sleep_as_leader((left, window), still_empty, &mut ready);
        inner = self.lock();
        if let Some(begun) = begun {
            inner.gaps.observe(begun.elapsed());
        }
        inner.port.links.note_ready(ready);
        inner.drain_known();
        (inner, woken == Woken::Interrupted)
    }

    /// Passes on the token of a leader, or wakes the attendant if obligations are left without a leader.
    pub(crate) fn leave(&self, mut inner: MutexGuard<'_, Inner>, is_leader: bool) {
        let has_obligations = inner.has_obligations();
        let next = if is_leader {
            inner.lead.give_up(has_obligations)
        } else if has_obligations && inner.lead.summon() {
            HandOver::Attendant
        } else {
            HandOver::NoThread
        };
        match next {
            HandOver::Attendant => {
                // The mutex is released first: the attendant would only wait for it.
                drop(inner);
                self.wake_attendant();
            }
            other => self.pass_on(&mut inner, other),
        }
    }

    /// Wakes the thread that gets the token.
    pub(crate) fn pass_on(&self, inner: &mut Inner, next: HandOver) {
        match next {
            HandOver::Caller => inner.call_one_sleeper(),
            HandOver::Attendant => self.wake_attendant(),
            HandOver::NoThread => {}
        }
    }
}

/// Gives idle workers tasks. Returns false if that took so long that the caller must look at the rings again before it naps.
fn spread_in_time(inner: &mut Inner, results_come_together: bool) -> bool {
    let begun = results_come_together.then(Instant::now);
    inner.spread(results_come_together);
    begun.is_none_or(|begun| begun.elapsed() <= LOST_CORE)
}

/// Gives idle workers tasks that other threads have submitted since this one began to poll.
fn spread_new(inner: &mut Inner, results_come_together: bool) {
    if inner.core.has_ready() {
        inner.spread(results_come_together);
    }
}

fn pause(count: u32) {
    for _ in 0..count {
        gristmill_sync::hint::spin_loop();
    }
}
