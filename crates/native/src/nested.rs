//! Tasks that tasks submit, in the worker: the native half of `gristmill._nested`.
//!
//! All of it happens on the thread that runs tasks; other threads of a task, and processes that it forks, are told that
//! there is no executor for them.

mod context;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gristmill_sync::atomic::{AtomicU32, Ordering};
use gristmill_sync::clock::monotonic_ns;
use gristmill_wire::{ContextId, FunctionId, NestedOptions, NestedRequest, ReplyKind, TaskId};
use gristmill_worker::{Dropped, Outcome, WaitEnd, WaitMode, Worker, WorkerEnd};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::callee::PythonCallee;
use crate::codec::{Encoded, ParentSink, decode_value, encode_call, malformed};
use crate::engine::{OptionValues, demand, nanoseconds, pickle};
use crate::error;
use crate::function::FunctionTable;
use crate::object::tuple_items;
use crate::parents::ParentPlaces;
use crate::raw::optional_seconds;

pub use self::context::{NestedContext, nested_define_context};

type PythonWorker = Worker<PythonCallee>;

thread_local! {
    /// The worker that runs tasks on this thread, and the process it is.
    static WORKER: RefCell<Option<(u32, Rc<PythonWorker>)>> = const { RefCell::new(None) };
}

/// Tickets whose futures are gone, and contexts: any thread may drop one. The count is a hint, read without the lock.
static DROPPED: Mutex<Dropped> = Mutex::new(Dropped { tickets: Vec::new(), contexts: Vec::new() });
static DROPPED_COUNT: AtomicU32 = AtomicU32::new(0);

/// Makes a worker the one of this thread.
pub fn set_worker(worker: &Rc<PythonWorker>) {
    WORKER.set(Some((std::process::id(), Rc::clone(worker))));
}

/// What was dropped, if that is `at_least` so much.
pub fn take_dropped(at_least: usize) -> Dropped {
    // Relaxed without a partner: the list itself is under its lock, and one that is missed now is taken next time.
    if (DROPPED_COUNT.load(Ordering::Relaxed) as usize) < at_least {
        return Dropped::default();
    }
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    DROPPED_COUNT.store(0, Ordering::Relaxed); // as above
    std::mem::take(&mut *dropped)
}

/// Notes what nobody holds any more.
fn drop_one(note: impl FnOnce(&mut Dropped)) {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    note(&mut dropped);
    let count = u32::try_from(dropped.count()).unwrap_or(u32::MAX);
    DROPPED_COUNT.store(count, Ordering::Relaxed); // as in `take_dropped`
}

/// The worker of this thread and the task that it runs.
fn current() -> PyResult<(Rc<PythonWorker>, TaskId)> {
    let worker = WORKER.with_borrow(|worker| {
        let (process, worker) = worker.as_ref()?;
        (*process == std::process::id()).then(|| Rc::clone(worker))
    });
    worker.and_then(|worker| worker.current_task().map(|task| (worker, task))).ok_or_else(|| {
        PyRuntimeError::new_err(
            "there is no current executor: tasks submit and wait for tasks in the thread that runs them, \
             not elsewhere",
        )
    })
}

fn broken(end: WorkerEnd) -> PyErr {
    PyRuntimeError::new_err(format!("this worker has lost its client: {end}"))
}

/// The base class of nested futures: the name of one task that a task submitted.
#[pyclass(subclass, frozen, module = "gristmill._native")]
pub struct Ticket {
    number: u32,
}

#[pymethods]
impl Ticket {
    #[new]
    fn new(number: u32) -> Self {
        Self { number }
    }

    #[getter]
    fn _ticket(&self) -> u32 {
        self.number
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop_one(|dropped| dropped.tickets.push(self.number));
    }
}

/// The functions that tasks of this worker submit: numbers of its own, which the client is told.
struct Submitted<'a>(&'a PythonWorker);

impl FunctionTable for Submitted<'_> {
    fn define(&self, definition: &[u8], name: &str) -> FunctionId {
        let next = &self.0.callee().next_function;
        let function = next.replace(next.get().wrapping_add(1));
        // A ring that cannot be written to shows itself again at the submission that follows.
        let _ = self.0.request(&NestedRequest::Define { function, name, definition });
        FunctionId(function)
    }

    fn forget(&self, function: FunctionId) {
        let _ = self.0.request(&NestedRequest::Forget { function: function.0 });
    }
}

/// The nested futures among the arguments of one call.
struct NestedParents(ParentPlaces<u32>);

impl ParentSink for NestedParents {
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u16> {
        // SAFETY: encoding happens with the interpreter held, on live objects.
        let object = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
        let ticket = object.cast::<Ticket>().ok()?.get().number;
        self.0.place(ticket)
    }
}

/// `RuntimeError` unless a task runs on this thread.
#[pyfunction]
pub fn nested_check() -> PyResult<()> {
    current().map(drop)
}

/// The options as `Executor.options` has them. Views change nothing here: what a task gets from its tasks it reads in place.
fn nested_options(values: OptionValues, context: ContextId) -> PyResult<NestedOptions> {
    let (timeout, deadline, retries, loss_retries, timeout_retries, priority, grace, _, needs) =
        values;
    let after = |ns: u64| monotonic_ns().saturating_add(ns);
    Ok(NestedOptions {
        timeout_ns: nanoseconds("timeout", timeout)?.unwrap_or(u64::MAX),
        deadline_ns: nanoseconds("deadline", deadline)?.map_or(u64::MAX, after),
        grace_ns: nanoseconds("grace", Some(grace))?.unwrap_or(u64::MAX),
        budgets: [retries, loss_retries, timeout_retries],
        priority,
        demand: demand(needs),
        context,
    })
}

/// Checks options as a submission would; so that wrong ones are found where they are made.
#[pyfunction]
pub fn nested_check_options(values: OptionValues) -> PyResult<()> {
    nested_options(values, ContextId(0)).map(drop)
}

/// Submits a call from the running task; gives its ticket. A context comes with options.
#[pyfunction]
#[pyo3(signature = (function, arguments, named, options, context=None))]
pub fn nested_submit(
    function: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
    named: &Bound<'_, PyDict>,
    options: Option<OptionValues>,
    context: Option<&Bound<'_, NestedContext>>,
) -> PyResult<u32> {
    let py = function.py();
    let (worker, task) = current()?;
    worker.release_many().map_err(broken)?;
    let context = context.map_or(ContextId(0), |one| one.get().number);
    let options = options.map(|values| nested_options(values, context)).transpose()?;
    let callee = worker.callee();
    let known = callee.submitted.borrow_mut().find(py, function.as_ptr());
    let id = match known {
        Some(id) => id,
        None => {
            let described = crate::function::describe(function)?;
            let inserted = callee.submitted.borrow_mut().insert(described, &Submitted(&worker));
            drop(inserted.1);
            inserted.0
        }
    };
    let (payload, parents) = encode(py, callee, arguments, named)?;
    let ticket = worker.open_ticket().ok_or_else(|| error::broken("no task runs"))?;
    let request = NestedRequest::Submit {
        ticket,
        parent: task,
        function: id.0,
        options,
        arguments: parents,
        payload: &payload,
    };
    worker.request(&request).map_err(broken)?;
    Ok(ticket)
}

/// Encodes a call; gives the bytes, and the tickets of the futures among the arguments.
fn encode(
    py: Python<'_>,
    callee: &PythonCallee,
    arguments: &Bound<'_, PyTuple>,
    named: &Bound<'_, PyDict>,
) -> PyResult<(Vec<u8>, Vec<u32>)> {
    let (keys, values) = (named.keys().to_tuple(), named.values());
    // SAFETY: `keys` is a tuple and stays alive.
    let names = unsafe { tuple_items(keys.as_ptr()) };
    let all: Vec<Bound<'_, PyAny>> = arguments.iter().chain(values.iter()).collect();
    let all: Vec<*mut ffi::PyObject> = all.iter().map(Bound::as_ptr).collect();
    let mut payload = Vec::with_capacity(64);
    let mut parents = NestedParents(ParentPlaces::new());
    // SAFETY: the tuple and the lists keep the values alive; encoding natively runs no Python code.
    let encoded =
        unsafe { encode_call(&all, names, &mut parents, &mut payload, (&callee.arrays, &mut ())) };
    if encoded == Encoded::Foreign {
        payload.clear();
        parents = NestedParents(ParentPlaces::new());
        // SAFETY: as above.
        let places = (&mut payload, &mut () as _);
        // SAFETY: as above.
        if !unsafe { pickle(py, &all, names, &mut parents, places)?.1 } {
            return Err(PyTypeError::new_err("only futures of this task's tasks can be arguments"));
        }
    }
    Ok((payload, parents.0.into_keys()))
}

/// A wait without any time is a look.
fn mode_within(timeout: Option<Duration>) -> WaitMode {
    if timeout.is_some_and(|timeout| timeout.is_zero()) { WaitMode::Looks } else { WaitMode::Runs }
}

/// Waits until `done`; false when the time is over.
fn wait(
    py: Python<'_>,
    worker: &PythonWorker,
    mode: WaitMode,
    timeout: Option<Duration>,
    done: &mut dyn FnMut() -> bool,
) -> PyResult<bool> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    match worker.wait(mode, end, done).map_err(broken)? {
        WaitEnd::Done => Ok(true),
        WaitEnd::TimedOut => Ok(false),
        WaitEnd::Raised => Err(PyErr::fetch(py)),
        WaitEnd::Interrupted => Err(error::interrupted(py)),
        WaitEnd::Stopped => Err(PyRuntimeError::new_err("this worker was told to leave")),
    }
}

/// A task can wait for what it submitted itself: what waits for what is a tree, and nothing hangs.
fn own(worker: &PythonWorker, task: TaskId, ticket: u32) -> PyResult<()> {
    if worker.is_final(ticket) || worker.owner(ticket) == Some(task) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "a task can wait only for tasks that it submitted itself; this future is another task's",
    ))
}

/// How a ticket's task ended; waits for that.
fn outcome(
    py: Python<'_>,
    worker: &PythonWorker,
    task: TaskId,
    ticket: u32,
    timeout: &Bound<'_, PyAny>,
) -> PyResult<Outcome> {
    if let Some(outcome) = worker.outcome(ticket) {
        return Ok(outcome);
    }
    own(worker, task, ticket)?;
    let timeout = optional_seconds(timeout)?;
    if !wait(py, worker, mode_within(timeout), timeout, &mut || worker.is_final(ticket))? {
        return Err(PyTimeoutError::new_err(()));
    }
    worker.outcome(ticket).ok_or_else(|| error::broken("a ticket was closed that has a future"))
}

/// Waits for a ticket's task: its value. `None` for `timeout` is without end.
///
/// # Errors
/// What it raised or became; `TimeoutError`.
#[pyfunction]
pub fn nested_result(
    ticket: &Bound<'_, Ticket>,
    timeout: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let py = ticket.py();
    let (worker, task) = current()?;
    let outcome = outcome(py, &worker, task, ticket.get().number, timeout)?;
    let (kind, bytes) = &*outcome;
    if *kind == ReplyKind::Value {
        let callee = worker.callee();
        let (&is_descriptor, bytes) = bytes.split_first().ok_or_else(short)?;
        let (blocks, bytes) = callee.open(bytes, is_descriptor != 0)?;
        let value = decode_value(py, bytes, &mut (), &callee.arrays, &blocks)?;
        return Ok(value.into_bound(py).unbind());
    }
    Err(raised(py, *kind, bytes))
}

/// Waits for a ticket's task: what it raised or became, or `None`.
///
/// # Errors
/// `CancelledError`, `TimeoutError`.
#[pyfunction]
pub fn nested_exception(
    ticket: &Bound<'_, Ticket>,
    timeout: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let py = ticket.py();
    let (worker, task) = current()?;
    let outcome = outcome(py, &worker, task, ticket.get().number, timeout)?;
    let (kind, bytes) = &*outcome;
    match kind {
        ReplyKind::Value => Ok(py.None()),
        ReplyKind::Cancelled => Err(error::cancelled(py)),
        _ => Ok(raised(py, *kind, bytes).into_value(py).into_any()),
    }
}

/// How a ticket's task ended: 0 is not yet, 1 a value, 2 an exception, 3 cancelled; takes in news first if `looks`.
#[pyfunction]
pub fn nested_state(py: Python<'_>, ticket: u32, looks: bool) -> PyResult<u8> {
    let (worker, task) = current()?;
    if looks && !worker.is_final(ticket) && worker.owner(ticket) == Some(task) {
        wait(py, &worker, WaitMode::Looks, Some(Duration::ZERO), &mut || worker.is_final(ticket))?;
    }
    Ok(worker.outcome(ticket).map_or(0, |outcome| match outcome.0 {
        ReplyKind::Value => 1,
        ReplyKind::Cancelled => 3,
        _ => 2,
    }))
}

/// Cancels a ticket's task, with a grace time also if it runs.
#[pyfunction]
pub fn nested_cancel(
    py: Python<'_>,
    ticket: u32,
    grace: Option<&Bound<'_, PyAny>>,
) -> PyResult<bool> {
    let (worker, _) = current()?;
    if let Some(outcome) = worker.outcome(ticket) {
        return Ok(outcome.0 == ReplyKind::Cancelled);
    }
    let grace = grace.map(optional_seconds).transpose()?.flatten();
    let grace_ns = grace.map(|grace| u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX));
    worker.request(&NestedRequest::Cancel { ticket, grace_ns }).map_err(broken)?;
    wait(py, &worker, WaitMode::Reads, None, &mut || worker.has_cancel_answer(ticket))?;
    let is_cancelled = worker.outcome(ticket).is_some_and(|end| end.0 == ReplyKind::Cancelled);
    Ok(worker.take_cancel_answer(ticket).unwrap_or(false) || is_cancelled)
}

/// Has `gristmill._nested._completed` called with the ticket; false when its task has ended.
#[pyfunction]
pub fn nested_watch(ticket: u32) -> PyResult<bool> {
    let (worker, task) = current()?;
    own(&worker, task, ticket)?;
    Ok(worker.watch(ticket))
}

/// Waits until `is_done()` is true; whether it is.
#[pyfunction]
pub fn nested_wait(is_done: &Bound<'_, PyAny>, timeout: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (worker, _) = current()?;
    let timeout = optional_seconds(timeout)?;
    let mut failure = None;
    let mut done = || match is_done.call0().and_then(|value| value.is_truthy()) {
        Ok(value) => value,
        Err(error) => {
            failure = Some(error);
            true
        }
    };
    let is_done = wait(is_done.py(), &worker, mode_within(timeout), timeout, &mut done)?;
    failure.map_or(Ok(is_done), Err)
}

/// The exception for an outcome that is no value.
fn raised(py: Python<'_>, kind: ReplyKind, bytes: &[u8]) -> PyErr {
    let class = match kind {
        // Behind its first byte; an exception has no blocks.
        ReplyKind::Raised => return error::remote(py, bytes.get(1..).unwrap_or_default()),
        ReplyKind::Cancelled => return error::cancelled(py),
        ReplyKind::DependencyFailed => {
            return dependency_failed(py, bytes).unwrap_or_else(|error| error);
        }
        ReplyKind::TimedOut => "TaskTimeout",
        ReplyKind::Lost => "WorkerLost",
        ReplyKind::StartFailed => "StartError",
        ReplyKind::ContextFailed => "ContextError",
        ReplyKind::LimitReached => "LimitReached",
        ReplyKind::ShutDown => "ShutDownError",
        ReplyKind::Refused | ReplyKind::Value | ReplyKind::CancelAnswer => "GristmillError",
    };
    error::named(py, class, &String::from_utf8_lossy(bytes))
}

fn short() -> PyErr {
    malformed("a reply ends too early")
}

fn dependency_failed(py: Python<'_>, bytes: &[u8]) -> PyResult<PyErr> {
    let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let (text, rest) =
        rest.split_at_checked(u32::from_le_bytes(*size) as usize).ok_or_else(short)?;
    let (&kind, root) = rest.split_first().ok_or_else(short)?;
    let kind = ReplyKind::from_byte(kind).map_err(|error| malformed(&error.to_string()))?;
    let failed = error::named(py, "DependencyFailed", &String::from_utf8_lossy(text));
    failed.set_cause(py, Some(raised(py, kind, root)));
    Ok(failed)
}
