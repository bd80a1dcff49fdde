//! How tasks end.

use std::sync::Arc;

use gristmill_wire::{Epoch, SlotId, TaskId};

use crate::Payload;

/// The final state of a task. There is exactly one per task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The function returned.
    Succeeded,
    /// The function raised, or the call could not be sent at all.
    Failed,
    /// Cancelled before it started, or stopped on request.
    Cancelled,
    /// Its deadline passed before it started, or its timeout stopped it.
    TimedOut,
    /// A task whose result it needed did not succeed.
    DependencyFailed,
    /// Its worker was lost while it ran, beyond its budget.
    Lost,
    /// The engine can run nothing any more, or cannot run this one.
    Refused,
}

impl Status {
    /// How many there are.
    pub const COUNT: usize = 7;
}

/// What a final task has to say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome<'a> {
    /// The value.
    Returned(&'a Payload),
    /// The exception.
    Raised(&'a Payload),
    /// Cancelled.
    Cancelled,
    /// Out of time.
    TimedOut {
        /// Whether it had started (its timeout) or not (its deadline).
        started: bool,
        /// What it raised when it was interrupted; none if it was killed or never ran.
        raised: Option<&'a Payload>,
    },
    /// The first task of the chain of failures; it stays readable as long as this one.
    DependencyFailed {
        /// That task.
        root: TaskId,
    },
    /// How the worker was lost.
    Lost(&'a LossReport),
    /// No worker can be started.
    StartFailed(&'a StartFailure),
    /// No worker can have its context.
    ContextFailed(&'a StartFailure),
    /// The client itself broke; the reason.
    Poisoned(&'a str),
    /// It waits for a place below too many tasks that wait themselves, and no spare worker is left.
    NestedTooDeep,
}

/// Why a worker is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// A signal ended it.
    Signal(i32),
    /// It left with this code without being asked to.
    Exit(i32),
    /// The keeper died, and it with the keeper.
    Keeper,
    /// It was killed because it did not answer.
    Stalled,
    /// What it wrote into its ring was not an answer; it was killed.
    Corrupt,
    /// The engine that it belonged to was lost, or the way to it.
    Node,
}

/// The death of a worker, as the keeper tells it.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// The process.
    pub pid: u32,
    /// Whether the kernel ended it for want of memory, as far as can be told.
    pub oom: bool,
    /// The last lines of its stderr.
    pub detail: Box<str>,
    /// What it had claimed and started, read after its death.
    pub progress: crate::Progress,
}

/// What a lost task knows of its worker's death; shared by the tasks of one death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossReport {
    /// The worker's slot.
    pub slot: SlotId,
    /// Which process of that slot it was.
    pub epoch: Epoch,
    /// The process.
    pub pid: u32,
    /// Why it died.
    pub cause: LossCause,
    /// The node that it was on; none is this one.
    pub node: Box<str>,
    /// Whether for want of memory.
    pub oom: bool,
    /// Whether the engine killed it, because of another task.
    pub killed_for: Option<TaskId>,
    /// The last lines of its stderr.
    pub detail: Box<str>,
}

impl LossReport {
    /// The loss of a whole node, or of what it had: no worker of it is known.
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
        }
    }
}

/// Why a worker did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// What happened, with the worker's stderr.
    pub text: Box<str>,
    /// Whether another try cannot help (the initializer raised, the interpreter is missing).
    pub permanent: bool,
    /// It is none: the time for which there were workers is over.
    pub is_expiry: bool,
}

/// What a record holds: the arguments while it lives, then its outcome.
#[derive(Debug)]
pub(crate) enum Content {
    Payload(Payload),
    Empty,
    Root(TaskId),
    Loss(Arc<LossReport>),
    Start(Arc<StartFailure>),
    Context(Arc<StartFailure>),
    Poison(Arc<str>),
    TooDeep,
}

const _: () = assert!(size_of::<Content>() == 24);

impl Content {
    pub fn outcome(&self, status: Status, started: bool) -> Outcome<'_> {
        match (self, status) {
            (Self::Payload(value), Status::Succeeded) => Outcome::Returned(value),
            (Self::Payload(raised), Status::TimedOut) => {
                Outcome::TimedOut { started, raised: Some(raised) }
            }
            (Self::Payload(raised), _) => Outcome::Raised(raised),
            (Self::Empty, Status::TimedOut) => Outcome::TimedOut { started, raised: None },
            (Self::Empty, _) => Outcome::Cancelled,
            (Self::Root(root), _) => Outcome::DependencyFailed { root: *root },
            (Self::Loss(report), _) => Outcome::Lost(report),
            (Self::Start(failure), _) => Outcome::StartFailed(failure),
            (Self::Context(failure), _) => Outcome::ContextFailed(failure),
            (Self::Poison(reason), _) => Outcome::Poisoned(reason),
            (Self::TooDeep, _) => Outcome::NestedTooDeep,
        }
    }
}
