//! Processes that user code forked: each must end where it returns from user code, because it is not the worker.

use gristmill_sync::process;
use pyo3::prelude::*;

/// Returns the fork generation of this process. An object that was made in a process of another generation comes from
/// an ancestor of this process: there was a fork since.
#[pyfunction]
pub fn generation() -> u32 {
    process::generation()
}

/// Returns whether this process detects forks by a bare `clone`; if not, it detects only calls of the C library's
/// `fork`.
#[pyfunction]
pub fn notices_clone() -> bool {
    process::notices_clone()
}

/// Ends this process, which user code forked and which has returned from that code: see `gristmill._forked.leave`.
#[cold]
pub fn leave(py: Python<'_>, error: Option<&PyErr>) -> ! {
    let raised = error.map(|error| error.clone_ref(py).into_value(py));
    let code = i32::from(raised.is_some());
    // The call does not return, unless the module can no longer be imported here.
    let _ =
        py.import("gristmill._forked").and_then(|module| module.call_method1("leave", (raised,)));
    // SAFETY: the process ends; the kernel has everything that it has written.
    unsafe { libc::_exit(code) }
}
