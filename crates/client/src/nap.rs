//! Naps: the sleep of a leader while the workers use every core and have enough to do.
//!
//! Polling beside the workers would take a core from one of them, and sleeping on the bell costs a wake-up for each answer. So
//! the leader sleeps by the clock, and looks again well before the first worker runs out of work. It does not nap while a core
//! is free, when work runs out, if answers are rarer than the ends of naps would be, after a nap that brought none, or once
//! tasks make requests in the middle of their runs. These end a nap: a kick, a signal, a task of higher priority, and the end
//! of a task that the leader waits for, if another thread takes it in.

use std::sync::MutexGuard;
use std::time::Duration;

use gristmill_core::Load;
use gristmill_sync::futex::Woken;
use gristmill_wire::TaskId;

use crate::client::Client;
use crate::inner::Inner;

/// Backlog of the least loaded worker below which the leader does not nap, nanoseconds.
const BACKLOG_MIN_NS: u64 = 100_000;
/// Delay of the end of a nap, nanoseconds: the wake-up, and what the kernel's timers are late.
const LATE_NS: u64 = 10_000;
/// The shortest nap of a thread that waits for results that come together, nanoseconds. It costs two switches of threads.
const NAP_MIN_NS: u64 = 20_000;
/// The longest nap while a result, a timer or a message may be due soon. It delays them by at most this time.
const SHORT_NAP: Duration = Duration::from_micros(250);
/// The longest nap while each worker has several tasks queued, so that none runs dry meanwhile: a program that waits for one
/// result gets it a millisecond later at most than with a short nap.
const LONG_NAP: Duration = Duration::from_micros(1250);
/// Records at each worker from which on a long nap is allowed. Functions of unknown run time have fewer.
const LONG_NAP_DEPTH: u32 = 4;

/// Returns half of the least backlog, less the delay of a nap; `None` if the leader should not nap. If the results come together
/// and no task is left that a worker could get, there is nothing to do before the least backlog is over.
fn length(load: &Load, cores: usize, results_come_together: bool) -> Option<Duration> {
    let backlog_ns = load.least_backlog_ns;
    if load.busy < cores || (backlog_ns < BACKLOG_MIN_NS && !results_come_together) {
        return None;
    }
    let until_ns =
        if results_come_together && !load.has_ready { backlog_ns } else { backlog_ns / 2 };
    let length_ns = until_ns.checked_sub(LATE_NS).filter(|&length| length >= NAP_MIN_NS)?;
    let longest = if load.least_depth >= LONG_NAP_DEPTH { LONG_NAP } else { SHORT_NAP };
    let length = Duration::from_nanos(length_ns).min(longest);
    (length >= Duration::from_nanos(load.answer_gap_ns)).then_some(length)
}

impl Inner {
    /// Returns false if the bell is to wake the leader for the next answer or request, whenever it comes.
    const fn may_nap(&self) -> bool {
        !self.nested.is_used && !self.lead.was_nap_idle()
    }

    /// Returns the load of the workers, of whom no more than `cores` are counted. For a thread that waits for results that come
    /// together, an idle worker that polls is busy: it uses a core.
    pub fn load(&self, cores: usize, results_come_together: bool) -> Load {
        let load = self.core.load();
        if !results_come_together || load.busy >= cores {
            return load;
        }
        let awake = self.port.slots().filter(|&slot| self.port.is_awake(slot)).take(cores).count();
        Load { busy: load.busy.max(awake), ..load }
    }

    /// Returns the time that the leader should nap now; `None` means not at all.
    pub fn nap_length(
        &mut self,
        load: &Load,
        cores: usize,
        results_come_together: bool,
    ) -> Option<Duration> {
        if !self.may_nap() {
            return None;
        }
        let length = length(load, cores, results_come_together)?;
        if length <= SHORT_NAP {
            return Some(length);
        }
        if self.core.has_priorities() || self.port.links.sleeper().is_some() {
            return Some(SHORT_NAP);
        }
        let until_timer = self.next_wake().unwrap_or(length);
        Some(length.min(until_timer.max(SHORT_NAP)))
    }
}

impl Client {
    /// Naps until one of `tasks` is taken in by another thread, or for `length`. Returns true if a signal ended the nap.
    pub(crate) fn nap_for<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        tasks: &[TaskId],
        length: Duration,
    ) -> (MutexGuard<'a, Inner>, bool) {
        let key = inner.add_waiter(tasks);
        let (mut inner, is_interrupted) = self.nap(inner, length);
        inner.remove_waiter(key);
        (inner, is_interrupted)
    }

    /// Naps without the mutex, with the token. Returns true if a signal ended the nap.
    pub(crate) fn nap<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        length: Duration,
    ) -> (MutexGuard<'a, Inner>, bool) {
        let nap = &self.shared().nap;
        inner.lead.begin_nap();
        nap.begin();
        drop(inner);
        let woken = nap.sleep(Some(length));
        (self.lock(), woken == Woken::Interrupted)
    }
}

#[cfg(test)]
mod tests {
    use gristmill_core::{Origin, TaskOptions};
    use proptest::prelude::*;

    use super::*;
    use crate::submit::CallRequest;
    use crate::workerless::WorkerlessEngine;

    /// Submits a call with a priority to an engine.
    fn submit(inner: &mut Inner, priority: i32) -> TaskId {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        let function = inner.port.functions.define(b"f", "f");
        let call = CallRequest {
            function,
            payload: &[],
            parts: &[],
            views: false,
            parents: &[],
            options: Some(&options),
        };
        inner.submit(&call, Vec::new(), Origin::External, 0).expect("there is room")
    }

    /// Returns true if the nap that has begun is still on.
    fn naps(inner: &Inner) -> bool {
        inner.shared.nap.sleep(Some(Duration::ZERO)) == Woken::TimedOut
    }

    #[test]
    fn the_task_that_a_thread_waits_for_ends_its_nap() {
        let mut inner = WorkerlessEngine::default().inner;
        let (own, other) = (submit(&mut inner, 0), submit(&mut inner, 0));
        inner.add_waiter(&[own]);
        for (task, is_napping) in [(other, true), (own, false)] {
            inner.shared.nap.begin();
            inner.call_waiters(|waited| waited.contains(&task));
            assert_eq!(naps(&inner), is_napping);
        }
    }

    #[test]
    fn a_thread_that_waits_for_notices_of_any_task_naps_on() {
        let mut inner = WorkerlessEngine::default().inner;
        inner.add_waiter(&[]);
        inner.shared.nap.begin();
        inner.call_waiters(<[TaskId]>::is_empty);
        assert!(naps(&inner));
    }

    #[test]
    fn a_task_of_higher_priority_ends_a_nap() {
        let mut inner = WorkerlessEngine::default().inner;
        for (priority, is_napping) in [(0, true), (1, false)] {
            inner.shared.nap.begin();
            submit(&mut inner, priority);
            assert_eq!(naps(&inner), is_napping, "priority {priority}");
        }
    }

    #[test]
    fn after_a_nap_that_brought_nothing_the_bell_wakes_the_leader() {
        let mut inner = WorkerlessEngine::default().inner;
        assert!(inner.may_nap());
        inner.lead.begin_nap();
        assert!(!inner.may_nap(), "tasks run longer than expected");
        inner.attended();
        assert!(inner.may_nap());
    }

    fn load(busy: usize, least_backlog_ns: u64, least_depth: u32) -> Load {
        Load { busy, answer_gap_ns: 1_000, least_backlog_ns, least_depth, has_ready: true }
    }

    /// Returns the nap of a thread that waits for one result.
    fn length(load: &Load, cores: usize) -> Option<Duration> {
        super::length(load, cores, false)
    }

    #[test]
    fn no_thread_naps_beside_a_free_core_or_when_work_runs_out() {
        assert_eq!(length(&load(1, 200_000, 200), 2), None);
        assert_eq!(length(&load(2, BACKLOG_MIN_NS - 1, 200), 2), None);
        assert!(length(&load(2, 200_000, 200), 2).is_some());
    }

    #[test]
    fn a_thread_naps_through_the_last_of_the_results_that_come_together() {
        let rest = Load { has_ready: false, ..load(2, 90_000, 20) };
        assert_eq!(length(&rest, 2), None);
        assert_eq!(super::length(&rest, 2, true), Some(Duration::from_micros(80)));
        let more = Load { has_ready: true, ..rest };
        let half = Some(Duration::from_micros(35));
        assert_eq!(super::length(&more, 2, true), half, "workers must get more before that");
        let little = Load { least_backlog_ns: 29_000, ..rest };
        assert_eq!(super::length(&little, 2, true), None, "two switches of threads cost more");
        assert_eq!(super::length(&rest, 3, true), None, "a core is free");
    }

    #[test]
    fn the_bell_wakes_a_leader_whose_workers_answer_less_often_than_naps_end() {
        let load = |run_ns, depth| Load {
            busy: 2,
            answer_gap_ns: run_ns / 2,
            least_backlog_ns: run_ns * u64::from(depth),
            least_depth: depth,
            has_ready: true,
        };
        assert_eq!(length(&load(256_000, 1), 2), None);
        assert_eq!(length(&load(5_000_000, 4), 2), None);
        assert_eq!(length(&load(1_000_000, 20), 2), Some(LONG_NAP));
        assert_eq!(length(&load(100_000, 4), 2), Some(Duration::from_micros(190)));
    }

    #[test]
    fn a_nap_is_longer_only_while_each_worker_has_several_tasks() {
        assert_eq!(length(&load(2, 50_000_000, 1), 2), Some(SHORT_NAP));
        assert_eq!(length(&load(2, 50_000_000, LONG_NAP_DEPTH), 2), Some(LONG_NAP));
    }

    proptest! {
        #[test]
        fn a_nap_is_short_and_ends_before_the_work_does(
            backlog_ns: u64,
            depth in 1_u32..10,
            results_come_together: bool,
        ) {
            let load = load(4, backlog_ns, depth);
            let length = super::length(&load, 2, results_come_together).unwrap_or_default();
            prop_assert!(length <= LONG_NAP);
            let end_ns = length + Duration::from_nanos(LATE_NS);
            prop_assert!(length.is_zero() || end_ns <= Duration::from_nanos(backlog_ns / 2));
        }
    }
}
