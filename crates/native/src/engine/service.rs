//! Methods of the engine for `gristmill._completion` and `Executor.shutdown`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Engine;
use crate::arena::{ArenaMemory, no_memory};
use crate::future::FutureRef;
use crate::nodes::blob_counts;
use crate::raw::optional_seconds;

/// The longest wait between checks for signals and for events set by other threads.
const SLICE: Duration = Duration::from_millis(50);

#[pymethods]
impl Engine {
    /// Accepts no more tasks; with `wait` returns when every process has ended.
    fn _shut_down(&self, py: Python<'_>, wait: bool, cancel_futures: bool) -> PyResult<()> {
        // Relaxed without a partner: the flag is only read with the interpreter held.
        self.is_closed.store(true, Ordering::Relaxed);
        let Some(client) = self.client() else { return Ok(()) };
        py.detach(|| client.begin_shutdown(cancel_futures));
        if wait {
            self.interruptible(py, None, |slice| client.wait_for_end(slice))?;
        }
        drop(self.functions.with(py, |functions| functions.clear(&**client)));
        Ok(())
    }

    /// Accepts no more tasks, kills the running ones, and fails all that have not ended with `reason`. With `cancels`, cancels
    /// those that have certainly not started.
    #[pyo3(signature = (reason, cancels = false))]
    fn _abort(&self, py: Python<'_>, reason: &str, cancels: bool) {
        // Relaxed without a partner: the flag is only read with the interpreter held.
        self.is_closed.store(true, Ordering::Relaxed);
        if let Some(connection_manager) = self.connection_manager() {
            connection_manager.close();
        }
        if let Some(client) = self.client() {
            py.detach(|| if cancels { client.abandon(reason) } else { client.abort(reason) });
        }
    }

    /// Allocates writable memory in the arena.
    fn _allocate<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyAny>> {
        let part = self.running_client(py)?.arena().allocate(size);
        let part = part.map_err(|error| no_memory(py, &error))?;
        Ok(ArenaMemory::of_part(py, &part, false)?.into_bound(py))
    }

    /// Returns the bytes of the arena's resident pages, the number of live blocks on this side, and the bytes on disk.
    fn _arena_use(&self) -> (u64, usize, u64) {
        self.client().map_or((0, 0, 0), |client| {
            let arena = client.arena();
            (arena.resident_size(), arena.live_count(), arena.spilled_size())
        })
    }

    /// Requests a notification for a future's task. Returns false if the task is final already.
    fn _watch(&self, future: &Bound<'_, PyAny>, callbacks: bool) -> PyResult<bool> {
        let py = future.py();
        let view = FutureRef::from_ptr(py, future.as_ptr())
            .ok_or_else(|| crate::error::broken("only futures can be watched"))?;
        Ok(self.running_client(py)?.watch(view.task(), callbacks))
    }

    /// Makes all waiting threads check their condition again.
    fn _kick(&self) {
        if let Some(client) = self.client() {
            client.kick();
        }
    }

    /// Completes tasks in this thread until `event` is set, and passes each watched one to `complete`.
    fn _serve(
        &self,
        event: &Bound<'_, PyAny>,
        complete: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let py = event.py();
        let timeout = timeout.map_or(Ok(None), optional_seconds)?;
        let client = self.running_client(py)?;
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (mut left, mut kicks) = (Duration::ZERO, 0);
        loop {
            // The first poll does not wait: most of the time a notification is there.
            let notices;
            // If another thread sets the event after the check below, its kick ends the next wait, because its number
            // is new.
            (notices, kicks) = if left.is_zero() {
                client.waiter_notices(left, kicks)
            } else {
                py.detach(|| client.waiter_notices(left, kicks))
            };
            for task in notices {
                complete.call1((task.word(),))?;
            }
            if event.call_method0("is_set")?.is_truthy()? {
                return Ok(true);
            }
            py.check_signals()?;
            left =
                end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now())).min(SLICE);
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Returns final tasks with callbacks, waiting up to `seconds` for them; `None` once the engine has ended.
    fn _next_callbacks(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<Vec<u64>>> {
        let client = self.running_client(py)?;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(SLICE);
        let Some(mut notices) = client.callback_notices(Duration::ZERO) else { return Ok(None) };
        if notices.is_empty() {
            // Another thread that computes may hold the interpreter for up to 5 ms: more may have come by then.
            let Some(first) = py.detach(|| client.callback_notices(limit)) else { return Ok(None) };
            notices = first;
            notices.extend(client.callback_notices(Duration::ZERO).into_iter().flatten());
        }
        Ok(Some(notices.into_iter().map(|task| task.word()).collect()))
    }

    /// Returns the fields of a `gristmill.Stats`; none of an engine that has not started.
    fn _stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.refuse_orphan(py)?;
        let dict = PyDict::new(py);
        let Some(client) = self.client() else { return Ok(dict) };
        let stats = client.stats();
        let counts = [
            ("submitted", stats.submitted),
            ("outstanding", stats.outstanding),
            ("ready", stats.ready),
            ("blocked", stats.blocked),
            ("in_flight", stats.in_flight),
            ("retries", stats.retries),
            ("loss_retries", stats.loss_retries),
            ("timeout_retries", stats.timeout_retries),
            ("workers_lost", stats.losses),
            ("workers_killed", stats.kills),
            ("start_failures", stats.start_failures),
            ("replaced", stats.replaced),
            ("stolen", stats.stolen),
            ("stale_answers", stats.stale_answers),
            ("busy_ns", client.busy_ns()),
        ];
        for (name, count) in counts {
            dict.set_item(name, count)?;
        }
        let names = [
            "succeeded",
            "failed",
            "cancelled",
            "timed_out",
            "dependency_failed",
            "lost",
            "refused",
        ];
        let worker_states = ["hot", "warm", "cold"].into_iter().zip(stats.worker_states);
        for (name, count) in names.into_iter().zip(stats.finished).chain(worker_states) {
            dict.set_item(name, count)?;
        }
        for (name, bytes) in blob_counts(client.blob_traffic()) {
            dict.set_item(format!("blob_bytes_{name}"), bytes)?;
        }
        Ok(dict)
    }
}
