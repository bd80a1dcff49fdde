//! From the engine's errors to Python's.

use gristmill_client::SubmitError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// An error class of `gristmill`, with a message.
pub fn named(py: Python<'_>, class: &str, text: &str) -> PyErr {
    made(py, ("gristmill._errors", class), text)
}

/// What a task gets that is to stop.
pub fn interrupted(py: Python<'_>) -> PyErr {
    let class = ("gristmill._interrupt", "TaskInterrupted");
    made(py, class, "the task was cancelled or ran out of time")
}

fn made(py: Python<'_>, (module, class): (&str, &str), text: &str) -> PyErr {
    py.import(module)
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((text,)))
        .map_or_else(|error| error, PyErr::from_value)
}

/// `concurrent.futures.CancelledError`.
pub fn cancelled(py: Python<'_>) -> PyErr {
    py.import("concurrent.futures._base")
        .and_then(|module| module.getattr("CancelledError"))
        .and_then(|class| class.call0())
        .map_or_else(|error| error, PyErr::from_value)
}

/// The exception that a task raised, rebuilt.
pub fn remote(py: Python<'_>, payload: &[u8]) -> PyErr {
    // No pickle begins with a zero: this is the client's own sentence about memory.
    if let Some((0, text)) = payload.split_first() {
        let text = String::from_utf8_lossy(text).into_owned();
        return pyo3::exceptions::PyMemoryError::new_err(text);
    }
    // Nor with a one: its own sentence about an argument.
    if let Some((1, text)) = payload.split_first() {
        return named(py, "GristmillError", &String::from_utf8_lossy(text));
    }
    py.import("gristmill._remote")
        .and_then(|module| module.call_method1("load_exception", (PyBytes::new(py, payload),)))
        .map_or_else(|error| error, PyErr::from_value)
}

/// The executor takes no more tasks, in the standard library's words.
pub fn shut_down(py: Python<'_>) -> PyErr {
    named(py, "ShutDownError", "cannot schedule new futures after shutdown")
}

/// Why a task was not accepted.
pub fn submit(py: Python<'_>, error: SubmitError) -> PyErr {
    if matches!(error, SubmitError::ShutDown) {
        return shut_down(py);
    }
    if let SubmitError::Broken(failure) = &error
        && failure.is_expiry
    {
        return named(py, "LeaseExpired", &failure.text);
    }
    let class = match &error {
        SubmitError::LimitReached { .. } => "LimitReached",
        SubmitError::Broken(_) => "StartError",
        SubmitError::TooMuch { .. } | SubmitError::ContextTooMuch { .. } => "ResourceError",
        _ => "GristmillError",
    };
    named(py, class, &error.to_string())
}

/// Why a context is not accepted.
pub fn context(py: Python<'_>, name: &str, error: SubmitError) -> PyErr {
    if let SubmitError::TooMuch { what, asked, all } = error {
        let text =
            format!("each worker of context {name:?} needs {asked} {what}, and there are {all}");
        return named(py, "ResourceError", &text);
    }
    submit(py, error)
}

/// A contradiction inside the engine.
pub fn broken(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("gristmill is broken: {what}; please report this"))
}
