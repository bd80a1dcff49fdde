//! Waiting with the interpreter given up, a slice at a time, so that Ctrl-C is answered.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gristmill_client::Client;
use gristmill_wire::TaskId;
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;

use super::Engine;
use crate::future::FutureRef;
use crate::raw::optional_seconds;

/// The longest sleep before signals are looked at. A signal ends the sleep by itself; this bounds the wait for one that
/// came just before it.
const SLICE: Duration = Duration::from_millis(50);

impl Engine {
    /// Waits until a task is final; false when the time is over.
    ///
    /// # Errors
    /// What a signal handler raises.
    pub fn wait_for(
        &self,
        py: Python<'_>,
        task: TaskId,
        timeout: Option<Duration>,
    ) -> PyResult<bool> {
        let client = self.running_client(py)?;
        self.interruptible(py, timeout, |slice| client.wait(task, slice))
    }

    /// Runs `attempt` with slices of time, without the interpreter, until it says true or the time is over.
    ///
    /// # Errors
    /// What a signal handler raises.
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
    /// Waits until every task that is outstanding now is final, held or not; false when `timeout` seconds have passed.
    #[pyo3(signature = (timeout=None))]
    fn _wait_all(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        self.refuse_orphan(py)?;
        let Some(client) = self.client() else { return Ok(true) };
        let outstanding = Mutex::new(client.outstanding());
        // Behind it: what Python code submits in here is not waited for.
        let timeout = timeout.map_or(Ok(None), optional_seconds)?;
        self.interruptible(py, timeout, |slice| {
            // Only this thread has it.
            let mut outstanding = outstanding.lock().unwrap_or_else(PoisonError::into_inner);
            client.wait_all(&mut outstanding, slice)
        })
    }
}

/// `gristmill.wait_any`: one final future of several.
///
/// # Errors
/// `ValueError` for none, `TypeError` for other objects, `TimeoutError`.
#[pyfunction]
#[pyo3(signature = (futures, timeout=None))]
pub fn wait_any<'py>(
    py: Python<'py>,
    futures: &Bound<'py, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Vec::new();
    let mut tasks = Vec::new();
    let mut client: Option<&Client> = None;
    let mut iterator = futures.try_iter()?;
    while let Some(future) = iterator.next() {
        let future = future?;
        if objects.is_empty() && future.is_instance_of::<crate::nested::Ticket>() {
            let all: Vec<_> =
                std::iter::once(Ok(future)).chain(iterator).collect::<PyResult<_>>()?;
            let module = py.import("gristmill._nested")?;
            return module.call_method1("wait_any", (all, timeout));
        }
        let view = FutureRef::from_ptr(py, future.as_ptr())
            .ok_or_else(|| PyValueError::new_err("wait_any takes futures of gristmill only"))?;
        let owner: &Client = view.engine().running_client(py)?;
        if client.is_some_and(|client| !std::ptr::eq(client, owner)) {
            return Err(PyValueError::new_err("wait_any takes futures of one executor"));
        }
        client = Some(owner);
        tasks.push(view.task());
        objects.push(future);
    }
    let (Some(client), Some(first)) = (client, objects.first()) else {
        return Err(PyValueError::new_err("wait_any needs at least one future"));
    };
    if let Some(place) = client.first_final(&tasks) {
        return Ok(objects.swap_remove(place));
    }
    let timeout = timeout
        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
    // SAFETY: `first` is a live future and keeps its engine alive.
    let engine = FutureRef::from_ptr(py, first.as_ptr()).map(FutureRef::engine);
    let Some(engine) = engine else { return Err(PyValueError::new_err("no future")) };
    if !engine.interruptible(py, timeout, |slice| client.wait_any(&tasks, slice))? {
        return Err(PyTimeoutError::new_err(()));
    }
    client
        .first_final(&tasks)
        .map(|place| objects.swap_remove(place))
        .ok_or_else(|| crate::error::broken("a wait ended without a final task"))
}
