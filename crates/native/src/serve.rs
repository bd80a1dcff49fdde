//! The entry of a worker process, called by `gristmill._zygote`.

use std::cell::RefCell;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use gristmill_keeper::{WorkerSetup, become_worker};
use std::sync::Arc;

use gristmill_shm::{Segment, WorkerArena};
use gristmill_worker::{Running, Window, Worker, WorkerOptions};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::callee::PythonCallee;

thread_local! {
    /// What the handler of interrupts asks; set while a worker runs on this thread.
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Makes this new process a worker: bound to its keeper, in a session of its own, writing to its stderr pipe.
#[pyfunction]
pub fn become_a_worker(
    keeper: i32,
    parent: i32,
    stderr: Option<RawFd>,
    close_on_exec: Vec<RawFd>,
) -> PyResult<()> {
    // SAFETY: the caller's descriptor is open during this call.
    let stderr = stderr.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) });
    let setup = WorkerSetup { keeper, parent, stderr, close_on_exec: &close_on_exec };
    become_worker(&setup).map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Has this worker go on when it is told to end, as batch systems do with all processes of a job: its agent is told, too.
#[pyfunction]
pub fn outlast_end() {
    gristmill_sync::signals::outlast_end();
}

/// Runs `initialize`, says so to the client, and works until told to stop. `memory` is the segment, the arena and the client's
/// event. Without `spin_us` the worker never polls.
///
/// # Errors
/// `RuntimeError` when the rings are damaged; nothing when the initializer raised: the client is told.
#[pyfunction]
pub fn serve(
    py: Python<'_>,
    memory: (RawFd, RawFd, RawFd),
    slot: u16,
    spin_us: Option<f64>,
    initialize: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let broken = |error: String| PyRuntimeError::new_err(error);
    // SAFETY: the zygote hands over descriptors that are its own.
    let open = |descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) };
    let (segment, arena, event) = (open(memory.0), open(memory.1), open(memory.2));
    let segment =
        Segment::open(segment, Some(event.into())).map_err(|error| broken(error.to_string()))?;
    let lane = segment
        .worker_lane(gristmill_wire::SlotId(slot))
        .map_err(|error| broken(error.to_string()))?;
    let arena = WorkerArena::open(arena, gristmill_wire::SlotId(slot))
        .map_err(|error| broken(error.to_string()))?;
    let arena = Arc::new(arena);
    let window = spin_us.map_or(Window::Never, Window::of_us);
    let result_rest = segment.tick_scale().from_ns(RESULT_REST_NS);
    let options = WorkerOptions { window, stack_max: stack_max(), result_rest };
    let callee = PythonCallee::new(py, Arc::clone(&arena))?;
    let worker = Rc::new(Worker::new(lane, arena, callee, options));
    crate::nested::set_worker(&worker);
    RUNNING.set(Some(worker.running()));
    let failure: Option<String> = initialize.call0()?.extract()?;
    worker.announce(failure.as_deref()).map_err(|error| broken(error.to_string()))?;
    if failure.is_some() {
        return Ok(());
    }
    worker.run().map_err(|error| broken(error.to_string()))
}

/// A client that waits is woken once for the results of so much time: a wake-up costs as much as many small calls.
const RESULT_REST_NS: u64 = 50_000;

/// A quarter of the stack that this thread may have: the rest is for the code of the task that waits deepest.
fn stack_max() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills in one structure.
    let found = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    let usual = 8 << 20;
    let size = if found { usize::try_from(limit.rlim_cur).unwrap_or(usual) } else { usual };
    size.min(4 * usual) / 4
}

/// Whether the task that runs now is to be interrupted, once: asked by the handler of the interrupt signal.
#[pyfunction]
pub fn is_interrupted() -> bool {
    RUNNING.with_borrow(|running| running.as_ref().is_some_and(Running::take_interrupt))
}
