//! The entry of a worker process, called by `gristmill._zygote`.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use gristmill_keeper::{TaskMark, WorkerKey, WorkerSetup, become_worker};
use std::sync::Arc;

use gristmill_shm::{Segment, WorkerArena};
use gristmill_worker::{Window, Worker, WorkerOptions};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::callee::PythonCallee;
use crate::interrupt::set_running;
use crate::throw_barrier::under_barrier;

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

/// Runs `initialize`, reports its result to the client, and works until told to stop. `memory` holds the descriptors of
/// the segment, the arena, the arena's file on disk, and the client's event. Without `spin_us` the worker never polls.
/// `mark` is the value of the task variable in `os.environ`: a bytes object with no other users, which is written to
/// from now on.
///
/// # Errors
/// `RuntimeError` if the rings are damaged. If the initializer failed, the client is told, and this returns normally.
#[pyfunction]
pub fn serve(
    py: Python<'_>,
    memory: (RawFd, RawFd, RawFd, RawFd),
    worker: (u16, u32),
    spin_us: Option<f64>,
    mark: Option<&Bound<'_, PyBytes>>,
    initialize: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let slot = gristmill_wire::SlotId(worker.0);
    let broken = |error: String| PyRuntimeError::new_err(error);
    // SAFETY: the zygote passes descriptors that it owns.
    let open = |descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) };
    let (segment, event) = (open(memory.0), open(memory.3));
    let arena = [open(memory.1), open(memory.2)];
    let segment =
        Segment::open(segment, Some(event.into())).map_err(|error| broken(error.to_string()))?;
    let ends = segment.worker_ends(slot).map_err(|error| broken(error.to_string()))?;
    let arena = WorkerArena::open(arena, slot).map_err(|error| broken(error.to_string()))?;
    let arena = Arc::new(arena);
    let window = spin_us.map_or(Window::Never, Window::of_us);
    let result_rest = segment.tick_scale().from_ns(RESULT_REST_NS);
    let options = WorkerOptions { window, stack_max: stack_max(), result_rest };
    let mark = take_mark(WorkerKey::new(slot.0, worker.1), mark);
    crate::output::begin(segment.tick_scale());
    let callee = PythonCallee::new(py, Arc::clone(&arena), ends.control.clone(), mark)?;
    let worker = Rc::new(Worker::new(ends, arena, callee, options));
    crate::nested::set_worker(&worker);
    set_running(Some(worker.running()));
    let failure: Option<String> = under_barrier(|| initialize.call0())?.extract()?;
    worker.callee().finish_output(py)?;
    worker.announce(failure.as_deref()).map_err(|error| broken(error.to_string()))?;
    if failure.is_some() {
        return Ok(());
    }
    under_barrier(|| worker.run()).map_err(|error| broken(error.to_string()))
}

/// Sets up the mark of this worker's tasks, in the environment and in Python's copy of it.
fn take_mark(worker: WorkerKey, copy: Option<&Bound<'_, PyBytes>>) -> Option<TaskMark> {
    let copy = copy.map(|copy| {
        let size = copy.as_bytes().len();
        // Never freed: even if the process drops its environment, its tasks are still marked.
        let object = copy.clone().into_ptr();
        // SAFETY: this is a bytes object of that size, which was made for this and is never freed. Its hash is not
        // cached, and other code reads it only with the interpreter held, which this thread holds.
        unsafe { std::slice::from_raw_parts_mut(ffi::PyBytes_AsString(object).cast::<u8>(), size) }
    });
    // SAFETY: the worker has only one thread so far. The copy is never freed.
    unsafe { TaskMark::take(worker, copy) }
}

/// Interval at which a waiting client is woken for results: a wake-up costs as much as many small calls.
const RESULT_REST_NS: u64 = 50_000;

/// Returns a quarter of this thread's stack limit: the rest is for the code of the task that waits deepest.
fn stack_max() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills in one structure.
    let found = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    let usual = 8 << 20;
    let size = if found { usize::try_from(limit.rlim_cur).unwrap_or(usual) } else { usual };
    size.min(4 * usual) / 4
}

/// Tells the client that this worker, whose loop has ended, no longer uses its rings, though its process goes on for a
/// while. Returns whether it told the client.
#[pyfunction]
pub fn tell_left() -> bool {
    set_running(None);
    crate::nested::take_worker().is_some_and(|worker| worker.tell_left())
}
