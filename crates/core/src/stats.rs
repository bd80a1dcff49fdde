//! Snapshots of the engine and of its tasks. Taking one changes neither.

use gristmill_wire::{Attempt, ContextId, FunctionId, PeerId, SlotId, Span, TaskId, WorkerState};

use crate::options::Origin;
use crate::outcome::{Status, TaskOutcome};
use crate::slots::{RATE_NS, Slot, SlotState};
use crate::task::{State, flag};
use crate::{Core, NONE, Payload};

/// Timings of a task's last attempt. Ticks of the client's clock; 0 for events that did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptTimings {
    /// Time of the submission.
    pub submitted_ticks: u64,
    /// Time from the submission until the record was in a ring; resolution: one reading per batch of sends.
    pub written_after: Span,
    /// Time at which user code began.
    pub started_ticks: u64,
    /// Time from the claim to the start.
    pub claimed_before: Span,
    /// Run time of user code.
    pub ran: Span,
    /// Time from the end of the run until the answer was published; resolution: the worker's batch.
    pub published_after: Span,
    /// Time from the submission until the answer was drained; resolution: one reading per batch of answers.
    pub drained_after: Span,
    /// State of its worker: hot, warm or cold.
    pub worker_state: WorkerState,
}

/// Snapshot of one task.
#[derive(Debug, Clone, Copy)]
pub struct TaskView<'a> {
    /// Final state, once the task has one.
    pub status: Option<Status>,
    /// Result or failure, once the task is final.
    pub outcome: Option<TaskOutcome<'a>>,
    /// True if the task is in a worker's ring, or at a peer with all results that it needs: it may run.
    pub is_sent: bool,
    /// True if the task is final and its user code had begun.
    pub has_started: bool,
    /// Number of earlier placements.
    pub attempt: Attempt,
    /// Timings of the last attempt.
    pub timings: AttemptTimings,
    /// Function that the task calls.
    pub function: FunctionId,
    /// Value that the submitter chose for the task.
    pub handle: u64,
    /// Slot that the task is in or was last in.
    pub slot: Option<SlotId>,
    /// Peer that the task is delegated to.
    pub peer: Option<PeerId>,
    /// Running parent of a nested task; `External` for any other task.
    pub origin: Origin,
}

/// Estimated load of the busy workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Number of busy workers.
    pub busy: usize,
    /// Expected time between two of their answers, ns: that of the workers with the shortest tasks, if others run long, and
    /// `u64::MAX` if all tasks wait for others.
    pub answer_gap_ns: u64,
    /// Expected time until the first of them has nothing to do, ns.
    pub least_backlog_ns: u64,
    /// Least number of records that one of them has.
    pub least_depth: u32,
    /// True if tasks are ready that no worker has yet.
    pub has_ready: bool,
}

/// Snapshot of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotStats {
    /// State of the slot.
    pub state: SlotState,
    /// Records sent and not answered.
    pub in_flight: u32,
    /// Tasks of its stack that wait for tasks that they submitted.
    pub waiting: u32,
    /// Expected run time of the records in flight, ns.
    pub backlog_ns: u64,
}

/// Use of one context since it was defined, and its workers and tasks now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextStats {
    /// Workers that came up with it.
    pub deployments: u64,
    /// Calls that ran on these workers; calls per deployment show how well a setup is shared.
    pub calls: u64,
    /// Total run time of these calls, clock ticks.
    pub busy_ticks: u64,
    /// Those of these calls that tasks here submitted.
    pub nested_calls: u64,
    /// Total run time of the nested calls, clock ticks.
    pub nested_ticks: u64,
    /// Workers that have it, or will have it.
    pub workers: u32,
    /// Tasks that these workers have in their rings.
    pub running: u64,
    /// Tasks that wait for one of these workers.
    pub waiting: u64,
}

/// Counts since the start, and numbers of outstanding tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Tasks accepted.
    pub submitted: u64,
    /// Final tasks by [`Status`].
    pub finished: [u64; Status::COUNT],
    /// Runs by [`WorkerState`].
    pub worker_states: [u64; WorkerState::COUNT],
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
    /// Workers killed for a task, or because they did not leave.
    pub kills: u64,
    /// Unstarted tasks that came back from a lost worker.
    pub replaced: u64,
    /// Tasks taken back from one worker for another.
    pub stolen: u64,
    /// Total run time of tasks, clock ticks.
    pub busy_ticks: u64,
    /// Answers that fit no placement: late ones of attempts that were given up.
    pub stale_answers: u64,
    /// Tasks without a final state.
    pub outstanding: u64,
    /// Outstanding tasks accepted above the limit.
    pub overflow: u64,
    /// Outstanding tasks that wait for a worker.
    pub ready: u64,
    /// Outstanding tasks that wait for parents.
    pub blocked: u64,
    /// Outstanding tasks in rings or at peers.
    pub in_flight: u64,
    /// Snapshots of all slots.
    pub slots: Vec<SlotStats>,
}

impl Stats {
    /// Returns the number of tasks that ended with a status.
    #[must_use]
    pub fn ended(&self, status: Status) -> u64 {
        self.finished[status as usize]
    }
}

impl Core {
    /// Returns the counts since the start, and the numbers of outstanding tasks.
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

    /// Returns the load of the busy workers.
    #[must_use]
    pub fn load(&self) -> Load {
        let busy = || self.live_slots().iter().filter(|slot| slot.in_flight.len > 0);
        // Answers in `RATE_NS`: a mean over all tasks would hide a worker with short ones beside one in a long one.
        let rate: u64 = busy().map(Slot::answer_rate).sum();
        let busy_count = busy().count();
        let longest = if busy_count == 0 { 0 } else { u64::MAX };
        Load {
            busy: busy_count,
            answer_gap_ns: RATE_NS.checked_div(rate).unwrap_or(longest),
            least_backlog_ns: busy().map(|slot| slot.backlog_ns).min().unwrap_or(0),
            least_depth: busy().map(|slot| slot.in_flight.len).min().unwrap_or(0),
            has_ready: self.has_ready(),
        }
    }

    /// Returns true if an outstanding task has a priority, or a worker begins only tasks above one.
    #[must_use]
    pub const fn has_priorities(&self) -> bool {
        self.priorities.is_used()
    }

    /// Returns the outcome of a final task; `None` if it is not final or was released. The cheap part of
    /// [`Self::task`].
    #[inline]
    #[must_use]
    pub fn outcome(&self, id: TaskId) -> Option<TaskOutcome<'_>> {
        let task = &self.tasks[self.tasks.find(id)?];
        let is_final = task.state == State::Final;
        is_final.then(|| task.content.outcome(task.status, task.has(flag::STARTED)))
    }

    /// Returns true if a task has its final state, or was released.
    #[inline]
    #[must_use]
    pub fn is_final(&self, id: TaskId) -> bool {
        self.tasks.find(id).is_none_or(|index| self.tasks[index].state == State::Final)
    }

    /// Returns the tasks without a final state, including those whose futures are gone: all, or those that were
    /// submitted before `ticks`.
    #[must_use]
    pub fn outstanding(&self, before_ticks: Option<u64>) -> Vec<TaskId> {
        let is_meant = |index: &u32| {
            let task = &self.tasks[*index];
            let is_early = before_ticks.is_none_or(|before| task.submitted_ticks < before);
            is_early && !matches!(task.state, State::Free | State::Promised | State::Final)
        };
        (0..self.tasks.end()).filter(is_meant).map(|index| self.tasks.id(index)).collect()
    }

    /// Returns the context of a task; `None` if the task is not known.
    #[must_use]
    pub fn context(&self, id: TaskId) -> Option<ContextId> {
        Some(self.context_of(self.tasks.find(id)?))
    }

    /// Returns the submission time of a task, clock ticks.
    #[inline]
    #[must_use]
    pub fn submitted_ticks(&self, id: TaskId) -> Option<u64> {
        self.tasks.find(id).map(|index| self.tasks[index].submitted_ticks)
    }

    /// Returns the number of tasks that wait for a worker.
    #[must_use]
    pub const fn ready_len(&self) -> u64 {
        self.waiting_count()
    }

    /// Returns the total run time of tasks, clock ticks.
    #[must_use]
    pub const fn busy_ticks(&self) -> u64 {
        self.counts.busy_ticks
    }

    /// Returns the number of workers that take tasks.
    #[must_use]
    pub fn worker_count(&self) -> u32 {
        let ready = self.live_slots().iter().filter(|slot| slot.state == SlotState::Ready).count();
        u32::try_from(ready).unwrap_or(u32::MAX)
    }

    /// Returns true if some task is a batch, which may be split into single tasks.
    #[must_use]
    pub const fn has_batches(&self) -> bool {
        self.batches > 0
    }

    /// Returns a task's arguments, until it is final.
    #[must_use]
    pub fn arguments(&self, id: TaskId) -> Option<&Payload> {
        let task = &self.tasks[self.tasks.find(id)?];
        (!matches!(task.state, State::Final | State::Promised)).then(|| task.payload())
    }

    /// Returns a snapshot of a task; `None` if it was released.
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
        let is_elsewhere = matches!(task.state, State::Delegated | State::Returned);
        Some(TaskView {
            status,
            outcome: status.map(|status| task.content.outcome(status, task.has(flag::STARTED))),
            // A task that was delegated before its parents ended cannot run before they end.
            is_sent: match task.state {
                State::Sent | State::Returned => true,
                State::Delegated => task.sequence == 0,
                _ => false,
            },
            has_started: status.is_some() && task.has(flag::STARTED),
            attempt: task.attempt,
            timings: task.timings(),
            function: task.function,
            handle: task.handle,
            slot: (task.slot != u16::MAX && !is_elsewhere).then_some(SlotId(task.slot)),
            peer: is_elsewhere.then_some(PeerId(task.slot)),
            origin,
        })
    }
}
