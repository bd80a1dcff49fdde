//! Conversion of a task's outcome to a Python value or exception.

use std::time::Duration;

use gristmill_client::{CallResult, CallValue, CancelMode, EncodedOutcome, Ended, TaskStatus};
use gristmill_wire::{TaskId, Verdict};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Engine;
use crate::arena::ClientSource;
use crate::codec::{decode_only_scalar, decode_value, is_pickle};
use crate::error;
use crate::future::FutureRef;
use crate::object::Owned;

/// The status of a future's task, known without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutureStatus {
    /// Not sent to a worker.
    Waiting,
    /// Sent to a worker: it may have started.
    Running,
    /// Ended with a value.
    Succeeded,
    /// Ended in another way.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl FutureStatus {
    /// Returns whether the status is final.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Returns whether a worker has the task.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Running)
    }

    /// Returns whether the task was cancelled.
    pub const fn is_cancelled(self) -> bool {
        matches!(self, Self::Cancelled)
    }
}

/// Returns the exception for a result that could not be decoded; if the result is a pickle, the text says so.
#[cold]
fn unread(py: Python<'_>, bytes: &[u8], error: PyErr) -> PyErr {
    if is_pickle(bytes) { error::unread(py, error) } else { error }
}

impl Engine {
    /// Returns the status of a task, after completing the results that have arrived.
    ///
    /// # Errors
    /// `ForkedProcessError`.
    pub fn look(&self, py: Python<'_>, task: TaskId) -> PyResult<FutureStatus> {
        self.refuse_orphan(py)?;
        Ok(match self.client().map(|client| client.look(task)) {
            None | Some(TaskStatus::Waiting) => FutureStatus::Waiting,
            Some(TaskStatus::Running) => FutureStatus::Running,
            Some(TaskStatus::Succeeded) => FutureStatus::Succeeded,
            Some(TaskStatus::Failed) => FutureStatus::Failed,
            Some(TaskStatus::Cancelled) => FutureStatus::Cancelled,
        })
    }

    /// Returns whether a task has its final state; always false in a forked child.
    pub fn is_final(&self, task: TaskId) -> bool {
        self.client().is_some_and(|client| {
            matches!(
                client.look(task),
                TaskStatus::Succeeded | TaskStatus::Failed | TaskStatus::Cancelled
            )
        })
    }

    /// Waits for a future's task and returns its value.
    ///
    /// # Errors
    /// The exception that the task raised, or that stands for its outcome; `TimeoutError`.
    pub fn result(&self, future: FutureRef<'_>, timeout: Option<Duration>) -> PyResult<Owned> {
        let py = future.py();
        if let Some(raised) = future.raised() {
            return Err(PyErr::from_value(raised.into_bound(py)));
        }
        match self.ended(py, future.task(), timeout)? {
            Ended::Value(encoded) => {
                let value = future.keep_value(self.decode(py, &encoded)?);
                future.count_fetched(|| encoded.whole_size())?;
                Ok(value)
            }
            Ended::Cancelled => Err(error::cancelled(py)),
            other => {
                let raised = self.keep_raised(future, other)?;
                Err(PyErr::from_value(raised.into_bound(py)))
            }
        }
    }

    /// Returns the exception for an outcome that is neither a value nor a cancellation: the same object for every
    /// caller. An app future may reword an exception of the engine, but not one of the task. No lock is held.
    ///
    /// # Errors
    /// Any exception that the rewording raises; nothing is kept then.
    fn keep_raised(&self, future: FutureRef<'_>, ended: Ended) -> PyResult<Owned> {
        // Attached, so that PyO3 releases at once the objects that are left over from making an exception.
        let attached = |_: Python<'_>| {
            let py = future.py();
            let is_tasks_own = matches!(ended, Ended::Raised(_));
            let size = if let Ended::Raised(encoded) = &ended { encoded.whole_size() } else { 0 };
            let raised = self.raised(py, ended).into_value(py).into_bound(py).into_any();
            let raised = if is_tasks_own { raised } else { future.translated(raised)? };
            let raised = future.keep_raised(Owned::from_bound(raised));
            future.count_fetched(|| size)?;
            Ok(raised)
        };
        // SAFETY: the caller holds the interpreter. It may have begun to end, which is not checked: finalizers run
        // then, too.
        unsafe { Python::attach_unchecked(attached) }
    }

    /// Waits for a future's task and returns the exception of its outcome, or `None`.
    ///
    /// # Errors
    /// `CancelledError`, as in the standard library; `TimeoutError`.
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

    /// Waits for a task and returns its outcome.
    fn ended(&self, py: Python<'_>, task: TaskId, timeout: Option<Duration>) -> PyResult<Ended> {
        let ended = self.ended_within(py, task, timeout)?;
        ended.ok_or_else(|| PyTimeoutError::new_err(()))
    }

    /// Waits for a task and returns its outcome, or `None` if it has none before the time is over.
    ///
    /// # Errors
    /// Any exception that a signal handler raises.
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
    /// Any exception that decoding raises.
    #[inline]
    pub fn decode(&self, py: Python<'_>, encoded: &EncodedOutcome) -> PyResult<Owned> {
        match encoded.plain_bytes().and_then(|bytes| decode_only_scalar(py, bytes)) {
            Some(value) => Ok(value),
            None => self.decode_any(py, encoded),
        }
    }

    fn decode_any(&self, py: Python<'_>, encoded: &EncodedOutcome) -> PyResult<Owned> {
        let blocks = ClientSource::new(encoded.parts(), encoded.views);
        let bytes = encoded.bytes();
        decode_value(py, &bytes, &mut (), &self.arrays, &blocks)
            .map_err(|error| unread(py, &bytes, error))
    }

    /// Returns the value of a call in a batch.
    ///
    /// # Errors
    /// The exception that the call raised; any exception that decoding raises.
    pub fn call_value(&self, py: Python<'_>, result: CallResult<'_>) -> PyResult<Owned> {
        let encoded = match result.value {
            CallValue::Inline(bytes) if result.verdict == Verdict::Returned => {
                let blocks = ClientSource::new(&[], false);
                return decode_value(py, bytes, &mut (), &self.arrays, &blocks)
                    .map_err(|error| unread(py, bytes, error));
            }
            CallValue::Inline(bytes) => return Err(error::remote(py, bytes)),
            CallValue::Blocks(encoded) => encoded,
        };
        if result.verdict == Verdict::Returned {
            self.decode(py, &encoded)
        } else {
            Err(error::remote(py, &encoded.bytes()))
        }
    }

    /// Returns the exception for an outcome that is not a value.
    pub fn raised(&self, py: Python<'_>, ended: Ended) -> PyErr {
        match ended {
            Ended::Raised(encoded) => error::remote(py, &encoded.bytes()),
            Ended::Cancelled => error::cancelled(py),
            Ended::TimedOut(text) => error::named(py, "TaskTimeoutError", &text),
            Ended::Lost(text) => error::named(py, "WorkerLostError", &text),
            Ended::StartFailed(text) => error::named(py, "StartError", &text),
            Ended::ContextFailed(text) => error::named(py, "ContextError", &text),
            Ended::Expired(text) => error::named(py, "LeaseExpiredError", &text),
            Ended::Refused(text) => error::named(py, "GristmillError", &text),
            Ended::DependencyFailed { text, root } => {
                error::dependency_failed(py, &text, self.raised(py, *root))
            }
            Ended::Value(_) => error::broken("a value is no exception"),
        }
    }

    /// Cancels a task; with a grace time, even a running one. Returns whether the task is, or will soon be, cancelled.
    ///
    /// # Errors
    /// An error about the engine's state.
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

    /// Returns the timings of a task as a `gristmill.Timings`. All fields are `None` if they were compiled out.
    ///
    /// # Errors
    /// `MemoryError`.
    pub fn timings(&self, py: Python<'_>, task: TaskId) -> PyResult<Owned> {
        self.refuse_orphan(py)?;
        let dict = PyDict::new(py);
        if cfg!(feature = "timings")
            && let Some(timings) = self.client().and_then(|client| client.timings(task))
        {
            for (name, nanoseconds) in timings.named() {
                dict.set_item(name, nanoseconds)?;
            }
            if let Some(state) = timings.worker_state() {
                dict.set_item("worker_state", state)?;
            }
        }
        let class = py.import("gristmill._timings")?.getattr("Timings")?;
        Ok(Owned::from_bound(class.call((), Some(&dict))?))
    }
}
