//! Acceptance of tasks.

use std::sync::Arc;

use gristmill_wire::{ContextId, FunctionId, TaskId};
use thiserror::Error;

use crate::contexts::PLAIN;
use crate::estimate::Estimate;
use crate::machine::Phase;
use crate::options::{Extra, Origin, TaskOptions};
use crate::outcome::Content;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, StartFailure, Status, edges};

/// A call to be run.
#[derive(Debug)]
pub struct Submission<'a> {
    /// What to call.
    pub function: FunctionId,
    /// Its encoded arguments.
    pub payload: Payload,
    /// The submitter's word for the task: comes back with [`Port::finished`].
    pub handle: u64,
    /// When it was submitted, clock ticks.
    pub submitted_ticks: u64,
    /// Tasks whose results its arguments name, each not released yet. One may stand there twice.
    pub parents: &'a [TaskId],
    /// What else it asks for; `None` is all defaults and costs nothing.
    pub options: Option<&'a TaskOptions>,
    /// Who submits it.
    pub origin: Origin,
}

/// Why a task is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// As many tasks are outstanding as may be. Another try may succeed when some have ended.
    #[error("{outstanding} tasks are outstanding and the limit is {limit}")]
    LimitReached {
        /// Tasks without a final state.
        outstanding: u64,
        /// How many there may be, for this origin.
        limit: u64,
    },
    /// The engine was shut down.
    #[error("the executor was shut down")]
    ShutDown,
    /// No worker can be started.
    #[error("no worker can be started: {}", .0.text)]
    Broken(Arc<StartFailure>),
    /// The client itself broke.
    #[error("the executor is broken: {0}")]
    Poisoned(Arc<str>),
    /// It needs more than there is, however long it waits.
    #[error("the task needs {asked} {what}, and there are {all}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much it needs.
        asked: u64,
        /// How much there is.
        all: u64,
    },
    /// What each worker with its context is to have is more than there is, however long it waits.
    #[error("context {} needs {asked} {what} for each worker, and there are {all}", context.0)]
    ContextTooMuch {
        /// Which.
        context: ContextId,
        /// Of what.
        what: &'static str,
        /// How much it needs.
        asked: u64,
        /// How much there is.
        all: u64,
    },
    /// The context that it names was not defined, or was forgotten.
    #[error("the context {} is not known", context.0)]
    UnknownContext {
        /// Which.
        context: ContextId,
    },
    /// A task in a context needs more than a worker, which the context's workers do not have.
    #[error(
        "a task in a context cannot ask for cores, memory or GPUs of its own: its context does"
    )]
    DemandInContext,
    /// A parent's id is not valid: its future was dropped.
    #[error("{parent}, whose result is an argument, is not known any more")]
    UnknownParent {
        /// The id.
        parent: TaskId,
    },
}

impl SubmitError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::LimitReached { .. } => "submit_limit_reached",
            Self::ShutDown => "submit_shut_down",
            Self::Broken(_) => "submit_broken",
            Self::Poisoned(_) => "submit_poisoned",
            Self::TooMuch { .. } => "submit_too_much",
            Self::ContextTooMuch { .. } => "submit_context_too_much",
            Self::UnknownContext { .. } => "submit_unknown_context",
            Self::DemandInContext => "submit_demand_in_context",
            Self::UnknownParent { .. } => "submit_unknown_parent",
        }
    }

    /// The same of what a context asks for.
    fn of_context(self, context: ContextId) -> Self {
        match self {
            Self::TooMuch { what, asked, all } => {
                Self::ContextTooMuch { context, what, asked, all }
            }
            other => other,
        }
    }

    /// Whether another try can succeed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::LimitReached { .. })
    }
}

impl Core {
    /// Whether a task of this origin would be accepted now: to be asked before its arguments are
    /// encoded, and by a caller that waits for room.
    ///
    /// # Errors
    /// All of [`SubmitError`] but `TooMuch`, `ContextTooMuch` and `UnknownParent`.
    #[inline]
    pub fn admit(&self, origin: &Origin) -> Result<(), SubmitError> {
        let outstanding = self.counts.outstanding;
        if matches!(self.phase, Phase::Open) && outstanding < self.config.outstanding_max {
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
        if outstanding < limit {
            Ok(())
        } else {
            Err(SubmitError::LimitReached { outstanding, limit })
        }
    }

    /// Accepts a task and places it as far as possible. It may be final before this returns, when a
    /// parent has failed.
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

    #[inline]
    pub(crate) fn insert(&mut self, submission: Submission<'_>) -> u32 {
        let Submission { function, payload, handle, submitted_ticks, .. } = submission;
        let index = self.tasks.insert(function, payload, handle);
        if crate::HAS_TAGS {
            self.tasks[index].submitted_ticks = submitted_ticks;
        }
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
            self.finish(index, Status::DependencyFailed, Content::Root(root), port);
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

    /// Whether a task could run here if nothing else did.
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

    /// Makes the edges; `sequence` counts the unfinished parents. Stops at a parent that did not
    /// succeed.
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

    /// A task that has returned `value` already: what another engine's task gave, for those here that need it. It goes
    /// with [`Core::release`], once none of them needs it.
    pub fn insert_value(&mut self, value: Payload) -> TaskId {
        let index = self.tasks.insert(FunctionId(0), value, 0);
        let task = &mut self.tasks[index];
        task.state = State::Final;
        task.status = Status::Succeeded;
        self.tasks.id(index)
    }

    /// The side record of a task, made if it has none: something is to be noted there that has to be seen to.
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

    /// Whether the future of a task is gone.
    #[must_use]
    pub fn is_released(&self, id: TaskId) -> bool {
        self.tasks.find(id).is_none_or(|index| self.tasks[index].has(flag::RELEASED))
    }

    /// The future of a task is gone: its record goes once it is final and nobody needs its result.
    /// Until then it runs on.
    pub fn release(&mut self, id: TaskId) {
        if let Some(index) = self.tasks.find(id) {
            self.tasks[index].flags |= flag::RELEASED;
            self.free_if_unneeded(index);
            self.forget_if_unwanted(index);
        }
    }
}
