//! Tasks that tasks submit, in the worker: the native half of `gristmill._nested`.
//!
//! All of this runs on the thread that runs tasks, except the drop of tickets and contexts, which may happen on any
//! thread. Other threads of a task, and processes that it forks, get an error that there is no executor for them.

mod context;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gristmill_sync::atomic::{AtomicU32, Ordering};
use gristmill_sync::clock::monotonic_ns;
use gristmill_wire::{
    ContextId, FunctionId, NestedOptions, NestedRequest, Refusal, ReplyKind, TaskId,
};
use gristmill_worker::{Dropped, NestedTaskOutcome, WaitEnd, WaitMode, Worker, WorkerEnd};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arena::WorkerSink;
use crate::callee::{PythonCallee, finish};
use crate::codec::{BlockSink, EncodeResult, ParentSink, decode_value, encode_call, malformed};
use crate::engine::{OptionFields, nanoseconds, pickle};
use crate::error;
use crate::function::FunctionTable;
use crate::object::tuple_items;
use crate::parents::ParentIndices;
use crate::raw::optional_seconds;
use crate::throw_barrier::under_barrier;

pub use self::context::{NestedContext, nested_define_context};

type PythonWorker = Worker<PythonCallee>;

thread_local! {
    /// The worker that runs tasks on this thread.
    static WORKER: RefCell<Option<Rc<PythonWorker>>> = const { RefCell::new(None) };
}

/// Tickets and contexts without references, which any thread may drop. The count is a hint, read without the lock.
static DROPPED: Mutex<Dropped> = Mutex::new(Dropped { tickets: Vec::new(), contexts: Vec::new() });
static DROPPED_COUNT: AtomicU32 = AtomicU32::new(0);

/// Sets the worker of this thread.
pub fn set_worker(worker: &Rc<PythonWorker>) {
    WORKER.set(Some(Rc::clone(worker)));
}

/// Takes the worker of this thread away, because its loop has ended.
pub fn take_worker() -> Option<Rc<PythonWorker>> {
    WORKER.take()
}

/// Returns whether memory belongs to an argument of a task on this thread, which sees it read-only.
pub fn is_lent(data: *const u8, size: usize) -> bool {
    WORKER.with_borrow(|worker| {
        worker.as_ref().is_some_and(|worker| worker.callee().is_lent(data, size))
    })
}

/// Takes the numbers of the dropped tickets and contexts, if there are at least `at_least` of them.
pub fn take_dropped(at_least: usize) -> Dropped {
    // Relaxed: the list itself is under its lock, and an entry missed now is taken next time.
    if (DROPPED_COUNT.load(Ordering::Relaxed) as usize) < at_least {
        return Dropped::default();
    }
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    DROPPED_COUNT.store(0, Ordering::Relaxed); // as above
    std::mem::take(&mut *dropped)
}

/// Records the number of a dropped ticket or context.
fn drop_one(note: impl FnOnce(&mut Dropped)) {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    note(&mut dropped);
    let count = u32::try_from(dropped.count()).unwrap_or(u32::MAX);
    DROPPED_COUNT.store(count, Ordering::Relaxed); // as in `take_dropped`
}

/// Drops the outcome of a ticket whose future is gone, if this is the thread that runs tasks. Otherwise the worker
/// drops the outcome when it reports the dropped ticket to the client.
fn drop_outcome(ticket: u32) {
    // A future may outlive the thread's variables.
    let _ = WORKER.try_with(|worker| {
        if let Ok(worker) = worker.try_borrow()
            && let Some(worker) = &*worker
        {
            worker.drop_outcome(ticket);
        }
    });
}

/// Returns the worker of this thread; `None` in other threads, and in processes that it forked.
pub fn this_worker() -> Option<Rc<PythonWorker>> {
    WORKER.with_borrow(Clone::clone).filter(|worker| !worker.is_forked())
}

/// Returns the worker of this thread and the task that it runs.
fn current() -> PyResult<(Rc<PythonWorker>, TaskId)> {
    let worker = WORKER.with_borrow(Clone::clone);
    if worker.as_ref().is_some_and(|worker| worker.is_forked()) {
        return Err(forked());
    }
    worker.and_then(|worker| worker.current_task().map(|task| (worker, task))).ok_or_else(|| {
        PyRuntimeError::new_err(
            "there is no current executor: only the thread that runs a task can submit tasks and wait for \
             them",
        )
    })
}

#[cold]
fn forked() -> PyErr {
    let text = "a task forked this process, which has no executor: tasks are submitted and waited for in the process that \
                runs the task";
    Python::attach(|py| error::named(py, "ForkedProcessError", text))
}

fn broken(end: WorkerEnd) -> PyErr {
    if end == WorkerEnd::Forked {
        return forked();
    }
    PyRuntimeError::new_err(format!("this worker has lost its client: {end}"))
}

/// The base class of nested futures: the number of one task that a task submitted.
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
        drop_outcome(self.number);
        drop_one(|dropped| dropped.tickets.push(self.number));
    }
}

/// The worker's table of the functions that its tasks submit: it assigns their numbers, and announces them to the
/// client. `NestedSubmissions::functions` is the identity cache in front of this table.
struct Submitted<'a>(&'a PythonWorker);

impl FunctionTable for Submitted<'_> {
    fn define(&self, definition: &[u8], name: &str) -> FunctionId {
        let next = &self.0.callee().nested.next_function;
        let function = next.replace(next.get().wrapping_add(1));
        // If the ring cannot be written to, the submission that follows reports that.
        let _ = self.0.request(&NestedRequest::Define { function, name, definition });
        FunctionId(function)
    }

    fn forget(&self, function: FunctionId) {
        let _ = self.0.request(&NestedRequest::Forget { function: function.0 });
    }
}

/// The nested futures among the arguments of one call.
struct NestedParents(ParentIndices<u32>);

impl ParentSink for NestedParents {
    fn parent(&mut self, object: *mut ffi::PyObject) -> Option<u32> {
        // SAFETY: the interpreter is held during encoding, and the objects are live.
        let object = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), object) };
        let ticket = object.cast::<Ticket>().ok()?.get().number;
        self.0.index_of(ticket)
    }
}

/// Raises `RuntimeError` unless a task runs on this thread.
#[pyfunction]
pub fn nested_check() -> PyResult<()> {
    current().map(drop)
}

/// The decoded fields of a `gristmill.TaskOptions`, for tasks that this worker's tasks submit. `views` has no effect on them: a
/// task reads the results of its tasks in place.
#[pyclass(frozen, module = "gristmill._native")]
pub struct NestedTerms {
    options: NestedOptions,
    /// Time from the submission on.
    deadline_ns: Option<u64>,
}

#[pymethods]
impl NestedTerms {
    #[new]
    fn new(options: OptionFields) -> PyResult<Self> {
        let budgets = options.budgets();
        let terms = NestedOptions {
            timeout_ns: nanoseconds("timeout", options.timeout)?.unwrap_or(u64::MAX),
            deadline_ns: u64::MAX,
            grace_ns: nanoseconds("grace", Some(options.grace))?.unwrap_or(u64::MAX),
            budgets: [budgets.retries, budgets.loss_retries, budgets.timeout_retries],
            priority: options.priority,
            demand: options.demand(),
            context: ContextId(0),
        };
        Ok(Self { options: terms, deadline_ns: nanoseconds("start_within", options.start_within)? })
    }
}

impl NestedTerms {
    /// Returns the options of a task that is submitted now.
    fn now(&self, context: ContextId) -> NestedOptions {
        let after = |ns: u64| monotonic_ns().saturating_add(ns);
        let deadline_ns = self.deadline_ns.map_or(u64::MAX, after);
        NestedOptions { deadline_ns, context, ..self.options }
    }
}

/// Submits a call from the running task, and returns its ticket. Without `options`, ignores the context.
#[pyfunction]
#[pyo3(signature = (function, arguments, named, options, context=None))]
pub fn nested_submit(
    function: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
    named: &Bound<'_, PyDict>,
    options: Option<&Bound<'_, NestedTerms>>,
    context: Option<&Bound<'_, NestedContext>>,
) -> PyResult<u32> {
    let py = function.py();
    let (worker, task) = current()?;
    // Reports dropped tickets and contexts to the client, if there are enough of them.
    worker.release_many().map_err(broken)?;
    let context = context.map_or(ContextId(0), |one| one.get().number);
    let options = options.map(|terms| terms.get().now(context));
    let callee = worker.callee();
    // The arguments are encoded before the function is looked up: pickling them may run Python code that makes the
    // function's number invalid.
    let mut sink = callee.sink();
    let EncodedCall { mut payload, parents, needing } =
        encode(callee, function, (arguments, named), &mut sink)?;
    let function = needing.as_ref().unwrap_or(function);
    // The steps that can fail come first. The later ones open a ticket and take a use of the function, and the client
    // takes over both only with a request that was sent.
    let size = sink.size() + payload.len() as u64;
    let is_arena = finish(py, sink, 0, &mut payload)?;
    let known = callee.nested.functions.with(py, |functions| functions.find(py, function.as_ptr()));
    let (id, has_use) = match known {
        Some(id) => (id, false),
        None => {
            let described = crate::function::describe(function, &callee.nested.functions)?;
            let table = Submitted(&worker);
            let inserted =
                callee.nested.functions.with(py, |functions| functions.insert(described, &table));
            (inserted.id, inserted.has_use)
        }
    };
    // This does not fail: `current` has found a running task.
    let ticket = worker.open_ticket().ok_or_else(|| error::broken("no task runs"))?;
    let request = NestedRequest::Submit {
        ticket,
        parent: task,
        function: id.0,
        options,
        arguments: parents,
        payload: &payload,
        is_arena,
    };
    let requested = worker.request(&request).map_err(broken);
    if has_use {
        Submitted(&worker).forget(id);
    }
    requested?;
    let sizes = &callee.nested.last_sizes;
    sizes.set((size, sizes.get().1));
    Ok(ticket)
}

/// Returns the bytes of the last result that a task of this worker fetched, or of the arguments of the last submission;
/// zero for less than a kilobyte.
#[pyfunction]
pub fn nested_size(of_result: bool) -> u64 {
    let (arguments, result) = WORKER.with_borrow(|worker| {
        worker.as_ref().map_or((0, 0), |worker| worker.callee().nested.last_sizes.get())
    });
    let size = if of_result { result } else { arguments };
    if size < 1 << 10 { 0 } else { size }
}

/// A call for the client.
struct EncodedCall<'py> {
    payload: Vec<u8>,
    /// The tickets of the futures among the arguments.
    parents: Vec<u32>,
    /// The callable that stands for the function, if the arguments need something.
    needing: Option<Bound<'py, PyAny>>,
}

fn encode<'py>(
    callee: &PythonCallee,
    function: &Bound<'py, PyAny>,
    (arguments, named): (&Bound<'py, PyTuple>, &Bound<'py, PyDict>),
    sink: &mut WorkerSink<'_>,
) -> PyResult<EncodedCall<'py>> {
    let py = function.py();
    let mut needing = None;
    let (keys, values) = (named.keys().to_tuple(), named.values());
    // SAFETY: `keys` is a tuple and stays alive.
    let names = unsafe { tuple_items(keys.as_ptr()) };
    let all: Vec<Bound<'_, PyAny>> = arguments.iter().chain(values.iter()).collect();
    let all: Vec<*mut ffi::PyObject> = all.iter().map(Bound::as_ptr).collect();
    let mut payload = Vec::with_capacity(64);
    let mut parents = NestedParents(ParentIndices::new());
    // SAFETY: the tuple and the lists keep the values alive; native encoding runs no Python code.
    let mut encoded = unsafe {
        let blocks: &mut dyn BlockSink = sink;
        encode_call(&all, names, &mut parents, &mut payload, (&callee.arrays, blocks))
    };
    if encoded == EncodeResult::Foreign {
        payload.clear();
        sink.clear();
        parents = NestedParents(ParentIndices::new());
        let places = (&mut payload, &mut *sink as &mut dyn BlockSink);
        // SAFETY: as above.
        let (pickled, found) = unsafe { pickle(py, &all, names, places)? };
        if !found.are_known(&mut parents) {
            return Err(PyTypeError::new_err(
                "only futures of tasks that this task submitted can be arguments",
            ));
        }
        encoded = pickled;
        needing = found.needing(function)?;
    }
    if encoded == EncodeResult::Unstored {
        return Err(sink.failure(py));
    }
    Ok(EncodedCall { payload, parents: parents.0.into_keys(), needing })
}

/// Returns the mode of a wait: one with a zero timeout only polls.
fn mode_within(timeout: Option<Duration>) -> WaitMode {
    if timeout.is_some_and(|timeout| timeout.is_zero()) { WaitMode::Looks } else { WaitMode::Runs }
}

/// Waits until `done` returns true. Returns false if the time is over first.
fn wait(
    py: Python<'_>,
    worker: &PythonWorker,
    mode: WaitMode,
    timeout: Option<Duration>,
    done: &mut dyn FnMut() -> bool,
) -> PyResult<bool> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    // Tasks run meanwhile, and this function's caller catches what unwinds.
    match under_barrier(|| worker.wait(mode, end, done)).map_err(broken)? {
        WaitEnd::Done => Ok(true),
        WaitEnd::TimedOut => Ok(false),
        WaitEnd::Raised => Err(PyErr::fetch(py)),
        WaitEnd::Interrupted => Err(error::interrupted(py)),
        WaitEnd::Stopped => Err(PyRuntimeError::new_err("the client has told this worker to end")),
    }
}

/// Fails if the ticket's task has not ended and another task than `task` submitted it. A task waits only for tasks that
/// it submitted itself, so the waits form a tree and cannot deadlock.
fn own(worker: &PythonWorker, task: TaskId, ticket: u32) -> PyResult<()> {
    if worker.is_final(ticket) || worker.owner(ticket) == Some(task) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "a task can wait only for tasks that it submitted itself; another task submitted the task of this future",
    ))
}

/// Waits for a ticket's task and returns its outcome.
fn outcome(
    py: Python<'_>,
    worker: &PythonWorker,
    task: TaskId,
    ticket: u32,
    timeout: &Bound<'_, PyAny>,
) -> PyResult<NestedTaskOutcome> {
    if let Some(outcome) = worker.outcome(ticket) {
        return Ok(outcome);
    }
    own(worker, task, ticket)?;
    let timeout = optional_seconds(timeout)?;
    if !wait(py, worker, mode_within(timeout), timeout, &mut || worker.is_final(ticket))? {
        return Err(PyTimeoutError::new_err(()));
    }
    worker
        .outcome(ticket)
        .ok_or_else(|| error::broken("a ticket was closed although its future exists"))
}

/// Waits for a ticket's task and returns its value. A `timeout` of `None` has no end.
///
/// # Errors
/// The exception that the task raised, or that stands for its outcome; `TimeoutError`.
#[pyfunction]
pub fn nested_result(
    ticket: &Bound<'_, Ticket>,
    timeout: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let py = ticket.py();
    let (worker, task) = current()?;
    let outcome = outcome(py, &worker, task, ticket.get().number, timeout)?;
    worker.release_many().map_err(broken)?;
    let (kind, bytes) = &*outcome;
    if *kind == ReplyKind::Value {
        let callee = worker.callee();
        let (&is_descriptor, bytes) = bytes.split_first().ok_or_else(short)?;
        let (blocks, bytes) = callee.open(bytes, is_descriptor != 0)?;
        let value = decode_value(py, bytes, &mut (), &callee.arrays, &blocks)?;
        let sizes = &callee.nested.last_sizes;
        sizes.set((sizes.get().0, blocks.size() + bytes.len() as u64));
        return Ok(value.into_bound(py).unbind());
    }
    Err(raised(py, *kind, bytes))
}

/// Waits for a ticket's task and returns the exception of its outcome, or `None`.
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

/// Returns the state of a ticket's task: 0 not ended, 1 a value, 2 an exception, 3 cancelled. If `looks` is set and the
/// running task submitted that task, first polls briefly for replies; other workers may run tasks meanwhile.
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

/// Cancels a ticket's task; with a grace time, even a running one. Returns whether it is cancelled.
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

/// Requests a call of `gristmill._nested._completed` with the ticket. Returns false if its task has ended already.
#[pyfunction]
pub fn nested_watch(ticket: u32) -> PyResult<bool> {
    let (worker, task) = current()?;
    own(&worker, task, ticket)?;
    Ok(worker.watch(ticket))
}

/// Waits until `is_done()` is true, and returns whether it is.
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

/// Returns the exception for an outcome that is not a value.
fn raised(py: Python<'_>, kind: ReplyKind, bytes: &[u8]) -> PyErr {
    let class = match kind {
        // The pickle is behind the first byte; an exception has no blocks.
        ReplyKind::Raised => return error::remote(py, bytes.get(1..).unwrap_or_default()),
        ReplyKind::Cancelled => return error::cancelled(py),
        ReplyKind::DependencyFailed => {
            return dependency_failed(py, bytes).unwrap_or_else(|error| error);
        }
        ReplyKind::TimedOut => "TaskTimeoutError",
        ReplyKind::Lost => "WorkerLostError",
        ReplyKind::StartFailed => "StartError",
        ReplyKind::ContextFailed => "ContextError",
        ReplyKind::Expired => "LeaseExpiredError",
        ReplyKind::NotAccepted => {
            return match Refusal::decode(bytes) {
                Ok(refusal) => error::not_accepted(py, refusal.code, refusal.text),
                Err(error) => malformed(&error.to_string()),
            };
        }
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
    let root = raised(py, kind, root);
    Ok(error::dependency_failed(py, &String::from_utf8_lossy(text), root))
}
