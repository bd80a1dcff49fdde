//! `map`: a window of tasks over an iterator, without futures.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gristmill_client::{CallBatch, Ended, Pending, Taken};
use gristmill_wire::{FunctionId, TaskId};
use pyo3::exceptions::{PyTimeoutError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use super::{CallOptions, Engine, Options};
use crate::codec::{BlockSink, Encoded, encode_call};
use crate::object::Owned;

/// How many items are submitted under one taking of the client's mutex.
const BATCH: usize = 64;
/// About how many results are taken under one, and then items submitted for them.
const SHARE: usize = 512;
/// Once results are asked for, items are submitted so far ahead and no further: their records stay in a core's cache.
const STEADY_WINDOW: usize = 1024;

/// The results of a map, one a task. Dropping it after the first result cancels what has not started; dropping it before
/// leaves all of it to run, as the standard library's does.
#[pyclass(module = "gristmill._native", weakref)]
pub struct MapResults {
    engine: Py<Engine>,
    function: Py<PyAny>,
    /// `None` once it is exhausted.
    items: Option<Py<PyIterator>>,
    /// Each item is a tuple of arguments, not one argument.
    unpacks: bool,
    options: Option<CallOptions>,
    /// Where these are from: it keeps the context there that they name.
    _owner: Option<Py<Options>>,
    window: usize,
    batch: CallBatch,
    pending: VecDeque<Pending>,
    /// Items that are outstanding.
    pending_count: usize,
    /// Outcomes that were taken from the engine and not asked for yet.
    taken: VecDeque<Taken>,
    end: Option<Instant>,
    is_ordered: bool,
    is_begun: bool,
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
        let options = options
            .map(|options| options.get().now(py).map(|(_, now)| (now, options)))
            .transpose()?;
        let timeout = timeout
            .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        let mut results = MapResults {
            engine: slf.clone().unbind(),
            function: function.unbind(),
            items: Some(items.unbind()),
            unpacks,
            options: options.map(|(options, _)| options),
            _owner: options.map(|(_, owner)| owner.clone().unbind()),
            window,
            batch: CallBatch::default(),
            pending: VecDeque::new(),
            pending_count: 0,
            taken: VecDeque::new(),
            end: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            is_ordered,
            is_begun: false,
        };
        slf.get().running_client(py)?;
        results.begin(py)?;
        Ok(results)
    }
}

#[pymethods]
impl MapResults {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.is_begun = true;
        let value = match self.next_value(py) {
            None if !self.more(py)? => return Ok(None),
            None => self.next_value(py),
            value => value,
        };
        match value {
            Some(Ok(value)) => Ok(Some(value.into_bound(py).unbind())),
            Some(Err(error)) => Err(*error),
            None => Ok(None),
        }
    }

    /// Submits whatever is left of the items.
    fn _submit_rest(&mut self, py: Python<'_>) -> PyResult<()> {
        self.fill(py, usize::MAX)
    }

    /// Cancels what has not started and forgets the rest.
    fn close(&mut self) {
        self.items = None;
        self.taken.clear();
        self.let_go(true);
    }
}

impl MapResults {
    /// The next of the outcomes that were taken. An error is in a box, so that a value moves a word.
    #[inline]
    fn next_value(&mut self, py: Python<'_>) -> Option<Result<Owned, Box<PyErr>>> {
        let engine = self.engine.get();
        while let Some(Taken::Results(results)) = self.taken.front_mut() {
            if let Some(result) = results.take() {
                return Some(engine.call_value(py, result));
            }
            self.taken.pop_front();
        }
        let value = match self.taken.pop_front()? {
            Taken::One(Ended::Value(payload)) => engine.decode(py, &payload),
            Taken::One(other) => Err(engine.raised(py, other)),
            Taken::Results(_) => unreachable!("those were taken first"),
        };
        Some(value.map_err(Box::new))
    }

    /// Gets the next outcomes; false when there are none any more.
    fn more(&mut self, py: Python<'_>) -> PyResult<bool> {
        let window = self.window.min(STEADY_WINDOW);
        let room = window.saturating_sub(self.pending_count);
        // A small window is not run down to its end, where workers would idle.
        if room >= BATCH.min(window.div_ceil(2)) || self.pending.is_empty() {
            self.fill(py, SHARE.min(room.max(1)))?;
        }
        let engine = self.engine.clone_ref(py);
        let client = engine.get().running_client(py)?;
        let mut has_waited = false;
        loop {
            let (pending, taken) = (&mut self.pending, &mut self.taken);
            self.pending_count -= if self.is_ordered {
                client.take_front(pending, SHARE, has_waited, taken)
            } else {
                client.take_any(pending, has_waited, taken)
            };
            if !self.taken.is_empty() {
                return Ok(true);
            }
            // A batch of which all results were taken before it was through leaves nothing.
            if self.pending.is_empty() {
                return Ok(false);
            }
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            let pending: &[Pending] = self.pending.make_contiguous();
            if !engine.get().interruptible(py, left, |slice| match self.is_ordered {
                true => client.wait_front(pending[0], slice),
                false => client.wait_pending(pending, slice),
            })? {
                return Err(PyTimeoutError::new_err(()));
            }
            has_waited = true;
        }
    }

    /// Submits the first items: of a short function fewer, since they keep the workers busy for no time anyone notices.
    fn begin(&mut self, py: Python<'_>) -> PyResult<()> {
        let first = self.window.min(STEADY_WINDOW);
        self.fill(py, first)?;
        let engine = self.engine.clone_ref(py);
        let function = engine.get().function_id(py, self.function.as_ptr())?;
        let at_once = engine.get().running_client(py)?.batch_size(function) as usize;
        self.fill(py, (self.window / at_once).saturating_sub(first))
    }

    /// Submits up to `limit` items.
    fn fill(&mut self, py: Python<'_>, limit: usize) -> PyResult<()> {
        let mut left = limit;
        while left > 0 && self.items.is_some() {
            let engine = self.engine.clone_ref(py);
            let function = engine.get().function_id(py, self.function.as_ptr())?;
            let count = BATCH.min(left);
            // What was encoded before an item went wrong is submitted: its results come first.
            let encoded = self.encode(py, function, count);
            let submitted = self.submit(py, function);
            encoded.and(submitted)?;
            left -= count;
        }
        Ok(())
    }

    /// Encodes up to `count` items into the batch. One without a native form is submitted at once, behind the others.
    fn encode(&mut self, py: Python<'_>, function: FunctionId, count: usize) -> PyResult<()> {
        for _ in 0..count {
            let Some(items) = &self.items else { return Ok(()) };
            // SAFETY: `items` is a live iterator; null stands for its end or for an exception.
            let item = unsafe { ffi::PyIter_Next(items.as_ptr()) };
            if item.is_null() {
                self.items = None;
                return PyErr::take(py).map_or(Ok(()), Err);
            }
            let item = Owned::or_raise(py, item)?;
            if !self.encode_item(&item) {
                self.batch.abandon_call();
                self.submit(py, function)?;
                let task = self.submit_slowly(py, &item)?;
                self.pending.push_back(Pending::One(task));
                self.pending_count += 1;
                continue;
            }
            self.batch.finish_call();
        }
        Ok(())
    }

    /// Appends one item to the batch; false when it has no native form, or parts that belong into the arena.
    fn encode_item(&mut self, item: &Owned) -> bool {
        if self.options.is_some_and(|options| options.views) {
            return false;
        }
        let out = self.batch.buffer();
        let mut large = NoLargeParts;
        let sinks = (&self.engine.get().arrays, &mut large as &mut dyn BlockSink);
        // SAFETY: the interpreter is held and the item live; a tuple's items are as long as it is.
        unsafe {
            let encoded = if self.unpacks {
                let count = ffi::PyTuple_Size(item.as_ptr());
                let values: Vec<_> =
                    (0..count).map(|place| ffi::PyTuple_GetItem(item.as_ptr(), place)).collect();
                encode_call(&values, &[], &mut (), out, sinks)
            } else {
                encode_call(&[item.as_ptr()], &[], &mut (), out, sinks)
            };
            encoded == Encoded::Native
        }
    }

    fn submit_slowly(&self, py: Python<'_>, item: &Owned) -> PyResult<TaskId> {
        let engine = self.engine.get();
        let mut arguments = Vec::new();
        // SAFETY: the function and the item are live; a tuple's items are as long as it is.
        unsafe {
            let item = Bound::from_borrowed_ptr(py, item.as_ptr());
            if self.unpacks {
                let tuple = item.cast::<PyTuple>().map_err(|_| PyTypeError::new_err("no tuple"))?;
                arguments.extend(tuple.iter_borrowed().map(|argument| argument.as_ptr()));
            } else {
                arguments.push(item.as_ptr());
            }
            let function = self.function.as_ptr();
            engine.submit_task(py, function, &arguments, &[], self.options.as_ref())
        }
    }

    /// Submits the batch; waits for room where there is a limit.
    fn submit(&mut self, py: Python<'_>, function: FunctionId) -> PyResult<()> {
        let engine = self.engine.clone_ref(py);
        let client = engine.get().running_client(py)?;
        let mut first = 0;
        self.pending_count += self.batch.len();
        while first < self.batch.len() {
            let place = (&self.batch, first);
            let options = self.options.as_ref().map(|options| &options.task);
            match client.submit_batch(function, options, place, &mut self.pending) {
                Ok(()) => break,
                Err((refused, error)) => {
                    first = refused;
                    if let Err(error) = engine.get().wait_for_room(py, client, error) {
                        self.pending_count -= self.batch.len() - first;
                        self.batch.clear();
                        return Err(error);
                    }
                }
            }
        }
        self.batch.clear();
        Ok(())
    }

    fn let_go(&mut self, cancels: bool) {
        if let Some(client) = self.engine.get().client() {
            client.drop_pending(&mut self.pending, cancels);
        }
    }
}

/// Finds that there are large parts, and takes none.
struct NoLargeParts;

impl BlockSink for NoLargeParts {
    unsafe fn store(&mut self, _data: *const u8, _size: usize, _is_readonly: bool) -> Option<u32> {
        None
    }
}

impl Drop for MapResults {
    fn drop(&mut self) {
        if self.engine.get().is_orphan() {
            self.pending.clear();
            return;
        }
        if !self.is_begun {
            // Nobody is left to tell of an item that cannot be sent.
            let _ = Python::attach(|py| self.fill(py, usize::MAX));
        }
        self.let_go(self.is_begun);
    }
}
