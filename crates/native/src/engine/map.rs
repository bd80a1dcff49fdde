//! Execution of `map`: a window of tasks over an iterator, without futures.
//!
//! Threads, signal handlers and the items themselves may re-enter a map wherever Python code runs. Nothing is borrowed
//! at those points: `flow` is used only between them, and one thread at a time has the items, which it claims from
//! `reading`.

mod bytes;
mod flow;
mod source;

use std::time::{Duration, Instant};

use gristmill_client::{CallResult, CallValue, Ended};
use gristmill_wire::{FunctionId, TaskId};
use pyo3::exceptions::{
    PyException, PyRuntimeError, PyStopIteration, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use self::bytes::Bytes;
use self::flow::{BATCH, Flow, MapProgress, Next, STEADY_WINDOW};
use self::source::{ItemSource, ReadTurn, Reading};
use super::wait::SLICE;
use super::{BoundEngine, CallOptions, Engine};
use crate::attached::Attached;
use crate::codec::{BlockSink, EncodeResult, encode_call};
use crate::error;
use crate::object::Owned;
use crate::undisturbed::{report, undisturbed};

/// The results of a map, one for each task. If it is dropped after the first result, tasks that have not started are
/// cancelled; if it is dropped earlier, all of them run, as in the standard library.
#[pyclass(module = "gristmill._native", weakref, frozen)]
pub struct MapResults {
    /// The executor, until all items are submitted: a program may drop an executor and keep the map.
    executor: Attached<Option<Py<Engine>>>,
    /// The part of the engine that waits for results and reads them, which keeps no executor.
    results: Engine,
    function: Py<PyAny>,
    /// True if each item is a tuple of arguments instead of one argument.
    unpacks: bool,
    options: Option<CallOptions>,
    /// The source of `options`: it keeps the context that they name.
    _owner: Option<Py<BoundEngine>>,
    end: Option<Instant>,
    /// True if the items are known to end, false if they are known not to; `None` if only reading them can tell.
    ends: Option<bool>,
    flow: Attached<Flow>,
    reading: Reading,
}

/// The result of reading items.
enum Read {
    /// The reading went as planned; there may be more items.
    Enough,
    /// The engine has no room, and is set to fail instead of waiting.
    Full(PyErr),
    /// The engine takes none of these items.
    Refused(PyErr),
}

/// Returns the bytes that a map may hold if the caller did not choose its window.
#[pyfunction]
pub fn map_bytes_max() -> u64 {
    bytes::usual_max()
}

#[pymethods]
impl Engine {
    /// Starts a map; called by `Executor.map`. If `is_bounded`, the caller did not choose the window, and the bytes
    /// held are limited too. `ends` says whether the items are known to end.
    #[expect(clippy::too_many_arguments, reason = "they come one by one from Python's `map()`")]
    fn _start_map(
        slf: &Bound<'_, Self>,
        options: Option<&Bound<'_, BoundEngine>>,
        function: Bound<'_, PyAny>,
        items: Bound<'_, PyIterator>,
        unpacks: bool,
        window: usize,
        is_bounded: bool,
        timeout: Option<f64>,
        is_ordered: bool,
        ends: Option<bool>,
    ) -> PyResult<MapResults> {
        let py = slf.py();
        let settings = slf.get().settings()?;
        let bytes = if is_bounded { Bytes::bounded(settings.workers) } else { Bytes::unbounded() };
        let options = options
            .map(|options| options.get().now(py).map(|(_, now)| (now, options)))
            .transpose()?;
        let timeout = timeout
            .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        let client = slf.get().running_client(py)?;
        let results = MapResults {
            executor: Attached::new(Some(slf.clone().unbind())),
            results: Engine::for_results(client),
            function: function.unbind(),
            unpacks,
            options: options.map(|(options, _)| options),
            _owner: options.map(|(_, owner)| owner.clone().unbind()),
            end: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            ends,
            flow: Attached::new(Flow::new(window, bytes, is_ordered)),
            reading: Reading::new(items.unbind()),
        };
        if let Err(error) = results.begin(py, window) {
            // The caller has no map: the submitted items run, and no more are read.
            results.forget(py, false);
            return Err(error);
        }
        Ok(results)
    }
}

#[pymethods]
impl MapResults {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.flow.with(py, |flow| flow.next_scalar(py)) {
            Some(value) => Ok(Some(value.into_bound(py))),
            None => self.next_of_any_kind(py),
        }
    }

    /// Submits the items that must not be lost when the executor ends. If no result was requested yet, those are all
    /// items, unless they are known not to end; otherwise all items if they are known to end.
    fn _submit_rest(&self, py: Python<'_>) -> PyResult<()> {
        let is_begun = self.flow.with(py, |flow| flow.is_begun);
        if self.ends == Some(false) || (is_begun && self.ends.is_none()) {
            return Ok(());
        }
        self.flow.with(py, |flow| flow.reads_all = true);
        loop {
            match self.reading.claim(py) {
                ReadTurn::Given(source) => {
                    let read = self.read_with(py, source, usize::MAX)?;
                    self.note(py, read);
                    return Ok(());
                }
                ReadTurn::Other(known) => self.wait_for_reader(py, known, SLICE)?,
                // The reader submits the items that it reads, if the engine accepts them.
                ReadTurn::Own | ReadTurn::Gone => return Ok(()),
            }
        }
    }

    /// Cancels the tasks that have not started, and drops the rest.
    fn close(&self, py: Python<'_>) {
        self.forget(py, true);
    }
}

/// Wraps a `StopIteration` in a `RuntimeError`, because it would end the caller's loop as if there were no more
/// results. Returns other errors unchanged.
fn runtime_error(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let runtime_error = PyRuntimeError::new_err("a task of this map raised StopIteration");
    runtime_error.set_cause(py, Some(error));
    runtime_error
}

impl MapResults {
    /// Returns the next result of any kind, as a Python value or exception.
    #[inline(never)]
    fn next_of_any_kind<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.next(py) {
            Ok(value) => Ok(value.map(|value| value.into_bound(py))),
            Err(error) => Err(runtime_error(py, error)),
        }
    }

    /// Waits for the next result.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Owned>> {
        let mut may_read = true;
        loop {
            let mut bytes = Vec::new();
            let next = self.flow.with(py, |flow| {
                flow.is_begun = true;
                flow.next(py, may_read, &mut bytes)
            });
            match next {
                Next::Value(value) => return Ok(Some(value)),
                Next::Read(count) => {
                    // If reading raises, the result stays available. If the engine is full, there are other results.
                    let read = self.read(py, count)?;
                    self.note(py, read);
                    may_read = false;
                }
                Next::Nothing => {
                    if !self.more(py)? {
                        return Ok(None);
                    }
                }
                other => return self.decoded(py, other, &bytes).map(Some),
            }
        }
    }

    /// Decodes the outcome of one item.
    #[cold]
    fn decoded(&self, py: Python<'_>, next: Next, bytes: &[u8]) -> PyResult<Owned> {
        let engine = &self.results;
        match next {
            Next::Inline(verdict) => {
                engine.call_value(py, CallResult { verdict, value: CallValue::Inline(bytes) })
            }
            Next::Blocks(verdict, encoded) => {
                engine.call_value(py, CallResult { verdict, value: CallValue::Blocks(encoded) })
            }
            Next::Ended(Ended::Value(payload)) => engine.decode(py, &payload),
            Next::Ended(other) => Err(engine.raised(py, other)),
            Next::Failed(error) => Err(error),
            Next::Value(value) => Ok(value),
            Next::Read(_) | Next::Nothing => Err(error::broken("a map has no value of its own")),
        }
    }

    /// Waits until a result has come. Returns false if no more will come.
    fn more(&self, py: Python<'_>) -> PyResult<bool> {
        let client = self.results.running_client(py)?;
        let mut has_waited = false;
        loop {
            let collected = self.flow.with(py, |flow| flow.collect(client, has_waited));
            match collected {
                MapProgress::Something => return Ok(true),
                MapProgress::Outstanding(pending) => {
                    self.wait(py, |slice| match &*pending {
                        [front] => client.wait_front(*front, slice),
                        all => client.wait_pending(all, slice),
                    })?;
                    has_waited = true;
                }
                MapProgress::Nothing => match self.reading.claim(py) {
                    ReadTurn::Given(source) => {
                        let room = self.flow.with(py, |flow| flow.room());
                        match self.read_with(py, source, room.max(1))? {
                            Read::Full(error) => return Err(error),
                            read => self.note(py, read),
                        }
                    }
                    ReadTurn::Own => {
                        return Err(PyValueError::new_err(
                            "a map cannot be asked for a result while it reads the item for it",
                        ));
                    }
                    ReadTurn::Other(known) => {
                        let left = self.left()?;
                        self.wait_for_reader(py, known, left)?;
                    }
                    ReadTurn::Gone => return Ok(self.flow.with(py, |flow| !flow.is_empty())),
                },
            }
        }
    }

    /// Returns the time limit of one wait.
    ///
    /// # Errors
    /// `TimeoutError` if the map's time is over.
    fn left(&self) -> PyResult<Duration> {
        let Some(end) = self.end else { return Ok(SLICE) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(PyTimeoutError::new_err(())) } else { Ok(left.min(SLICE)) }
    }

    /// Waits a while for tasks. Another thread may change the map meanwhile.
    fn wait(
        &self,
        py: Python<'_>,
        attempt: impl Fn(Duration) -> bool + Send + Sync,
    ) -> PyResult<()> {
        let left = self.left()?;
        py.detach(|| attempt(left));
        py.check_signals()
    }

    fn wait_for_reader(&self, py: Python<'_>, known: u64, limit: Duration) -> PyResult<()> {
        py.detach(|| self.reading.wait(known, limit));
        py.check_signals()
    }

    /// Submits the first items. For a short function these are more than the steady window, so that the workers do not
    /// run out of tasks at once.
    fn begin(&self, py: Python<'_>, window: usize) -> PyResult<()> {
        let executor = self.executor(py)?;
        let engine = executor.get();
        // This comes before any item is read: a function that cannot be called or sent is refused at once.
        let function = engine.function_id(py, self.function.as_ptr())?;
        let first = window.min(STEADY_WINDOW);
        self.read_first(py, first)?;
        let at_once = engine.running_client(py)?.batch_size(function.id) as usize;
        // A long or unknown function gives no results meanwhile, and they may be large.
        let more = if at_once > 1 { window / at_once } else { 0 };
        self.read_first(py, more.saturating_sub(first))
    }

    fn read_first(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        match self.read(py, count)? {
            Read::Enough => Ok(()),
            Read::Full(error) | Read::Refused(error) => Err(error),
        }
    }

    /// Reads up to `count` items, unless another thread is reading.
    fn read(&self, py: Python<'_>, count: usize) -> PyResult<Read> {
        if count > 0
            && let ReadTurn::Given(source) = self.reading.claim(py)
        {
            return self.read_with(py, source, count);
        }
        Ok(Read::Enough)
    }

    /// Reads up to `count` items of the claimed source, and returns the source.
    ///
    /// # Errors
    /// An exception that is not an item's own, such as `KeyboardInterrupt` or `SystemExit`.
    fn read_with(
        &self,
        py: Python<'_>,
        mut source: Box<ItemSource>,
        count: usize,
    ) -> PyResult<Read> {
        let read = self.read_from(py, &mut source, count);
        let is_exhausted = source.is_exhausted();
        let rest = self.reading.give_back(py, source);
        if is_exhausted || rest.is_some() {
            self.flow.with(py, |flow| flow.is_exhausted = true);
            self.release_executor(py);
        }
        drop(rest);
        read
    }

    /// Returns the executor, for the submission of items.
    ///
    /// # Errors
    /// `ShutDownError` if all items are submitted, or the map was closed.
    fn executor(&self, py: Python<'_>) -> PyResult<Py<Engine>> {
        let executor =
            self.executor.with(py, |executor| executor.as_ref().map(|one| one.clone_ref(py)));
        executor.ok_or_else(|| error::shut_down(py))
    }

    /// Lets go of the executor, which may be the last reference to it. The options of tasks name a context, which their
    /// source keeps, and the executor with it.
    fn release_executor(&self, py: Python<'_>) {
        if self._owner.is_none() {
            // Dropped outside the closure: the end of an executor runs Python code.
            let executor = self.executor.with(py, Option::take);
            drop(executor);
        }
    }
}

/// The part that reads items and submits them. Only the thread that has claimed the source runs it.
impl MapResults {
    fn read_from(
        &self,
        py: Python<'_>,
        source: &mut ItemSource,
        mut left: usize,
    ) -> PyResult<Read> {
        let executor = self.executor(py)?;
        let engine = executor.get();
        let client = engine.running_client(py)?;
        let arena = client.arena();
        let has_nodes = engine.settings()?.has_nodes;
        while left > 0 && !source.is_exhausted() {
            let is_pressed = arena.is_pressed();
            // The number of workers changes when nodes join or leave.
            let workers = has_nodes.then(|| client.node_workers());
            if self.flow.with(py, |flow| flow.is_stopped_for(workers, is_pressed)) {
                break;
            }
            let mut function = match engine.function_id(py, self.function.as_ptr()) {
                Ok(function) => function,
                Err(error) => return Ok(Read::Refused(of_item(py, error)?)),
            };
            // Reading items may run Python code.
            function.hold(engine.running_client(py)?);
            let count = BATCH.min(left);
            match self.read_batch(py, source, function.id, count)? {
                Read::Enough => left -= count,
                stopped => return Ok(stopped),
            }
        }
        Ok(Read::Enough)
    }

    /// Reads up to `count` items and submits them.
    fn read_batch(
        &self,
        py: Python<'_>,
        source: &mut ItemSource,
        function: FunctionId,
        count: usize,
    ) -> PyResult<Read> {
        let ready = source.batch.len() - source.submitted;
        for _ in ready..count {
            let Some(item) = next_item(py, source)? else { break };
            if self.encode_item(source, &item) {
                source.batch.finish_call();
                continue;
            }
            source.batch.abandon_call();
            // This item comes behind those of the batch, which are submitted first.
            match self.submit(py, source, function)? {
                Read::Enough => {}
                stopped => {
                    source.held = Some(item.into_bound(py).unbind());
                    return Ok(stopped);
                }
            }
            let executor = self.executor(py)?;
            let before = executor.get().passed_bytes();
            match self.submit_slowly(py, &item) {
                Ok(task) => {
                    let size = executor.get().passed_bytes() - before;
                    if self.flow.with(py, |flow| flow.submitted_one(task, size)) {
                        break;
                    }
                }
                Err(error) => match self.refused(py, error) {
                    Ok(Some(stopped)) => {
                        source.held = Some(item.into_bound(py).unbind());
                        return Ok(stopped);
                    }
                    Ok(None) => {
                        if self.flow.with(py, |flow| flow.is_stopped(false)) {
                            break;
                        }
                    }
                    Err(error) => {
                        source.held = Some(item.into_bound(py).unbind());
                        return Err(error);
                    }
                },
            }
        }
        let submitted = self.submit(py, source, function)?;
        if matches!(submitted, Read::Enough)
            && let Some(error) = source.last.take()
        {
            self.fail(py, error);
        }
        Ok(submitted)
    }

    /// Appends one item to the batch. Returns false if it has no native form, or has parts that belong in the arena.
    fn encode_item(&self, source: &mut ItemSource, item: &Owned) -> bool {
        let out = source.batch.buffer();
        if self.options.is_some_and(|options| options.views) {
            return false;
        }
        let mut large = NoLargeParts;
        let sinks = (&self.results.arrays, &mut large as &mut dyn BlockSink);
        // SAFETY: the interpreter is held and the item is live; a tuple has as many items as its size says.
        unsafe {
            let encoded = if self.unpacks {
                let count = ffi::PyTuple_Size(item.as_ptr());
                let values: Vec<_> =
                    (0..count).map(|place| ffi::PyTuple_GetItem(item.as_ptr(), place)).collect();
                encode_call(&values, &[], &mut (), out, sinks)
            } else {
                encode_call(&[item.as_ptr()], &[], &mut (), out, sinks)
            };
            encoded == EncodeResult::Native
        }
    }

    fn submit_slowly(&self, py: Python<'_>, item: &Owned) -> PyResult<TaskId> {
        let executor = self.executor(py)?;
        let engine = executor.get();
        let mut arguments = Vec::new();
        // SAFETY: the function and the item are live; a tuple has as many items as its size says.
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

    /// Submits the batch. Waits for room if the engine has a limit and blocks when it is full.
    fn submit(
        &self,
        py: Python<'_>,
        source: &mut ItemSource,
        function: FunctionId,
    ) -> PyResult<Read> {
        let executor = self.executor(py)?;
        let engine = executor.get();
        let client = engine.running_client(py)?;
        let options = self.options.as_ref().map(|options| &options.task);
        while source.submitted < source.batch.len() {
            let place = (&source.batch, source.submitted);
            let (submitted, refusal) = self.flow.with(py, |flow| {
                let outcome = client.submit_batch(function, options, place, &mut flow.pending);
                let (next, refusal) = match outcome {
                    Ok(()) => (source.batch.len(), None),
                    Err((next, refusal)) => (next, Some(refusal)),
                };
                flow.submitted(next - source.submitted);
                (next, refusal)
            });
            source.submitted = submitted;
            let Some(refusal) = refusal else { break };
            let is_full = refusal.is_retryable();
            if is_full && engine.settings()?.block_when_full {
                engine.wait_for_room(py, client, refusal)?;
            } else {
                let error = error::submit(py, refusal);
                return Ok(if is_full { Read::Full(error) } else { Read::Refused(error) });
            }
        }
        let (count, size) = (source.batch.len(), source.batch.size());
        self.flow.with(py, |flow| flow.note_batch(count, size));
        source.batch.clear();
        source.submitted = 0;
        Ok(Read::Enough)
    }

    /// Handles an error of submission. Returns it if it is the engine's; records it as the item's result otherwise.
    ///
    /// # Errors
    /// The exception itself, if it is neither the engine's nor the item's.
    fn refused(&self, py: Python<'_>, error: PyErr) -> PyResult<Option<Read>> {
        if error::is_a(py, &error, &["LimitReachedError"]) {
            return Ok(Some(Read::Full(error)));
        }
        let of_engine = ["ShutDownError", "StartError", "LeaseExpiredError", "ForkedProcessError"];
        if error::is_a(py, &error, &of_engine) || error::is_a(py, &error, &["ResourceError"]) {
            return Ok(Some(Read::Refused(error)));
        }
        let error = of_item(py, error)?;
        self.fail(py, error);
        Ok(None)
    }

    /// Records the failure of the next item.
    fn fail(&self, py: Python<'_>, error: PyErr) {
        let unheard = self.flow.with(py, |flow| flow.failed(error));
        if let Some(error) = unheard {
            report(py, error, None);
        }
    }

    /// Records the result of a reading: a refusal by the engine comes behind the results of the items before it.
    fn note(&self, py: Python<'_>, read: Read) {
        let Read::Refused(error) = read else { return };
        self.fail(py, error);
        let rest = self.reading.close(py);
        self.flow.with(py, |flow| flow.is_exhausted = true);
        drop(rest);
    }
}

/// The part that ends a map.
impl MapResults {
    /// Drops everything. Submitted tasks run on; with `cancels`, those that have not started are cancelled.
    fn forget(&self, py: Python<'_>, cancels: bool) {
        let source = self.reading.close(py);
        let client = self.results.client();
        let errors = self.flow.with(py, |flow| {
            match client {
                Some(client) => client.drop_pending(&mut flow.pending, cancels),
                None => flow.pending.clear(),
            }
            flow.forget()
        });
        drop((source, errors));
    }

    /// Submits all items of a map that is dropped before a result was requested. Reports the items that cannot be sent.
    fn submit_unheard(&self, py: Python<'_>) {
        let unheard = self.flow.with(py, |flow| flow.hear_no_more());
        unheard.into_iter().for_each(|error| report(py, error, None));
        if self.ends == Some(false) {
            return;
        }
        self.flow.with(py, |flow| flow.reads_all = true);
        let ReadTurn::Given(source) = self.reading.claim(py) else { return };
        if let Err(error) = self.read_with(py, source, usize::MAX) {
            report(py, error, None);
        }
    }
}

impl Drop for MapResults {
    fn drop(&mut self) {
        let attached = Python::try_attach(|py| {
            undisturbed(py, || {
                let is_begun = self.flow.with(py, |flow| flow.is_begun);
                if !is_begun && !self.results.is_orphan() {
                    self.submit_unheard(py);
                }
                self.forget(py, is_begun);
            });
        });
        debug_assert!(attached.is_some(), "a destructor runs while the interpreter lives");
    }
}

/// Reads one item, or takes the item that was held back.
///
/// # Errors
/// An exception that does not concern the items. Any other exception of the iterator is stored in the source.
fn next_item(py: Python<'_>, source: &mut ItemSource) -> PyResult<Option<Owned>> {
    if let Some(item) = source.held.take() {
        return Ok(Some(Owned::from_bound(item.into_bound(py))));
    }
    let Some(items) = &source.items else { return Ok(None) };
    // SAFETY: `items` is a live iterator; null means its end or an exception.
    let item = unsafe { ffi::PyIter_Next(items.as_ptr()) };
    if !item.is_null() {
        return Owned::or_raise(py, item).map(Some);
    }
    let raised = PyErr::take(py).map(|error| of_item(py, error)).transpose()?;
    source.last = raised;
    source.items = None;
    Ok(None)
}

/// Returns the error as an item's own, to be raised when its result is requested.
///
/// # Errors
/// The exception itself, if it concerns the program and not the item: `KeyboardInterrupt`, `SystemExit`.
fn of_item(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    if error.is_instance_of::<PyException>(py) { Ok(error) } else { Err(error) }
}

/// A sink that takes no large parts, so that encoding reports them.
struct NoLargeParts;

impl BlockSink for NoLargeParts {
    unsafe fn store(&mut self, _data: *const u8, _size: usize, _is_readonly: bool) -> Option<u32> {
        None
    }
}
