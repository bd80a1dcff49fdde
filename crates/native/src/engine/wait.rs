//! Waits that release the interpreter, a slice of time at a time, so that Ctrl-C works.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gristmill_client::Client;
use gristmill_wire::TaskId;
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;

use super::Engine;
use crate::future::FutureRef;
use crate::raw::optional_seconds;

/// The longest sleep between checks for signals. A signal ends the sleep by itself; this bounds the wait for a signal
/// that came just before the sleep.
pub const SLICE: Duration = Duration::from_millis(50);

/// Waits this long, over thirty years, are treated as waits without a limit.
const CLOCK_MAX: Duration = Duration::from_secs(1 << 30);

impl Engine {
    /// Waits until a task is final. Returns false if the time is over first.
    ///
    /// # Errors
    /// Any exception that a signal handler raises.
    pub fn wait_for(
        &self,
        py: Python<'_>,
        task: TaskId,
        timeout: Option<Duration>,
    ) -> PyResult<bool> {
        let client = self.running_client(py)?;
        self.interruptible(py, timeout, |slice| client.wait(task, slice))
    }

    /// Runs `attempt` with slices of time, without the interpreter, until it returns true or the time is over.
    ///
    /// # Errors
    /// Any exception that a signal handler raises.
    pub fn interruptible(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
        attempt: impl Fn(Duration) -> bool + Send + Sync,
    ) -> PyResult<bool> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
            if py.detach(|| attempt(left.min(SLICE))) {
                return Ok(true);
            }
            py.check_signals()?;
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(false);
            }
        }
    }
}

#[pymethods]
impl Engine {
    /// Waits until every task that is outstanding now is final, whether or not it has a future. Returns false if
    /// `timeout` seconds have passed first.
    #[pyo3(signature = (timeout=None))]
    fn _wait_all(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        self.refuse_orphan(py)?;
        let Some(client) = self.client() else { return Ok(true) };
        let outstanding = Mutex::new(client.outstanding());
        // This comes after the list is made, so tasks that Python code submits in here are not waited for.
        let timeout = timeout.map_or(Ok(None), optional_seconds)?;
        self.interruptible(py, timeout, |slice| {
            // Only this thread uses the mutex.
            let mut outstanding = outstanding.lock().unwrap_or_else(PoisonError::into_inner);
            client.wait_all(&mut outstanding, slice)
        })
    }
}

/// Waits for and returns one final future of several: `gristmill.wait_any`.
///
/// # Errors
/// `ValueError` for no futures, `TypeError` for other objects, `TimeoutError`.
#[pyfunction]
#[pyo3(signature = (futures, timeout=None))]
pub fn wait_any<'py>(
    py: Python<'py>,
    futures: &Bound<'py, PyAny>,
    timeout: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let patience = timeout.map_or(Ok(None), optional_seconds)?;
    let mut objects = futures.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let mut tasks = Vec::with_capacity(objects.len());
    let mut client: Option<&Client> = None;
    for future in &objects {
        let Some(view) = FutureRef::from_ptr(py, future.as_ptr()) else {
            return wait_any_of_kinds(py, objects, patience);
        };
        let owner: &Client = view.engine().running_client(py)?;
        if client.is_some_and(|client| !std::ptr::eq(client, owner)) {
            return wait_any_of_kinds(py, objects, patience);
        }
        client = Some(owner);
        tasks.push(view.task());
    }
    let (Some(client), Some(first)) = (client, objects.first()) else {
        return Err(PyValueError::new_err("wait_any needs at least one future"));
    };
    if let Some(place) = client.first_final(&tasks) {
        return Ok(objects.swap_remove(place));
    }
    // SAFETY: `first` is a live future and keeps its engine alive.
    let engine = FutureRef::from_ptr(py, first.as_ptr()).map(FutureRef::engine);
    let Some(engine) = engine else { return Err(PyValueError::new_err("no future")) };
    if !engine.interruptible(py, patience, |slice| client.wait_any(&tasks, slice))? {
        return Err(PyTimeoutError::new_err(()));
    }
    client
        .first_final(&tasks)
        .map(|place| objects.swap_remove(place))
        .ok_or_else(|| crate::error::broken("a wait ended without a final task"))
}

/// Does the same as [`wait_any`] if not all futures are of one engine.
#[cold]
fn wait_any_of_kinds<'py>(
    py: Python<'py>,
    futures: Vec<Bound<'py, PyAny>>,
    patience: Option<Duration>,
) -> PyResult<Bound<'py, PyAny>> {
    // Python's locks refuse a time that is longer than their clock counts.
    let timeout = patience.filter(|time| *time < CLOCK_MAX).map(|time| time.as_secs_f64());
    py.import("gristmill._completion")?.call_method1("wait_any", (futures, timeout))
}
