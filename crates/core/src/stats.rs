//! What can be told of a machine and of a task, without changing either.

use gristmill_wire::{Attempt, FunctionId, PeerId, SlotId, Span, TaskId, Temperature};

use crate::options::Origin;
use crate::outcome::{Outcome, Status};
use crate::slots::SlotState;
use crate::task::{State, flag};
use crate::{Core, NONE, Payload};

/// When a task crossed which border; the last attempt's. Ticks of the client's clock, 0 for what
/// did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags {
    /// When it was submitted.
    pub submitted_ticks: u64,
    /// From the submission until it was in a ring; resolution: one reading per batch of sends.
    pub written_after: Span,
    /// When its user code began.
    pub started_ticks: u64,
    /// From the claim to the start.
    pub claimed_before: Span,
    /// How long user code ran.
    pub ran: Span,
    /// From the end of the run until the answer was published; resolution: the worker's batch.
    pub published_after: Span,
    /// From the submission until the answer was drained; resolution: one reading per batch of
    /// answers.
    pub drained_after: Span,
    /// How ready its worker was.
    pub temperature: Temperature,
}

/// One task, as it is.
#[derive(Debug, Clone, Copy)]
pub struct TaskView<'a> {
    /// Its final state, once it has one.
    pub status: Option<Status>,
    /// What it has to say, once it is final.
    pub outcome: Option<Outcome<'a>>,
    /// Whether it is in a worker's ring, or with a peer: it may run.
    pub is_sent: bool,
    /// Final: whether user code had begun.
    pub has_started: bool,
    /// How often it was placed before.
    pub attempt: Attempt,
    /// When it crossed which border.
    pub tags: Tags,
    /// What it calls.
    pub function: FunctionId,
    /// The submitter's word for it.
    pub handle: u64,
    /// The slot it is or was last in.
    pub slot: Option<SlotId>,
    /// The peer that it is with.
    pub peer: Option<PeerId>,
    /// Who submitted it, while that is of use: the running parent of a nested task.
    pub origin: Origin,
}

/// What workers that have something to do have before them, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// How many they are.
    pub busy: usize,
    /// How long one of their tasks is expected to take.
    pub run_ns: u64,
    /// How long the first of them is expected to be busy without more.
    pub least_backlog_ns: u64,
}

/// One slot, as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStats {
    /// What it is doing.
    pub state: SlotState,
    /// Records sent and not answered.
    pub in_flight: u32,
    /// Tasks of its stack that wait for tasks they submitted.
    pub waiting: u32,
    /// How long they are expected to take, nanoseconds.
    pub backlog_ns: u64,
}

/// What one context was good for since it was defined, and who waits for it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextStats {
    /// Workers that came up with it.
    pub deployments: u64,
    /// Calls that ran on them; by deployments this is its share value.
    pub calls: u64,
    /// How long those ran, together.
    pub busy_ticks: u64,
    /// Those of tasks that tasks here submitted.
    pub nested_calls: u64,
    /// How long those ran, together.
    pub nested_ticks: u64,
    /// Workers that have it, or are to.
    pub workers: u32,
    /// Tasks that they have before them.
    pub running: u64,
    /// Tasks that wait for one of them.
    pub waiting: u64,
}

/// Counts since the start, and what is outstanding now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Tasks accepted.
    pub submitted: u64,
    /// Final tasks by [`Status`].
    pub finished: [u64; Status::COUNT],
    /// Runs by [`Temperature`].
    pub temperatures: [u64; Temperature::COUNT],
    /// Attempts after the function raised.
    pub retries: u64,
    /// Attempts after a loss.
    pub loss_retries: u64,
    /// Attempts after a timeout.
    pub timeout_retries: u64,
    /// Workers lost: not those that left when asked.
    pub losses: u64,
    /// Workers that did not start.
    pub start_failures: u64,
    /// Workers killed for a task.
    pub kills: u64,
    /// Unstarted tasks that came back from a lost worker.
    pub replaced: u64,
    /// Tasks taken back from one worker for another.
    pub stolen: u64,
    /// How long tasks ran, together, clock ticks.
    pub busy_ticks: u64,
    /// Answers that fit no placement: late ones of attempts that were given up.
    pub stale_answers: u64,
    /// Tasks without a final state.
    pub outstanding: u64,
    /// Of these, accepted above the limit.
    pub overflow: u64,
    /// Of these, waiting for a worker.
    pub ready: u64,
    /// Of these, waiting for parents.
    pub blocked: u64,
    /// Of these, in rings.
    pub in_flight: u64,
    /// Per slot.
    pub slots: Vec<SlotStats>,
}

impl Stats {
    /// How many tasks ended so.
    #[must_use]
    pub fn ended(&self, status: Status) -> u64 {
        self.finished[status as usize]
    }
}

impl Core {
    /// Counts, and what is outstanding.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let slots = self.slots.iter().map(|slot| SlotStats {
            state: slot.state,
            in_flight: slot.in_flight.len,
            waiting: slot.waiting,
            backlog_ns: slot.backlog_ns,
        });
        Stats {
            ready: self.waiting_count(),
            blocked: self.blocked,
            in_flight: self.in_flight(),
            overflow: self.counts.outstanding.saturating_sub(self.config.outstanding_max),
            slots: slots.collect(),
            ..self.counts.clone()
        }
    }

    /// What the workers have to do.
    #[must_use]
    pub fn load(&self) -> Load {
        let busy = || self.live_slots().iter().filter(|slot| slot.in_flight.len > 0);
        let tasks: u64 = busy().map(|slot| u64::from(slot.in_flight.len)).sum();
        let backlog_ns: u64 = busy().map(|slot| slot.backlog_ns).sum();
        Load {
            busy: busy().count(),
            run_ns: backlog_ns / tasks.max(1),
            least_backlog_ns: busy().map(|slot| slot.backlog_ns).min().unwrap_or(0),
        }
    }

    /// What a final task has to say; `None` while it is not final or when it was released. The lean
    /// half of [`Self::task`].
    #[inline]
    #[must_use]
    pub fn outcome(&self, id: TaskId) -> Option<Outcome<'_>> {
        let task = &self.tasks[self.tasks.find(id)?];
        let is_final = task.state == State::Final;
        is_final.then(|| task.content.outcome(task.status, task.has(flag::STARTED)))
    }

    /// Whether a task has its final state, or was released.
    #[inline]
    #[must_use]
    pub fn is_final(&self, id: TaskId) -> bool {
        self.tasks.find(id).is_none_or(|index| self.tasks[index].state == State::Final)
    }

    /// The tasks without a final state, also those whose futures are gone: all, or those that were submitted before `ticks`.
    #[must_use]
    pub fn outstanding(&self, before_ticks: Option<u64>) -> Vec<TaskId> {
        let is_meant = |index: &u32| {
            let task = &self.tasks[*index];
            let is_early = before_ticks.is_none_or(|before| task.submitted_ticks < before);
            is_early && !matches!(task.state, State::Free | State::Promised | State::Final)
        };
        (0..self.tasks.end()).filter(is_meant).map(|index| self.tasks.id(index)).collect()
    }

    /// When a task was submitted, ticks.
    #[inline]
    #[must_use]
    pub fn submitted_ticks(&self, id: TaskId) -> Option<u64> {
        self.tasks.find(id).map(|index| self.tasks[index].submitted_ticks)
    }

    /// Tasks that wait for a worker.
    #[must_use]
    pub const fn ready_len(&self) -> u64 {
        self.waiting_count()
    }

    /// How long tasks ran, together, clock ticks.
    #[must_use]
    pub const fn busy_ticks(&self) -> u64 {
        self.counts.busy_ticks
    }

    /// Workers that take tasks.
    #[must_use]
    pub fn worker_count(&self) -> u32 {
        let ready = self.live_slots().iter().filter(|slot| slot.state == SlotState::Ready).count();
        u32::try_from(ready).unwrap_or(u32::MAX)
    }

    /// Whether some task is a batch, of which single tasks may come.
    #[must_use]
    pub const fn has_batches(&self) -> bool {
        self.batches > 0
    }

    /// A task's arguments, until it is final.
    #[must_use]
    pub fn arguments(&self, id: TaskId) -> Option<&Payload> {
        let task = &self.tasks[self.tasks.find(id)?];
        (!matches!(task.state, State::Final | State::Promised)).then(|| task.payload())
    }

    /// Looks at a task; `None` when it was released.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<TaskView<'_>> {
        let task = &self.tasks[self.tasks.find(id)?];
        let status = (task.state == State::Final).then_some(task.status);
        let parent = if task.extra == NONE { NONE } else { self.extras[task.extra].parent };
        let origin = if parent == NONE {
            Origin::External
        } else {
            let slot = SlotId(self.tasks[parent].slot);
            Origin::Nested { slot, parent: self.tasks.id(parent) }
        };
        let is_elsewhere = matches!(task.state, State::Away | State::Returned);
        Some(TaskView {
            status,
            outcome: status.map(|status| task.content.outcome(status, task.has(flag::STARTED))),
            // One that has gone to a peer ahead of its parents' ends cannot run before those.
            is_sent: match task.state {
                State::Sent | State::Returned => true,
                State::Away => task.sequence == 0,
                _ => false,
            },
            has_started: status.is_some() && task.has(flag::STARTED),
            attempt: task.attempt,
            tags: task.tags(),
            function: task.function,
            handle: task.handle,
            slot: (task.slot != u16::MAX && !is_elsewhere).then_some(SlotId(task.slot)),
            peer: is_elsewhere.then_some(PeerId(task.slot)),
            origin,
        })
    }
}
