//! Acceptance of tasks.

use std::sync::Arc;

use gristmill_wire::{ContextId, FunctionId, PARENTS_MAX, TaskId};
use thiserror::Error;

use crate::contexts::PLAIN;
use crate::estimate::Estimate;
use crate::machine::Phase;
use crate::options::{Extra, Origin, TaskOptions};
use crate::outcome::TaskContent;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, StartFailure, Status, edges};

/// Call to run.
#[derive(Debug)]
pub struct Submission<'a> {
    /// Function to call.
    pub function: FunctionId,
    /// Encoded arguments.
    pub payload: Payload,
    /// Value that the submitter chooses for the task: comes back with [`Port::finished`].
    pub handle: u64,
    /// Time of the submission, clock ticks.
    pub submitted_ticks: u64,
    /// Tasks whose results the arguments name. They must not be released yet. A task may occur twice.
    pub parents: &'a [TaskId],
    /// Options; `None` is all defaults and costs nothing.
    pub options: Option<&'a TaskOptions>,
    /// Submitter.
    pub origin: Origin,
}

/// Reason to refuse a submission.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The limit of outstanding tasks is reached. Another try may succeed when some have ended.
    #[error("{outstanding} tasks are outstanding and the limit is {limit}")]
    LimitReached {
        /// Tasks without a final state.
        outstanding: u64,
        /// Limit for this origin.
        limit: u64,
    },
    /// The limit of argument bytes of outstanding tasks is reached. Another try may succeed when some have ended.
    #[error("the arguments of outstanding tasks have {bytes} bytes and the limit is {limit}")]
    BytesReached {
        /// Argument bytes on the heap; the arena has a limit of its own.
        bytes: u64,
        /// Limit of these bytes.
        limit: u64,
    },
    /// The engine was shut down.
    #[error("the executor was shut down")]
    ShutDown,
    /// No worker can be started.
    #[error("{}", broken_text(.0))]
    Broken(Arc<StartFailure>),
    /// The client itself broke.
    #[error("the executor is broken: {0}")]
    Poisoned(Arc<str>),
    /// The task needs more than the engine has, however long it waits.
    #[error("the task needs {}, and the executor has {}", what.amount(*asked), what.amount(*all))]
    TooMuch {
        /// Resource that is short.
        what: Resource,
        /// Amount that the task needs.
        asked: u64,
        /// Amount that the engine has.
        all: u64,
    },
    /// A worker with the task's context needs more than the engine has, however long the task waits.
    #[error("each worker of context {} needs {}, and the executor has {}", context.0, what.amount(*asked), what.amount(*all))]
    ContextTooMuch {
        /// The context.
        context: ContextId,
        /// Resource that is short.
        what: Resource,
        /// Amount that a worker needs.
        asked: u64,
        /// Amount that the engine has.
        all: u64,
    },
    /// The context that the task names was not defined, or was forgotten.
    #[error("the context {} is unknown", context.0)]
    UnknownContext {
        /// The context.
        context: ContextId,
    },
    /// A task with a context has a demand of its own, but in an engine with workers the demand belongs to the context.
    #[error(
        "a task in a context cannot request cores, memory or GPUs: request them for the context"
    )]
    DemandInContext,
    /// The id of a parent is not valid: its future was dropped.
    #[error("{parent}, whose result is an argument, is unknown: its future was dropped")]
    UnknownParent {
        /// Id of the parent whose future was dropped.
        parent: TaskId,
    },
    /// The arguments name more results of other tasks than a frame can count.
    #[error(
        "the arguments hold {count} futures, and the limit is {limit}: let other tasks gather some \
         of them, and pass the futures of these tasks"
    )]
    TooManyParents {
        /// Number of results that the arguments name.
        count: usize,
        /// Most results that the arguments may name.
        limit: u32,
    },
}

/// Resource that tasks ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Workers whose CPU slots a task fills.
    Workers,
    /// Bytes of memory.
    Memory,
    /// Thousandths of a GPU.
    Gpus,
}

impl Resource {
    /// Returns an amount of the resource as text, in the units of the user.
    #[must_use]
    pub fn amount(self, count: u64) -> String {
        let whole = u64::from(gristmill_wire::WHOLE_GPU);
        match (self, count) {
            (Self::Workers, 1) => "1 worker".to_owned(),
            (Self::Workers, _) => format!("{count} workers"),
            (Self::Memory, 1) => "1 byte of memory".to_owned(),
            (Self::Memory, _) => format!("{count} bytes of memory"),
            (Self::Gpus, 0) => "no GPU".to_owned(),
            (Self::Gpus, _) if !count.is_multiple_of(whole) => {
                let share = format!("{}.{:03}", count / whole, count % whole);
                format!("{} of a GPU", share.trim_end_matches('0'))
            }
            (Self::Gpus, _) if count == whole => "1 GPU".to_owned(),
            (Self::Gpus, _) => format!("{} GPUs", count / whole),
        }
    }
}

/// Returns the text of a submission that finds no worker: its workers cannot start, or their time is over.
fn broken_text(failure: &StartFailure) -> String {
    if failure.is_expiry {
        return failure.text.to_string();
    }
    format!("no worker can be started: {}", failure.text)
}

impl SubmitError {
    /// Returns the code that the exception in Python has.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::LimitReached { .. } => "task_limit_reached",
            Self::BytesReached { .. } => "argument_bytes_reached",
            Self::ShutDown => "shut_down",
            Self::Broken(failure) if failure.is_expiry => "lease_expired",
            Self::Broken(_) => "start_failed",
            Self::Poisoned(_) => "executor_broken",
            Self::TooMuch { .. } => "resources_exceeded",
            Self::ContextTooMuch { .. } => "context_resources_exceeded",
            Self::UnknownContext { .. } => "unknown_context",
            Self::DemandInContext => "demand_in_context",
            Self::UnknownParent { .. } => "unknown_argument_future",
            Self::TooManyParents { .. } => "too_many_argument_futures",
        }
    }

    /// Returns the same error for the demand of a context.
    fn of_context(self, context: ContextId) -> Self {
        match self {
            Self::TooMuch { what, asked, all } => {
                Self::ContextTooMuch { context, what, asked, all }
            }
            other => other,
        }
    }

    /// Returns true if another try can succeed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::LimitReached { .. } | Self::BytesReached { .. })
    }
}

impl Core {
    /// Checks whether a task of this origin would be accepted now. Callers ask before they encode the arguments, and
    /// while they wait for room.
    ///
    /// # Errors
    /// All of [`SubmitError`] except those about the task itself: `TooMuch`, `ContextTooMuch`, `UnknownContext`,
    /// `DemandInContext`, `UnknownParent` and `TooManyParents`.
    #[inline]
    pub fn admit(&self, origin: &Origin) -> Result<(), SubmitError> {
        let outstanding = self.counts.outstanding;
        if matches!(self.phase, Phase::Open)
            && outstanding < self.config.outstanding_max
            && self.argument_bytes < self.config.arguments_max
        {
            return Ok(());
        }
        self.admit_slowly(origin)
    }

    #[cold]
    fn admit_slowly(&self, origin: &Origin) -> Result<(), SubmitError> {
        match &self.phase {
            Phase::Open => {}
            Phase::Closing { cancels: false } if matches!(origin, Origin::Nested { .. }) => {}
            Phase::Closing { .. } => return Err(SubmitError::ShutDown),
            Phase::Broken(failure) => return Err(SubmitError::Broken(failure.clone())),
            Phase::Poisoned(reason) => return Err(SubmitError::Poisoned(reason.clone())),
        }
        let can_wait = matches!(origin, Origin::External | Origin::Peer(_));
        let overflow = if can_wait { 0 } else { self.config.overflow_max };
        let limit = self.config.outstanding_max.saturating_add(overflow);
        let outstanding = self.counts.outstanding;
        let (bytes, bytes_max) = (self.argument_bytes, self.config.arguments_max);
        if outstanding >= limit {
            Err(SubmitError::LimitReached { outstanding, limit })
        } else if can_wait && bytes >= bytes_max && outstanding > 0 {
            Err(SubmitError::BytesReached { bytes, limit: bytes_max })
        } else {
            Ok(())
        }
    }

    /// Accepts a task and places it if possible. If a parent has failed, the task may be final before this returns.
    ///
    /// # Errors
    /// [`SubmitError`]; the payload is dropped then.
    #[inline]
    pub fn submit(
        &mut self,
        submission: Submission<'_>,
        now: u64,
        port: &mut impl Port,
    ) -> Result<TaskId, SubmitError> {
        if let Err(error) = self.admit(&submission.origin) {
            self.drop_payload(&submission.payload);
            return Err(error);
        }
        let is_plain = submission.parents.is_empty()
            && submission.options.is_none()
            && !(self.priorities.is_used() && self.is_raised_above())
            && matches!(submission.origin, Origin::External | Origin::Unblockable);
        self.now = now;
        if !is_plain {
            return self.submit_slowly(submission, port);
        }
        let index = self.insert(submission);
        let id = self.tasks.id(index);
        self.place_new(index, port);
        Ok(id)
    }

    /// Returns true if a task at a peer may have a higher priority than a submitted one: peers get the floor of the task at
    /// the peer first.
    #[cold]
    fn is_raised_above(&self) -> bool {
        !self.peers.raised.is_unused()
    }

    #[inline]
    pub(crate) fn insert(&mut self, submission: Submission<'_>) -> u32 {
        let Submission { function, payload, handle, submitted_ticks, .. } = submission;
        self.argument_bytes += payload.heap_size();
        let index = self.tasks.insert(function, payload, handle);
        // Several tasks share a reading of the clock, and still have an order.
        self.submitted_last = submitted_ticks.max(self.submitted_last + 1);
        self.tasks[index].submitted_ticks = self.submitted_last;
        if function.0 as usize >= self.functions.len() {
            let unknown = Estimate::unknown(&self.config);
            self.functions.resize(function.0 as usize + 1, unknown);
        }
        self.counts.submitted += 1;
        self.counts.outstanding += 1;
        index
    }

    fn submit_slowly(
        &mut self,
        submission: Submission<'_>,
        port: &mut impl Port,
    ) -> Result<TaskId, SubmitError> {
        let count = submission.parents.len();
        if count > PARENTS_MAX as usize {
            self.drop_payload(&submission.payload);
            return Err(SubmitError::TooManyParents { count, limit: PARENTS_MAX });
        }
        if let Some(&parent) = submission.parents.iter().find(|&&id| self.tasks.find(id).is_none())
        {
            self.drop_payload(&submission.payload);
            return Err(SubmitError::UnknownParent { parent });
        }
        if let Some(error) = submission.options.and_then(|one| self.check_options(one).err()) {
            self.drop_payload(&submission.payload);
            return Err(error);
        }
        let Submission { parents, options, origin, .. } = submission;
        let index = self.insert(submission);
        let id = self.tasks.id(index);
        if let Some(options) = options {
            let extra = Extra::of_submission(index, options, &self.config);
            let is_owed = extra.is_owed;
            self.owed += u32::from(is_owed);
            self.priorities.enter(options.priority);
            if options.priority < 0 && self.peers.delegated > 0 {
                self.raise_all_delegated();
            }
            self.tasks[index].extra = self.extras.insert(extra);
            if options.context != PLAIN {
                self.context_gains_task(options.context);
            }
            if is_owed {
                self.arm(index);
            }
        }
        match origin {
            Origin::External | Origin::Unblockable => {}
            Origin::Nested { slot, parent } => {
                let extra = self.extra(index);
                self.extras[extra].is_nested = true;
                self.adopt(index, slot, parent);
            }
            Origin::Peer(peer) => {
                let extra = self.extra(index);
                self.extras[extra].from = peer.0;
            }
        }
        if let Some(failed) = self.connect_parents(index, parents) {
            let root = self.hold_root(failed);
            self.finish(index, Status::DependencyFailed, TaskContent::Root(root), port);
        } else if self.tasks[index].sequence > 0 {
            self.block(index, port);
        } else if self.place_in_context(index, port) {
            return Ok(id);
        } else {
            self.make_ready(index);
        }
        self.pump(port);
        Ok(id)
    }

    /// Checks that the task could run here if no other task did.
    fn check_options(&self, options: &TaskOptions) -> Result<(), SubmitError> {
        let TaskOptions { context, demand, .. } = *options;
        if !self.knows_context(context) {
            return Err(SubmitError::UnknownContext { context });
        }
        if self.config.workers > 0 && context != PLAIN && !demand.is_none() {
            return Err(SubmitError::DemandInContext);
        }
        if let Some(needs) = self.needs_of_context(context) {
            return self.check_demand(&needs).map_err(|error| error.of_context(context));
        }
        self.check_demand(&demand)
    }

    /// Makes the edges to the parents and counts the unfinished ones in `sequence`, which is no position in a ring before the
    /// task is sent. Stops at a parent that did not succeed and returns it.
    fn connect_parents(&mut self, child: u32, parents: &[TaskId]) -> Option<u32> {
        let mut last = NONE;
        let mut unfinished = 0;
        for &id in parents {
            let parent = id.index();
            let is_final = self.tasks[parent].state == State::Final;
            let is_there = is_final || self.tasks[parent].state == State::Returned;
            if is_final && self.tasks[parent].status != Status::Succeeded {
                return Some(parent);
            }
            let pair = (parent, child);
            last = edges::connect(&mut self.tasks, &mut self.edges, pair, last, !is_final);
            unfinished += u32::from(!is_there);
        }
        self.tasks[child].sequence = unfinished;
        None
    }

    /// Inserts a task that has returned `value` already: the result of another engine's task, for tasks here that need
    /// it. Call [`Core::release`] to free it once no task needs it.
    pub fn insert_value(&mut self, value: Payload) -> TaskId {
        let index = self.tasks.insert(FunctionId(0), value, 0);
        let task = &mut self.tasks[index];
        task.state = State::Final;
        task.status = Status::Succeeded;
        self.tasks.id(index)
    }

    /// Returns the side record of a task, and makes it if there is none. Marks the task as one for which the engine has to
    /// do more than take in the answer.
    pub(crate) fn extra(&mut self, index: u32) -> u32 {
        let extra = self.tasks[index].extra;
        if extra == NONE {
            let new = Extra::new(index, &TaskOptions::default(), &self.config);
            self.owed += u32::from(new.is_owed);
            self.tasks[index].extra = self.extras.insert(new);
        } else if !self.extras[extra].is_owed {
            self.extras[extra].is_owed = true;
            self.owed += 1;
        }
        self.tasks[index].extra
    }

    /// Returns true if the future of a task is gone.
    #[must_use]
    pub fn is_released(&self, id: TaskId) -> bool {
        self.tasks.find(id).is_none_or(|index| self.tasks[index].has(flag::RELEASED))
    }

    /// Releases a task whose future is gone: its record is freed once it is final and no task needs its result. Until
    /// then it runs on.
    pub fn release(&mut self, id: TaskId) {
        if let Some(index) = self.tasks.find(id) {
            self.tasks[index].flags |= flag::RELEASED;
            self.free_if_unneeded(index);
            self.forget_if_unwanted(index);
        }
    }
}
