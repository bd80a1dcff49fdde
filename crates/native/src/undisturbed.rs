//! Calls of Python code where an exception may be pending: in destructors, which CPython runs at any point.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;

/// The exception that was pending, until it is restored.
struct Pending {
    #[cfg(Py_3_12)]
    exception: *mut ffi::PyObject,
    #[cfg(not(Py_3_12))]
    parts: [*mut ffi::PyObject; 3],
}

impl Pending {
    /// Takes the pending exception away, if there is one.
    fn take(_py: Python<'_>) -> Self {
        // SAFETY: the interpreter is held; the references are owned until `drop` restores them.
        #[cfg(Py_3_12)]
        return Self { exception: unsafe { ffi::PyErr_GetRaisedException() } };
        #[cfg(not(Py_3_12))]
        {
            let [mut kind, mut value, mut traceback] = [std::ptr::null_mut(); 3];
            // SAFETY: as above.
            unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback) };
            Self { parts: [kind, value, traceback] }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // SAFETY: `undisturbed` holds the interpreter, and the references are restored once.
        #[cfg(Py_3_12)]
        unsafe {
            ffi::PyErr_SetRaisedException(self.exception);
        }
        #[cfg(not(Py_3_12))]
        // SAFETY: as above.
        unsafe {
            let [kind, value, traceback] = self.parts;
            ffi::PyErr_Restore(kind, value, traceback);
        }
    }
}

/// Runs `body`, which may run Python code, with no exception pending, and restores the one that was.
pub fn undisturbed<R>(py: Python<'_>, body: impl FnOnce() -> R) -> R {
    let _pending = Pending::take(py);
    body()
}

/// Reports an exception that no caller can receive, as the interpreter does for those of `__del__`. A
/// `KeyboardInterrupt` is raised again in the main thread, so that Ctrl-C is not lost.
pub fn report(py: Python<'_>, error: PyErr, place: Option<&Bound<'_, PyAny>>) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // SAFETY: the call only sets a flag.
        unsafe { ffi::PyErr_SetInterrupt() };
        return;
    }
    error.write_unraisable(py, place);
}
