//! The interrupt of the task that runs in this worker, for its signal handler and for native functions.

use std::cell::RefCell;

use gristmill_worker::CurrentTask;
use pyo3::prelude::*;

thread_local! {
    /// The running task; set while a worker runs on this thread.
    static RUNNING: RefCell<Option<CurrentTask>> = const { RefCell::new(None) };
}

/// Sets the running task of the worker that runs on this thread, or `None` if its loop has ended.
pub fn set_running(task: Option<CurrentTask>) {
    RUNNING.set(task);
}

/// Returns the time at which the time of the task that runs in this thread is over, monotonic nanoseconds; `u64::MAX` if
/// it has no limit, or if no task runs.
pub fn deadline_ns() -> u64 {
    RUNNING.with_borrow(|running| running.as_ref().map_or(u64::MAX, CurrentTask::deadline_ns))
}

/// Returns whether an interrupt of the task that runs in this thread is requested.
pub fn is_cancelled() -> bool {
    RUNNING.with_borrow(|running| running.as_ref().is_some_and(CurrentTask::is_interrupted))
}

/// Returns whether an interrupt of the running task is requested, once. The handler of the interrupt signal calls this.
#[pyfunction]
pub fn is_interrupted() -> bool {
    RUNNING.with_borrow(|running| running.as_ref().is_some_and(CurrentTask::take_interrupt))
}
