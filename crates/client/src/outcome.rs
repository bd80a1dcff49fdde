//! The status, the outcome and the timings of a task, for the layers above.

use std::fmt::Write as _;

use gristmill_core::{
    AttemptTimings, LossCause, LossReport, Payload, Status, TaskOutcome, TaskView,
};
use gristmill_keeper::signal_name;
use gristmill_sync::clock::TickScale;
use gristmill_wire::{FailureKind, Span, TaskFailure, TaskId};

use crate::bundle::EncodedOutcome;

/// A summary of a task's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// No worker has the task.
    Waiting,
    /// A worker's ring has the task: it may have started.
    Running,
    /// The task returned a value.
    Succeeded,
    /// The task failed.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

impl TaskStatus {
    pub(crate) fn of(view: &TaskView<'_>) -> Self {
        match view.status {
            None if view.is_sent => Self::Running,
            None => Self::Waiting,
            Some(Status::Succeeded) => Self::Succeeded,
            Some(Status::Cancelled) => Self::Cancelled,
            Some(_) => Self::Failed,
        }
    }
}

/// The outcome of a task, copied out of the table. Texts are complete sentences for the user.
#[derive(Debug)]
pub enum Ended {
    /// The task returned this encoded value.
    Value(EncodedOutcome),
    /// The task raised this encoded exception.
    Raised(EncodedOutcome),
    /// The task was cancelled.
    Cancelled,
    /// The task ran out of time.
    TimedOut(String),
    /// The worker died while it ran the task.
    Lost(String),
    /// No worker could be started.
    StartFailed(String),
    /// No worker can have the context of the task.
    ContextFailed(String),
    /// The time for which there were workers is over.
    Expired(String),
    /// The engine cannot run the task.
    Refused(String),
    /// A task among the arguments gave no value.
    DependencyFailed {
        /// Sentence that names that task.
        text: String,
        /// Outcome of that task.
        root: Box<Ended>,
    },
}

impl Ended {
    /// Copies the outcome of a final task. `name` is the name of its function. `root` returns the outcome and the name of
    /// another task.
    pub(crate) fn of(
        task: TaskId,
        name: &str,
        outcome: &TaskOutcome<'_>,
        encoded: impl Fn(&Payload) -> EncodedOutcome,
        root: impl FnOnce(TaskId) -> (Option<Self>, String),
    ) -> Self {
        match outcome {
            TaskOutcome::Returned(payload) => Self::Value(encoded(payload)),
            TaskOutcome::Raised(payload) => Self::Raised(encoded(payload)),
            TaskOutcome::Cancelled => Self::Cancelled,
            TaskOutcome::TimedOut { started: true, raised } => {
                let loading = raised.and_then(|raised| loading_text(&encoded(raised)));
                Self::TimedOut(format!(
                    "{task} ({name}) ran longer than its timeout and was stopped{}",
                    loading.map_or_else(String::new, |text| format!(" while {text}"))
                ))
            }
            TaskOutcome::TimedOut { started: false, .. } => Self::TimedOut(format!(
                "{task} ({name}) had not started when its start_within had passed, and was not run"
            )),
            TaskOutcome::Lost(report) => Self::Lost(lost_text(task, name, report)),
            TaskOutcome::StartFailed(failure) if failure.is_expiry => {
                Self::Expired(format!("{task} ({name}) has not ended: {}", failure.text))
            }
            TaskOutcome::StartFailed(failure) => Self::StartFailed(failure.text.to_string()),
            TaskOutcome::ContextFailed(failure) => {
                Self::ContextFailed(format!("{task} ({name}) was not run: {}", failure.text))
            }
            TaskOutcome::Poisoned(reason) => {
                Self::Refused(format!("{task} ({name}) was given up: {reason}"))
            }
            TaskOutcome::NestedTooDeep => Self::Refused(format!(
                "{task} ({name}) cannot run: all workers and spares, or the memory and GPUs that it needs, are held by \
                 tasks that wait for tasks that they submitted: let tasks wait for fewer tasks, or return the inputs and \
                 submit from the program"
            )),
            TaskOutcome::DependencyFailed { root: first } => {
                let (root, named) = root(*first);
                Self::DependencyFailed {
                    text: format!(
                        "{task} ({name}) was not run: {named}, whose result is an argument, returned no value"
                    ),
                    root: Box::new(root.unwrap_or(Self::Cancelled)),
                }
            }
        }
    }
}

/// Returns the module that was being loaded when a task was stopped, if the payload contains it.
fn loading_text(raised: &EncodedOutcome) -> Option<String> {
    let bytes = raised.bytes();
    let failure = TaskFailure::decode(&bytes).ok()?;
    let is_loading = failure.kind == FailureKind::Loading;
    is_loading.then(|| String::from_utf8_lossy(failure.bytes).into_owned())
}

/// Returns the text for a lost task: the task, the worker, the cause, and the last lines on standard error.
fn lost_text(task: TaskId, name: &str, report: &LossReport) -> String {
    if report.cause == LossCause::Node {
        return format!(
            "{task} ({name}) was lost: node {} was lost while it had the task, which may have run: {}",
            report.node, report.detail
        );
    }
    let place = if report.node.is_empty() { String::new() } else { format!(" on {}", report.node) };
    let mut text = format!(
        "{task} ({name}) was lost: worker {} (process {}){place} {}",
        report.slot.0,
        report.pid,
        death_text(report.cause, report.oom)
    );
    if report.loading.is_empty() {
        text.push_str(" while it ran the task");
    } else {
        let _ = write!(text, " while {}", report.loading);
    }
    if !report.detail.is_empty() {
        let _ = write!(text, "\nits last lines on standard error:\n{}", report.detail);
    }
    text
}

/// Returns the end of a process as the end of a sentence, with the kernel's part in it.
pub(crate) fn death_text(cause: LossCause, oom: bool) -> String {
    let by_kernel = if oom { ", most likely by the kernel because memory was short" } else { "" };
    format!("{}{by_kernel}", cause_text(cause))
}

/// Returns the end of a process as the end of a sentence.
pub(crate) fn cause_text(cause: LossCause) -> String {
    match cause {
        LossCause::Signal(signal) => {
            format!("was killed by signal {signal} ({})", signal_name(signal))
        }
        LossCause::Exit(code) => format!("exited with code {code}"),
        LossCause::Keeper => "died with the keeper process".to_owned(),
        LossCause::Stalled => "did not answer and was killed".to_owned(),
        LossCause::Node => "was on a node that was lost".to_owned(),
        LossCause::Corrupt => "wrote damaged data into its ring and was killed".to_owned(),
    }
}

/// The times of a task's steps, nanoseconds after its submission; steps that did not happen are missing.
#[derive(Debug, Clone, Copy)]
pub struct TaskTimings {
    timings: AttemptTimings,
    scale: TickScale,
}

impl TaskTimings {
    pub(crate) fn new(timings: AttemptTimings, scale: TickScale) -> Self {
        Self { timings, scale }
    }

    /// Returns the state of the worker before it ran the task (hot, warm or cold), if the task has run.
    pub fn worker_state(&self) -> Option<&'static str> {
        (self.timings.started_ticks != 0).then(|| self.timings.worker_state.name())
    }

    /// Returns the name and the time of each step, in the order of a task's life. No time is before the one ahead of it.
    ///
    /// Two of the times are read once a batch: a worker claims records that are still being written, and publishes while the
    /// answers of others are drained. The times that the worker noted for each task limit these two.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let timings = &self.timings;
        let span = |span: Span| self.scale.to_ns(span.ticks());
        let started =
            self.scale.to_ns(timings.started_ticks.saturating_sub(timings.submitted_ticks));
        let has_run = timings.started_ticks != 0;
        let claimed = started.saturating_sub(span(timings.claimed_before));
        let ended = started + span(timings.ran);
        let published = ended + span(timings.published_after);
        let written = span(timings.written_after).min(if has_run { claimed } else { u64::MAX });
        let drained = span(timings.drained_after).max(if has_run { published } else { 0 });
        [
            ("submitted", true, 0),
            ("written", timings.written_after != Span::default() || has_run, written),
            ("claimed", has_run, claimed),
            ("started", has_run, started),
            ("ended", has_run, ended),
            ("published", has_run, published),
            ("drained", timings.drained_after != Span::default(), drained),
        ]
        .into_iter()
        .filter_map(|(name, happened, ns)| happened.then_some((name, ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_once_a_batch_is_in_order_with_what_a_worker_noted() {
        let timings = AttemptTimings {
            submitted_ticks: 1_000,
            written_after: Span::from_ticks(50),
            started_ticks: 1_045,
            claimed_before: Span::from_ticks(5),
            ran: Span::from_ticks(60),
            published_after: Span::from_ticks(10),
            drained_after: Span::from_ticks(30),
            ..AttemptTimings::default()
        };
        let times: Vec<u64> =
            TaskTimings::new(timings, TickScale::NANOSECONDS).named().map(|(_, ns)| ns).collect();
        assert_eq!(times, [0, 40, 40, 45, 105, 115, 115]);
        let waits = AttemptTimings { started_ticks: 0, drained_after: Span::default(), ..timings };
        let times: Vec<_> = TaskTimings::new(waits, TickScale::NANOSECONDS).named().collect();
        assert_eq!(
            times,
            [("submitted", 0), ("written", 50)],
            "no bound applies to a task that has not run"
        );
    }
}
