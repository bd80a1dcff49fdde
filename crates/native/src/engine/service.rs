//! What `gristmill._completion` and `Executor.shutdown` ask of the engine.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Engine;
use crate::arena::{ArenaMemory, no_memory};
use crate::future::FutureRef;
use crate::nodes::blob_counts;

/// The longest wait before signals and events set by other threads are looked at.
const SLICE: Duration = Duration::from_millis(50);

#[pymethods]
impl Engine {
    /// Takes no more tasks; with `wait` returns when every process is gone.
    fn _shut_down(&self, py: Python<'_>, wait: bool, cancel_futures: bool) -> PyResult<()> {
        // Relaxed without a partner: the flag is only asked with the interpreter held.
        self.is_closed.store(true, Ordering::Relaxed);
        let Some(client) = self.client() else { return Ok(()) };
        py.detach(|| client.begin_shutdown(cancel_futures));
        if wait {
            self.interruptible(py, None, |slice| client.wait_for_end(slice))?;
        }
        drop(self.functions.with(py, |functions| functions.clear(&**client)));
        Ok(())
    }

    /// Writable memory in the arena.
    fn _allocate<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyAny>> {
        let part = self.running_client(py)?.arena().allocate(size);
        let part = part.map_err(|error| no_memory(&error))?;
        Ok(ArenaMemory::of_part(py, &part, false)?.into_bound(py))
    }

    /// Bytes of the arena's pages that exist, and how many blocks live on this side.
    fn _arena_use(&self) -> (u64, usize) {
        self.client()
            .map_or((0, 0), |client| (client.arena().resident_size(), client.arena().live_count()))
    }

    /// Asks for a notice of a future's task: false when it is final.
    fn _watch(&self, future: &Bound<'_, PyAny>, callbacks: bool) -> PyResult<bool> {
        let py = future.py();
        let view = FutureRef::from_ptr(py, future.as_ptr())
            .ok_or_else(|| crate::error::broken("only futures are watched"))?;
        Ok(self.running_client(py)?.watch(view.task(), callbacks))
    }

    /// Makes whoever waits look anew.
    fn _kick(&self) {
        if let Some(client) = self.client() {
            client.kick();
        }
    }

    /// Completes tasks in this thread, handing each watched one to `complete`, until `event` is set.
    fn _serve(
        &self,
        event: &Bound<'_, PyAny>,
        complete: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let py = event.py();
        let client = self.running_client(py)?;
        let end = timeout
            .and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = Duration::ZERO;
        loop {
            // The first look does not wait: most of the time something is there.
            let notices = if left.is_zero() {
                client.waiter_notices(left)
            } else {
                py.detach(|| client.waiter_notices(left))
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

    /// Final tasks with callbacks, waited for up to `seconds`; `None` once the engine has ended.
    fn _next_callbacks(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<Vec<u64>>> {
        let client = self.running_client(py)?;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(SLICE);
        let Some(mut notices) = client.callback_notices(Duration::ZERO) else { return Ok(None) };
        if notices.is_empty() {
            // The interpreter is back only after up to 5 ms where the program computes: more may have come by then.
            let Some(first) = py.detach(|| client.callback_notices(limit)) else { return Ok(None) };
            notices = first;
            notices.extend(client.callback_notices(Duration::ZERO).into_iter().flatten());
        }
        Ok(Some(notices.into_iter().map(|task| task.word()).collect()))
    }

    /// Counts since the start, and what is outstanding: a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
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
        let temperatures = ["hot", "warm", "cold"].into_iter().zip(stats.temperatures);
        for (name, count) in names.into_iter().zip(stats.finished).chain(temperatures) {
            dict.set_item(name, count)?;
        }
        for (name, bytes) in blob_counts(client.blob_traffic()) {
            dict.set_item(format!("blob_bytes_{name}"), bytes)?;
        }
        Ok(dict)
    }
}
