//! From a task's outcome to a Python value or exception.

use std::time::Duration;

use gristmill_client::{CallResult, CallValue, CancelMode, Encoded, Ended, TaskLook};
use gristmill_wire::{TaskId, Verdict};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Engine;
use crate::arena::ClientSource;
use crate::codec::{decode_only_scalar, decode_value};
use crate::error;
use crate::future::FutureRef;
use crate::object::Owned;

/// What a future can say of its task without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Not with a worker.
    Waiting,
    /// With a worker: it may have started.
    Running,
    /// A value is there.
    Succeeded,
    /// It ended in another way.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Look {
    /// Whether this will not change.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Whether a worker has it.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Whether it was cancelled.
    pub const fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

impl Engine {
    /// The state of a task, after completing what has arrived.
    ///
    /// # Errors
    /// `ForkedProcessError`.
    pub fn look(&self, py: Python<'_>, task: TaskId) -> PyResult<Look> {
        self.refuse_orphan(py)?;
        Ok(match self.client().map(|client| client.look(task)) {
            None | Some(TaskLook::Waiting) => Look::Waiting,
            Some(TaskLook::Running) => Look::Running,
            Some(TaskLook::Succeeded) => Look::Succeeded,
            Some(TaskLook::Failed) => Look::Failed,
            Some(TaskLook::Cancelled) => Look::Cancelled,
        })
    }

    /// Whether a task has its final state; never in a forked child.
    pub fn is_final(&self, task: TaskId) -> bool {
        self.client().is_some_and(|client| {
            matches!(
                client.look(task),
                TaskLook::Succeeded | TaskLook::Failed | TaskLook::Cancelled
            )
        })
    }

    /// The value of a future's task; waits for it.
    ///
    /// # Errors
    /// What the task raised or became; `TimeoutError`.
    pub fn result(&self, future: FutureRef<'_>, timeout: Option<Duration>) -> PyResult<Owned> {
        let py = future.py();
        if let Some(raised) = future.raised() {
            return Err(PyErr::from_value(raised.into_bound(py)));
        }
        match self.ended(py, future.task(), timeout)? {
            Ended::Value(encoded) => {
                let value = self.decode(py, &encoded)?;
                Ok(future.keep_value(value))
            }
            Ended::Cancelled => Err(error::cancelled(py)),
            other => {
                let raised = self.keep_raised(future, other)?;
                Err(PyErr::from_value(raised.into_bound(py)))
            }
        }
    }

    /// The exception for an outcome that is neither a value nor a cancellation: the same object for every caller. What the
    /// engine says, and not the task, an app future may put into words of its own. No lock is held.
    ///
    /// # Errors
    /// What that raises: then nothing is kept.
    fn keep_raised(&self, future: FutureRef<'_>, ended: Ended) -> PyResult<Owned> {
        // Attached, so that PyO3 releases at once what making an exception leaves behind.
        Python::attach(|_| {
            let py = future.py();
            let is_tasks_own = matches!(ended, Ended::Raised(_));
            let raised = self.raised(py, ended).into_value(py).into_bound(py).into_any();
            let raised = if is_tasks_own { raised } else { future.translated(raised)? };
            Ok(future.keep_raised(Owned::from_bound(raised)))
        })
    }

    /// What a future's task raised or became, or `None`; waits for it.
    ///
    /// # Errors
    /// `CancelledError`, as the standard library has it; `TimeoutError`.
    pub fn exception(&self, future: FutureRef<'_>, timeout: Option<Duration>) -> PyResult<Owned> {
        let py = future.py();
        if let Some(raised) = future.raised() {
            return Ok(raised);
        }
        match self.ended(py, future.task(), timeout)? {
            Ended::Value(_) => Ok(Owned::from_bound(py.None().into_bound(py))),
            Ended::Cancelled => Err(error::cancelled(py)),
            other => self.keep_raised(future, other),
        }
    }

    /// The outcome of a task; waits for it.
    fn ended(&self, py: Python<'_>, task: TaskId, timeout: Option<Duration>) -> PyResult<Ended> {
        let ended = self.ended_within(py, task, timeout)?;
        ended.ok_or_else(|| PyTimeoutError::new_err(()))
    }

    /// The outcome of a task if it has one before the time is over.
    ///
    /// # Errors
    /// What a signal handler raises.
    pub fn ended_within(
        &self,
        py: Python<'_>,
        task: TaskId,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Ended>> {
        let client = self.running_client(py)?;
        if let Some(ended) = client.try_ended(task) {
            return Ok(Some(ended));
        }
        if !self.wait_for(py, task, timeout)? {
            return Ok(None);
        }
        Ok(client.try_ended(task))
    }

    /// Decodes a value.
    ///
    /// # Errors
    /// What decoding raises.
    pub fn decode(&self, py: Python<'_>, encoded: &Encoded) -> PyResult<Owned> {
        let blocks = ClientSource::new(encoded.parts(), encoded.views);
        decode_value(py, encoded.bytes(), &mut (), &self.arrays, &blocks)
    }

    /// The value of a call in a batch, or what it raised.
    ///
    /// # Errors
    /// What the call raised; what decoding raises.
    #[inline]
    pub fn call_value(&self, py: Python<'_>, result: CallResult<'_>) -> Result<Owned, Box<PyErr>> {
        if let CallValue::Inline(bytes) = result.value
            && result.verdict == Verdict::Returned
            && let Some(value) = decode_only_scalar(py, bytes)
        {
            return Ok(value);
        }
        self.any_call_value(py, result).map_err(Box::new)
    }

    fn any_call_value(&self, py: Python<'_>, result: CallResult<'_>) -> PyResult<Owned> {
        let encoded = match result.value {
            CallValue::Inline(bytes) if result.verdict == Verdict::Returned => {
                let blocks = ClientSource::new(&[], false);
                return decode_value(py, bytes, &mut (), &self.arrays, &blocks);
            }
            CallValue::Inline(bytes) => return Err(error::remote(py, bytes)),
            CallValue::Blocks(encoded) => encoded,
        };
        if result.verdict == Verdict::Returned {
            self.decode(py, &encoded)
        } else {
            Err(error::remote(py, encoded.bytes()))
        }
    }

    /// The exception for an outcome that is no value.
    pub fn raised(&self, py: Python<'_>, ended: Ended) -> PyErr {
        match ended {
            Ended::Raised(encoded) => error::remote(py, encoded.bytes()),
            Ended::Cancelled => error::cancelled(py),
            Ended::TimedOut(text) => error::named(py, "TaskTimeout", &text),
            Ended::Lost(text) => error::named(py, "WorkerLost", &text),
            Ended::StartFailed(text) => error::named(py, "StartError", &text),
            Ended::ContextFailed(text) => error::named(py, "ContextError", &text),
            Ended::Expired(text) => error::named(py, "LeaseExpired", &text),
            Ended::Refused(text) => error::named(py, "GristmillError", &text),
            Ended::DependencyFailed { text, root } => {
                let failed = error::named(py, "DependencyFailed", &text);
                failed.set_cause(py, Some(self.raised(py, *root)));
                failed
            }
            Ended::Value(_) => error::broken("a value is no exception"),
        }
    }

    /// Cancels a task; with a grace time a running one too. Whether it is, or is about to be, cancelled.
    ///
    /// # Errors
    /// The engine's state.
    pub fn cancel(
        &self,
        py: Python<'_>,
        task: TaskId,
        running: Option<Duration>,
    ) -> PyResult<bool> {
        let mode = running.map_or(CancelMode::Unstarted, |grace| CancelMode::Running {
            grace_ns: Some(u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX)),
        });
        let client = self.running_client(py)?;
        Ok(if self.settings()?.has_nodes {
            py.detach(|| client.cancel(task, mode))
        } else {
            client.cancel(task, mode)
        })
    }

    /// The tags of a task as a dict: nanoseconds since it was submitted. Empty where they were compiled out.
    ///
    /// # Errors
    /// Memory.
    pub fn tags(&self, py: Python<'_>, task: TaskId) -> PyResult<Owned> {
        self.refuse_orphan(py)?;
        let dict = PyDict::new(py);
        if cfg!(feature = "tags")
            && let Some(tags) = self.client().and_then(|client| client.tags(task))
        {
            for (name, nanoseconds) in tags.named() {
                dict.set_item(name, nanoseconds)?;
            }
            if let Some(temperature) = tags.temperature() {
                dict.set_item("temperature", temperature)?;
            }
        }
        Ok(Owned::from_bound(dict.into_any()))
    }
}
