//! Conversion of the engine's errors to Python exceptions.

use std::ffi::CStr;

use gristmill_client::SubmitError;
use gristmill_wire::{FailureKind, TaskFailure};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyModule};

use crate::made_once::MadeOnce;

/// Maximum characters of an exception's text that another error repeats.
const WORDS_MAX: usize = 300;

/// Python objects that exceptions are made with.
#[derive(Debug)]
struct Means {
    errors: Py<PyModule>,
    cancelled_error: Py<PyAny>,
    load_exception: Py<PyAny>,
}

/// Looked up once, because no module can be imported while the interpreter shuts down.
static MEANS: MadeOnce<Means> = MadeOnce::new();

fn means(py: Python<'_>) -> PyResult<&Means> {
    MEANS.get_or_make(py, || {
        let remote = py.import("gristmill._remote")?;
        remote.call_method0("prepare")?;
        Ok(Means {
            errors: py.import("gristmill._errors")?.unbind(),
            cancelled_error: py
                .import("concurrent.futures._base")?
                .getattr("CancelledError")?
                .unbind(),
            load_exception: remote.getattr("load_exception")?.unbind(),
        })
    })
}

/// Imports the objects that exceptions are made with, so that they are available when the interpreter shuts down.
///
/// # Errors
/// Any exception that the import raises.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    means(py).map(|_| ())
}

/// Returns a class of `gristmill._errors`.
fn class_named<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    means(py)?.errors.bind(py).getattr(class)
}

/// Makes an exception of a class of `gristmill._errors`, with a message.
pub fn named(py: Python<'_>, class: &str, text: &str) -> PyErr {
    made(class_named(py, class), text)
}

/// Returns the exception with this `code` instead of its class's. If memory is short, the class's stays.
pub fn coded(py: Python<'_>, error: PyErr, code: &str) -> PyErr {
    let _ = error.value(py).setattr("code", code);
    error
}

/// Returns whether an exception is an instance of one of these classes of `gristmill._errors`.
#[cold]
pub fn is_a(py: Python<'_>, error: &PyErr, classes: &[&str]) -> bool {
    let is_one =
        |class: &&str| class_named(py, class).is_ok_and(|class| error.is_instance(py, &class));
    classes.iter().any(is_one)
}

/// Makes the exception that interrupts a task.
pub fn interrupted(py: Python<'_>) -> PyErr {
    let module = py.import("gristmill._interrupt");
    let class = module.and_then(|module| module.getattr("TaskInterrupted"));
    made(class, "the task was cancelled, or its time was over")
}

fn made(class: PyResult<Bound<'_, PyAny>>, text: &str) -> PyErr {
    class
        .and_then(|class| class.call1((text,)))
        // While the interpreter shuts down no module can be imported: the message matters more than its class.
        .map_or_else(|_| PyRuntimeError::new_err(text.to_owned()), PyErr::from_value)
}

/// Makes a `concurrent.futures.CancelledError`.
pub fn cancelled(py: Python<'_>) -> PyErr {
    means(py)
        .and_then(|means| means.cancelled_error.bind(py).call0())
        .map_or_else(|error| error, PyErr::from_value)
}

/// Makes the exception of a failed task from the content of its answer, a [`TaskFailure`].
pub fn remote(py: Python<'_>, content: &[u8]) -> PyErr {
    let failure = match TaskFailure::decode(content) {
        Ok(failure) => failure,
        Err(error) => return broken(&format!("the failure of a task is unreadable: {error}")),
    };
    let text = || String::from_utf8_lossy(failure.bytes);
    match failure.kind {
        FailureKind::Exception => means(py)
            .and_then(|means| {
                means.load_exception.bind(py).call1((PyBytes::new(py, failure.bytes),))
            })
            .map_or_else(|error| error, PyErr::from_value),
        FailureKind::NoMemory => pyo3::exceptions::PyMemoryError::new_err(text().into_owned()),
        FailureKind::Argument => named(py, "GristmillError", &text()),
        FailureKind::Loading => {
            named(py, "GristmillError", &format!("the task was interrupted while {}", text()))
        }
        FailureKind::Undescribed => {
            let text = text();
            let name = text.split(':').next().unwrap_or_default();
            class_named(py, "RemoteError")
                .and_then(|class| class.call1((&*text, name)))
                .map_or_else(|error| error, PyErr::from_value)
        }
    }
}

/// Makes the exception for a result whose pickle cannot be loaded here. Its cause is the original exception.
pub fn unread(py: Python<'_>, error: PyErr) -> PyErr {
    let passes = error.is_instance_of::<pyo3::exceptions::PyMemoryError>(py)
        || error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py);
    if passes {
        return error;
    }
    let name =
        error.get_type(py).qualname().map_or_else(|_| String::new(), |name| name.to_string());
    let value = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    let text = format!("the task returned, but its result could not be read here: {name}: {value}");
    let made = class_named(py, "RemoteError")
        .and_then(|class| class.call1((text, name)))
        .map_or_else(|error| error, PyErr::from_value);
    made.set_cause(py, Some(error));
    made
}

/// Appends the failure for an exception that could not be encoded. Needs no Python code and little memory.
pub fn undescribed(py: Python<'_>, error: &PyErr, why: &PyErr, out: &mut Vec<u8>) {
    let name = |error: &PyErr| {
        // SAFETY: this is the type of a live exception; its name is a C string that lives as long as the type.
        let name = unsafe { CStr::from_ptr((*error.get_type(py).as_type_ptr()).tp_name) };
        name.to_string_lossy().into_owned()
    };
    let text =
        format!("{}: raised by the task; it could not be described: {}", name(error), name(why));
    out.extend(TaskFailure::of_text(FailureKind::Undescribed, &text).encode());
}

/// Makes the exception for an executor that accepts no more tasks, with the standard library's message.
pub fn shut_down(py: Python<'_>) -> PyErr {
    named(py, "ShutDownError", "cannot schedule new futures after shutdown")
}

/// Makes the exception for a task that was not accepted.
pub fn submit(py: Python<'_>, error: SubmitError) -> PyErr {
    if matches!(error, SubmitError::ShutDown) {
        return shut_down(py);
    }
    not_accepted(py, error.code(), &error.to_string())
}

/// Makes the exception for a task that was not accepted, from the code and the text of a [`SubmitError`].
pub fn not_accepted(py: Python<'_>, code: &str, text: &str) -> PyErr {
    let class = match code {
        "task_limit_reached" | "argument_bytes_reached" => "LimitReachedError",
        "lease_expired" => "LeaseExpiredError",
        "resources_exceeded" | "context_resources_exceeded" => "ResourceError",
        "shut_down" => "ShutDownError",
        "start_failed" => "StartError",
        "too_many_argument_futures" => "UnpicklableError",
        _ => "GristmillError",
    };
    coded(py, named(py, class, text), code)
}

/// Makes the exception for an executor or a node agent that cannot start.
pub fn start(py: Python<'_>, code: &str, failure: &dyn std::error::Error) -> PyErr {
    coded(py, named(py, "StartError", &failure.to_string()), code)
}

/// Makes the exception for a context that was not accepted.
pub fn context(py: Python<'_>, name: &str, error: SubmitError) -> PyErr {
    if let SubmitError::TooMuch { what, asked, all } = error {
        let text = format!(
            "each worker of context {name:?} needs {}, and the executor has {}",
            what.amount(asked),
            what.amount(all)
        );
        return not_accepted(py, "resources_exceeded", &text);
    }
    submit(py, error)
}

/// Makes a `DependencyError`: it names the task that was not run and the argument without a value, and its cause is
/// that argument's exception.
pub fn dependency_failed(py: Python<'_>, text: &str, root: PyErr) -> PyErr {
    let failed = named(py, "DependencyError", &format!("{text}: {}", in_words(py, &root)));
    failed.set_cause(py, Some(root));
    failed
}

/// Formats an exception like the last line of a traceback. Leaves out a text that cannot be obtained, and cuts a long
/// one.
fn in_words(py: Python<'_>, error: &PyErr) -> String {
    let kind =
        error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    let text = error.value(py).str().map(|text| text.to_string_lossy().into_owned());
    let Some(line) = text.ok().and_then(|text| text.lines().next().map(str::to_owned)) else {
        return kind;
    };
    let cut: String = line.chars().take(WORDS_MAX).collect();
    let more = if cut.len() < line.len() { "..." } else { "" };
    format!("{kind}: {cut}{more}")
}

/// Makes the exception for a contradiction inside the engine.
pub fn broken(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("gristmill has a bug: {what}; please report it"))
}
