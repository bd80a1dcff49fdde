//! `map`: a window of tasks over an iterator, without futures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gristmill_client::CancelMode;
use gristmill_wire::TaskId;
use pyo3::exceptions::{PyTimeoutError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use super::{CallOptions, Engine, Options};
use crate::error;
use crate::object::Owned;

/// How many items are submitted in a row while results may be waiting: what keeps both directions busy.
const BATCH: usize = 64;

/// The results of a map, one a task. Dropping it cancels what has not started.
#[pyclass(module = "gristmill._native")]
pub struct MapResults {
    engine: Py<Engine>,
    function: Py<PyAny>,
    /// `None` once it is exhausted.
    items: Option<Py<PyIterator>>,
    /// Each item is a tuple of arguments, not one argument.
    unpacks: bool,
    options: Option<CallOptions>,
    window: usize,
    pending: VecDeque<TaskId>,
    end: Option<Instant>,
    is_ordered: bool,
}

#[pymethods]
impl Engine {
    /// Starts a map; called by `Executor.map`.
    #[expect(clippy::too_many_arguments, reason = "they come one by one from Python's `map()`")]
    fn _start_map(
        slf: &Bound<'_, Self>,
        options: Option<&Bound<'_, Options>>,
        function: Bound<'_, PyAny>,
        items: Bound<'_, PyIterator>,
        unpacks: bool,
        window: usize,
        timeout: Option<f64>,
        is_ordered: bool,
    ) -> PyResult<MapResults> {
        let py = slf.py();
        let options = options.map(|options| options.get().now()).transpose()?;
        let timeout =
            timeout.map(|s| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX));
        let mut results = MapResults {
            engine: slf.clone().unbind(),
            function: function.unbind(),
            items: Some(items.unbind()),
            unpacks,
            options: options.map(|(_, options)| options),
            window,
            pending: VecDeque::new(),
            end: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            is_ordered,
        };
        slf.get().running_client(py)?;
        results.fill(py, usize::MAX)?;
        Ok(results)
    }
}

#[pymethods]
impl MapResults {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.pending.len() + BATCH <= self.window || self.pending.is_empty() {
            self.fill(py, BATCH)?;
        }
        if self.pending.is_empty() {
            return Ok(None);
        }
        let place = if self.is_ordered { 0 } else { self.first_final(py)? };
        let task = self.pending[place];
        let value = self.value_of(py, task);
        // A wait that timed out or was interrupted leaves the task where it is.
        if let Err(failure) = &value
            && failure.is_instance_of::<Unfinished>(py)
        {
            return Err(PyTimeoutError::new_err(()));
        }
        self.pending.remove(place);
        self.engine.get().release(task);
        value.map(|value| Some(value.into_bound(py).unbind()))
    }

    /// Cancels what has not started and forgets the rest.
    fn close(&mut self) {
        self.items = None;
        let engine = self.engine.get();
        if let Some(client) = engine.client() {
            for task in self.pending.drain(..) {
                client.cancel(task, CancelMode::Unstarted);
                client.release(task);
            }
        }
    }
}

pyo3::create_exception!(_native, Unfinished, PyTimeoutError);

impl MapResults {
    /// Submits items until the window is full, the iterator is exhausted, or `limit` are under way.
    fn fill(&mut self, py: Python<'_>, limit: usize) -> PyResult<()> {
        let mut count = 0;
        while count < limit && self.pending.len() < self.window {
            let Some(items) = &self.items else { return Ok(()) };
            // SAFETY: `items` is a live iterator; null stands for its end or for an exception.
            let item = unsafe { ffi::PyIter_Next(items.as_ptr()) };
            if item.is_null() {
                self.items = None;
                return PyErr::take(py).map_or(Ok(()), Err);
            }
            let item = Owned::or_raise(py, item)?;
            let task = self.submit(py, &item)?;
            self.pending.push_back(task);
            count += 1;
        }
        Ok(())
    }

    fn submit(&self, py: Python<'_>, item: &Owned) -> PyResult<TaskId> {
        let engine = self.engine.get();
        let function = self.function.as_ptr();
        // SAFETY: the function and the item are live; a tuple's items are as long as it is.
        unsafe {
            if !self.unpacks {
                let arguments = [function, item.as_ptr()];
                return engine.submit_task(
                    py,
                    &arguments,
                    std::ptr::null_mut(),
                    self.options.as_ref(),
                );
            }
            let tuple = Bound::from_borrowed_ptr(py, item.as_ptr());
            let tuple = tuple.cast::<PyTuple>().map_err(|_| PyTypeError::new_err("no tuple"))?;
            let mut arguments = vec![function];
            arguments.extend(tuple.iter_borrowed().map(|argument| argument.as_ptr()));
            engine.submit_task(py, &arguments, std::ptr::null_mut(), self.options.as_ref())
        }
    }

    fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }

    fn value_of(&self, py: Python<'_>, task: TaskId) -> PyResult<Owned> {
        let engine = self.engine.get();
        match engine.ended_within(py, task, self.left())? {
            None => Err(Unfinished::new_err(())),
            Some(gristmill_client::Ended::Value(encoded)) => engine.decode(py, &encoded),
            Some(other) => Err(engine.raised(py, other)),
        }
    }

    fn first_final(&self, py: Python<'_>) -> PyResult<usize> {
        let engine = self.engine.get();
        let client = engine.running_client(py)?;
        let tasks: Vec<TaskId> = self.pending.iter().copied().collect();
        if client.first_final(&tasks).is_none()
            && !engine.interruptible(py, self.left(), |slice| client.wait_any(&tasks, slice))?
        {
            return Err(PyTimeoutError::new_err(()));
        }
        client.first_final(&tasks).ok_or_else(|| error::broken("a wait ended without a final task"))
    }
}

impl Drop for MapResults {
    fn drop(&mut self) {
        self.close();
    }
}
