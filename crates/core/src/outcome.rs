//! Outcomes of tasks.

use std::sync::Arc;

use gristmill_wire::{Epoch, SlotId, TaskId};

use crate::Payload;

/// Final state of a task. There is exactly one per task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The function returned.
    Succeeded,
    /// The function raised, or the call could not be sent at all.
    Failed,
    /// The task was cancelled before it started, or stopped on request.
    Cancelled,
    /// The deadline passed before the task started, or its timeout stopped it.
    TimedOut,
    /// A task whose result it needed did not succeed.
    DependencyFailed,
    /// The worker was lost while it ran the task, and the budget was used up.
    Lost,
    /// The engine can run no task any more, or cannot run this one.
    Refused,
}

impl Status {
    /// Number of final states.
    pub const COUNT: usize = 7;
}

/// Result or failure of a final task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TaskOutcome<'a> {
    /// The function returned this value.
    Returned(&'a Payload),
    /// The function raised this exception.
    Raised(&'a Payload),
    /// The task was cancelled.
    Cancelled,
    /// The task ran out of time.
    TimedOut {
        /// True if the task had started (its timeout ended it), false if not (its deadline did).
        started: bool,
        /// Exception that the interrupt raised, or a `FailureKind::Loading` that names what was being loaded; `None` if
        /// the task was killed in its own code, or never ran.
        raised: Option<&'a Payload>,
    },
    /// A task that this one depends on failed.
    DependencyFailed {
        /// The first task of the chain of failures. It stays readable while this one does.
        root: TaskId,
    },
    /// The worker was lost.
    Lost(&'a LossReport),
    /// No worker can be started.
    StartFailed(&'a StartFailure),
    /// No worker can have the task's context.
    ContextFailed(&'a StartFailure),
    /// The client itself broke, for this reason.
    Poisoned(&'a str),
    /// The task waits for a slot below too many tasks that wait themselves, and no spare worker is left.
    NestedTooDeep,
}

/// Cause of a worker's loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// A signal ended it.
    Signal(i32),
    /// It left with this code without being asked to.
    Exit(i32),
    /// The keeper died, and the worker with it.
    Keeper,
    /// It was killed because it did not answer.
    Stalled,
    /// It wrote bytes into its ring that are no answer, and was killed.
    Corrupt,
    /// The engine that it belonged to was lost, or the connection to it.
    Node,
}

/// Death of a worker, as the keeper reports it.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Cause of the death.
    pub cause: LossCause,
    /// Process id of the worker.
    pub pid: u32,
    /// True if the kernel killed it because memory ran out, if that can be determined.
    pub oom: bool,
    /// Last lines of its stderr.
    pub detail: Box<str>,
    /// Name of what it was loading, such as "importing module numpy"; empty if it loaded nothing or this is unknown.
    pub loading: Box<str>,
    /// Records that it had claimed and started, read after its death.
    pub progress: crate::RingProgress,
}

/// Facts about a worker's death, shared by the tasks that it lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossReport {
    /// Slot of the worker.
    pub slot: SlotId,
    /// Epoch of the process in that slot.
    pub epoch: Epoch,
    /// Process id of the worker.
    pub pid: u32,
    /// Cause of the death.
    pub cause: LossCause,
    /// Node that the worker ran on; empty is this one.
    pub node: Box<str>,
    /// True if it was killed because memory ran out.
    pub oom: bool,
    /// Task because of which the engine killed it, if the engine did.
    pub killed_for: Option<TaskId>,
    /// Last lines of its stderr.
    pub detail: Box<str>,
    /// Name of what it was loading when it died, such as "importing module numpy"; empty if it loaded nothing or this
    /// is unknown.
    pub loading: Box<str>,
}

impl LossReport {
    /// Returns the report for a lost node, or for the tasks that the node had. It names no worker.
    #[must_use]
    pub fn of_node(node: &str, detail: &str) -> Self {
        Self {
            slot: SlotId(0),
            epoch: Epoch(0),
            pid: 0,
            cause: LossCause::Node,
            node: node.into(),
            oom: false,
            killed_for: None,
            detail: detail.into(),
            loading: Box::default(),
        }
    }
}

/// Failed start of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// Description of the failure, with the worker's stderr.
    pub text: Box<str>,
    /// True if another try cannot help (the initializer raised, the interpreter is missing).
    pub permanent: bool,
    /// True if this is no failure: the lease on the workers has expired.
    pub is_expiry: bool,
}

/// Content of a task record: the arguments of a live task, then its outcome.
#[derive(Debug)]
pub(crate) enum TaskContent {
    Payload(Payload),
    Empty,
    Root(TaskId),
    Loss(Arc<LossReport>),
    Start(Arc<StartFailure>),
    Context(Arc<StartFailure>),
    Poison(Arc<str>),
    TooDeep,
}

const _: () = assert!(size_of::<TaskContent>() == 24);

impl TaskContent {
    pub fn outcome(&self, status: Status, started: bool) -> TaskOutcome<'_> {
        match (self, status) {
            (Self::Payload(value), Status::Succeeded) => TaskOutcome::Returned(value),
            (Self::Payload(raised), Status::TimedOut) => {
                TaskOutcome::TimedOut { started, raised: Some(raised) }
            }
            (Self::Payload(raised), _) => TaskOutcome::Raised(raised),
            (Self::Empty, Status::TimedOut) => TaskOutcome::TimedOut { started, raised: None },
            (Self::Empty, _) => TaskOutcome::Cancelled,
            (Self::Root(root), _) => TaskOutcome::DependencyFailed { root: *root },
            (Self::Loss(report), _) => TaskOutcome::Lost(report),
            (Self::Start(failure), _) => TaskOutcome::StartFailed(failure),
            (Self::Context(failure), _) => TaskOutcome::ContextFailed(failure),
            (Self::Poison(reason), _) => TaskOutcome::Poisoned(reason),
            (Self::TooDeep, _) => TaskOutcome::NestedTooDeep,
        }
    }
}
