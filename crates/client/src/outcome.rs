//! What the layers above get to know of a task.

use std::fmt::Write as _;

use gristmill_core::{LossCause, LossReport, Outcome, Payload, Status, Tags, TaskView};
use gristmill_sync::clock::TickScale;
use gristmill_wire::{Span, TaskId};

use crate::bundle::Encoded;

/// A task's state at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskLook {
    /// Not with a worker.
    Waiting,
    /// In a worker's ring: it may have started.
    Running,
    /// A value is there.
    Succeeded,
    /// It ended in another way.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskLook {
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

/// How a task ended, copied out of the table. Texts are complete sentences for the user.
#[derive(Debug)]
pub enum Ended {
    /// It returned; the encoded value.
    Value(Encoded),
    /// It raised; the encoded exception.
    Raised(Encoded),
    /// It was cancelled.
    Cancelled,
    /// It ran out of time.
    TimedOut(String),
    /// Its worker died while it ran.
    Lost(String),
    /// No worker could be started.
    StartFailed(String),
    /// No worker can have its context.
    ContextFailed(String),
    /// The time for which there were workers is over.
    Expired(String),
    /// The engine cannot run it.
    Refused(String),
    /// A task among its arguments gave no value.
    DependencyFailed {
        /// Which, in words.
        text: String,
        /// How that one ended.
        root: Box<Ended>,
    },
}

impl Ended {
    /// Copies the outcome of a final task. `name` is what its function is called.
    pub(crate) fn of(
        task: TaskId,
        name: &str,
        outcome: &Outcome<'_>,
        encoded: impl Fn(&Payload) -> Encoded,
        root: impl FnOnce(TaskId) -> Option<Self>,
    ) -> Self {
        match outcome {
            Outcome::Returned(payload) => Self::Value(encoded(payload)),
            Outcome::Raised(payload) => Self::Raised(encoded(payload)),
            Outcome::Cancelled => Self::Cancelled,
            Outcome::TimedOut { started: true, .. } => Self::TimedOut(format!(
                "{task} ({name}) ran longer than its timeout and was stopped"
            )),
            Outcome::TimedOut { started: false, .. } => Self::TimedOut(format!(
                "{task} ({name}) had not started when its deadline passed, and was not run"
            )),
            Outcome::Lost(report) => Self::Lost(lost_text(task, name, report)),
            Outcome::StartFailed(failure) if failure.is_expiry => {
                Self::Expired(format!("{task} ({name}) has not ended: {}", failure.text))
            }
            Outcome::StartFailed(failure) => Self::StartFailed(failure.text.to_string()),
            Outcome::ContextFailed(failure) => {
                Self::ContextFailed(format!("{task} ({name}) was not run: {}", failure.text))
            }
            Outcome::Poisoned(reason) => {
                Self::Refused(format!("the engine failed inside and {task} was given up: {reason}"))
            }
            Outcome::NestedTooDeep => Self::Refused(format!(
                "{task} ({name}) cannot run: all workers and spares, or the memory and GPUs that it needs, are with \
                 tasks that wait for tasks that they submitted: wait for fewer tasks inside tasks, or return futures' \
                 inputs instead"
            )),
            Outcome::DependencyFailed { root: first } => Self::DependencyFailed {
                text: format!(
                    "{task} ({name}) was not run: {first}, among its arguments, gave no value"
                ),
                root: Box::new(root(*first).unwrap_or(Self::Cancelled)),
            },
        }
    }
}

/// Which task, which worker, what happened, its last words, and what to do.
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
    text.push_str(" while it ran the task");
    if !report.detail.is_empty() {
        let _ = write!(text, "\nits last lines on standard error:\n{}", report.detail);
    }
    text
}

/// What became of a process, and whether the kernel did it, as the end of a sentence.
pub(crate) fn death_text(cause: LossCause, oom: bool) -> String {
    let by_kernel = if oom { ", most likely by the kernel for want of memory" } else { "" };
    format!("{}{by_kernel}", cause_text(cause))
}

/// What became of a process, as the end of a sentence.
pub(crate) fn cause_text(cause: LossCause) -> String {
    match cause {
        LossCause::Signal(signal) => {
            format!("was killed by signal {signal} ({})", signal_name(signal))
        }
        LossCause::Exit(code) => format!("left with exit code {code}"),
        LossCause::Keeper => "died with the keeper process".to_owned(),
        LossCause::Stalled => "did not answer and was killed".to_owned(),
        LossCause::Node => "was on a node that was lost".to_owned(),
        LossCause::Corrupt => "wrote damaged data into its ring and was killed".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGSYS => "SIGSYS",
        _ => "an unnamed signal",
    }
}

/// When a task crossed which border, nanoseconds after it was submitted; what did not happen is missing.
#[derive(Debug, Clone, Copy)]
pub struct TagTimes {
    tags: Tags,
    scale: TickScale,
}

impl TagTimes {
    pub(crate) fn new(tags: Tags, scale: TickScale) -> Self {
        Self { tags, scale }
    }

    /// How ready its worker was, if it has run.
    pub fn temperature(&self) -> Option<&'static str> {
        (self.tags.started_ticks != 0).then(|| self.tags.temperature.name())
    }

    /// Name and time of each border, in the order of a task's life and never before the one ahead.
    ///
    /// Two of them are read once a batch: a worker claims what is still being written, and publishes while others'
    /// answers are drained. What it noted of each task bounds these.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let tags = &self.tags;
        let span = |span: Span| self.scale.to_ns(span.ticks());
        let started = self.scale.to_ns(tags.started_ticks.saturating_sub(tags.submitted_ticks));
        let has_run = tags.started_ticks != 0;
        let claimed = started.saturating_sub(span(tags.claimed_before));
        let ended = started + span(tags.ran);
        let published = ended + span(tags.published_after);
        let written = span(tags.written_after).min(if has_run { claimed } else { u64::MAX });
        let drained = span(tags.drained_after).max(if has_run { published } else { 0 });
        [
            ("submitted", true, 0),
            ("written", tags.written_after != Span::default() || has_run, written),
            ("claimed", has_run, claimed),
            ("started", has_run, started),
            ("ended", has_run, ended),
            ("published", has_run, published),
            ("drained", tags.drained_after != Span::default(), drained),
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
        let tags = Tags {
            submitted_ticks: 1_000,
            written_after: Span::from_ticks(50),
            started_ticks: 1_045,
            claimed_before: Span::from_ticks(5),
            ran: Span::from_ticks(60),
            published_after: Span::from_ticks(10),
            drained_after: Span::from_ticks(30),
            ..Tags::default()
        };
        let times: Vec<u64> =
            TagTimes::new(tags, TickScale::NANOSECONDS).named().map(|(_, ns)| ns).collect();
        assert_eq!(times, [0, 40, 40, 45, 105, 115, 115]);
        let waits = Tags { started_ticks: 0, drained_after: Span::default(), ..tags };
        let times: Vec<_> = TagTimes::new(waits, TickScale::NANOSECONDS).named().collect();
        assert_eq!(times, [("submitted", 0), ("written", 50)], "nothing bounds what has not run");
    }
}
