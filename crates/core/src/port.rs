//! Interface of the state machine to its environment: one trait, dispatched statically.

use gristmill_wire::{
    Attempt, ContextId, FunctionId, PeerId, ResourceGrant, SlotId, TaskExtension, TaskFlags, TaskId,
};

use crate::edges::Edge;
use crate::slab::Slab;
use crate::task::TaskTable;
use crate::{Floor, NONE, Payload, RemoteDispatch, Status};

/// Result of writing a frame.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The frame is in the ring, under this sequence. Sequences of a slot grow; a new process may begin again at 0.
    Written(u64),
    /// The ring has no room now. Nothing changed.
    Full,
    /// The task can never be sent; the payload is the exception that it ends with.
    Failed(Payload),
}

/// Known holders of a task's largest argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holders {
    /// Some peers that have the argument or are receiving it. The engine looks at each of them.
    pub peers: Vec<PeerId>,
    /// Time that another peer would need to fetch the argument, nanoseconds.
    pub fetch_ns: u64,
}

/// Result of taking one record back.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeBackResult {
    /// The task has not started and will not.
    Taken,
    /// The worker may have claimed the record before. The answer will show whether the task started.
    Undecided,
}

/// Progress of a worker in its ring. `claimed`, `started` and `ended` are each the sequence of a record plus 1, or 0 if
/// there is no such record. `claimed` and `started` only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingProgress {
    /// The last record that the worker has looked at.
    pub claimed: u64,
    /// The last record whose user code began.
    pub started: u64,
    /// The record whose user code ended last. It is not the highest of those that ended if the worker ran records inside
    /// the wait of another.
    pub ended: u64,
    /// Start of the record with the sequence `started - 1`, monotonic nanoseconds.
    pub started_at_ns: u64,
    /// Progress in the batch that the worker runs or ran last.
    pub calls: Option<CallProgress>,
}

/// Progress of a worker in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallProgress {
    /// Sequence of the batch's record.
    pub sequence: u64,
    /// Calls whose user code began.
    pub started: u32,
}

/// Run of a task that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedRun {
    /// Low half of its record's sequence.
    pub sequence: u32,
    /// Start of the run, clock ticks.
    pub began_ticks: u64,
    /// End of the run, clock ticks.
    pub ended_ticks: u64,
}

/// Reason to kill a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// This task outran its timeout and its grace.
    TimedOut(TaskId),
    /// This task was cancelled and outran its grace.
    Cancelled(TaskId),
    /// The worker was asked to leave and outran its grace.
    Stayed,
}

/// Resources that the worker of a context has besides its CPU slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerGrant {
    /// GPUs and number of CPU slots; none of either if the context asks for no more than a worker.
    pub grant: ResourceGrant,
    /// The CPU slots, if they are named: in order, the worker's own among them.
    pub places: Vec<SlotId>,
}

/// Environment of the state machine. The state machine calls it inside its own calls; an implementation must not call
/// back.
pub trait Port {
    /// Writes the frame of a task into the slot's ring.
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent;

    /// Tries to take records back, with one heavy barrier for all. Writes the results into `taken`, in the order of
    /// `sequences`.
    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>);

    /// Stops a claimed batch: no further call of it begins. Costs one heavy barrier. Returns how many of its calls were
    /// claimed; none of the later ones will run. Returns `None` if the number is not certain.
    fn stop_batch(&mut self, slot: SlotId, sequence: u64) -> Option<u32> {
        let _ = (slot, sequence);
        None
    }

    /// Returns how many calls of a batch have a result that was taken in.
    fn results(&self, batch: TaskId) -> u32 {
        let _ = batch;
        0
    }

    /// Reports that the last calls of a batch have become the tasks `rest`. Returns the handle that all of them have.
    fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> u64 {
        let _ = (batch, rest);
        0
    }

    /// Sets the floor of a slot: no task below this priority begins there from now on; `i32::MIN` lets every task
    /// begin. The worker answers records below the floor as not started.
    fn set_floor(&mut self, slot: SlotId, priority: i32) {
        let _ = (slot, priority);
    }

    /// Returns how far the slot's worker has claimed, started and ended records.
    fn progress(&self, slot: SlotId) -> RingProgress;

    /// Asks the worker to interrupt the record `sequence`, if it runs that record.
    fn interrupt(&mut self, slot: SlotId, sequence: u64);

    /// Ends the processes that an interrupted task left behind. The task ended after the interrupt, so its worker was not
    /// killed.
    fn end_started(&mut self, slot: SlotId, by: StoppedRun) {
        let _ = (slot, by);
    }

    /// Kills the slot's worker and its descendants. `Core::slot_lost` reports the end.
    fn kill(&mut self, slot: SlotId, why: KillReason);

    /// Starts a process with a context (none if `context` is 0). The process has the resources `grant` while it lives.
    /// `Core::slot_ready` or `Core::slot_failed` reports the result.
    fn spawn(&mut self, slot: SlotId, context: ContextId, grant: WorkerGrant);

    /// Drops a forgotten context that no task needs any more. Workers that have it leave.
    fn context_dropped(&mut self, context: ContextId) {
        let _ = context;
    }

    /// Unloads a context that is not used now: its setup need not be kept.
    fn unload_context(&mut self, context: ContextId) {
        let _ = context;
    }

    /// Asks the slot's worker, which has nothing in flight, to leave. `Core::slot_lost` reports the end.
    fn retire(&mut self, slot: SlotId);

    /// Sends a task to a peer.
    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        let _ = (peer, dispatch);
        Sent::Full
    }

    /// Returns the peers that have the largest blob that a payload names. The payload is a task's arguments, or the result
    /// of one of its parents. Of many such peers, returns the first by id from `near` upwards, then from 0. The engine looks
    /// arguments up only if the options say that they are bulky.
    fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        let _ = (payload, near);
        Holders::default()
    }

    /// Asks a peer to stop a task, or not to start it.
    fn stop_at_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, grace_ns: u64) {
        let _ = (peer, task, attempt, grace_ns);
    }

    /// Asks a peer not to start a task. The peer's answer or `Core::peer_kept_task` reports the result.
    fn withdraw_from_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        let _ = (peer, task, attempt);
    }

    /// Asks a peer to return up to `count` tasks that have not started. Their answers and then `Core::peer_recalled`
    /// report the result.
    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        let _ = (peer, count);
    }

    /// Sets a peer's floor for the tasks of a context, or for those without one: no task below it begins there, except in a
    /// worker whose running task waits for other tasks. Each later task of the context that arrives there adds one to
    /// `mark`. `Core::peer_vacant` reports more workers that idle because of the floor, with the mark at that time.
    fn floor_at_peer(&mut self, peer: PeerId, context: ContextId, (floor, mark): (Floor, u32)) {
        let _ = (peer, context, floor, mark);
    }

    /// Tells the peer that set the floor of a context, or of tasks without one, how many workers idle because of it.
    /// The mark tells which of the peer's tasks had arrived by then. A count of 0 reports that a task waits that was
    /// promised an idle worker.
    fn tell_vacant(&mut self, peer: PeerId, context: ContextId, (count, mark): (u32, u32)) {
        let _ = (peer, context, count, mark);
    }

    /// Reports that a task is final: exactly once per task.
    fn finished(&mut self, task: TaskId, handle: u64, status: Status);

    /// Returns true if the slot's worker sleeps, so that the next record would cost a wake-up.
    fn is_asleep(&self, slot: SlotId) -> bool {
        let _ = slot;
        false
    }

    /// Returns the clock ticks for timings: may be one reading per batch.
    fn ticks(&self) -> u64 {
        0
    }
}

/// Task on its way to a worker.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// The task.
    pub id: TaskId,
    /// Function to call.
    pub function: FunctionId,
    /// Number of this placement of the task.
    pub attempt: Attempt,
    /// [`TaskFlags::EXTENDED`] and [`TaskFlags::NESTED`] as they apply.
    pub flags: TaskFlags,
    /// Results that its arguments name, in the order of `Submission::parents`.
    pub parents: ParentOutcomes<'a>,
    /// Arguments of the task.
    pub payload: &'a Payload,
    /// Deadline, priority, context and resource grant, if it has any.
    pub extension: Option<TaskExtension>,
    /// CPU slots of a wide task, its own among them: as many as its grant names.
    pub places: &'a [SlotId],
}

/// Parents of a task with their results, in order. Cheap to clone: a first pass can add up sizes.
#[derive(Debug, Clone)]
pub struct ParentOutcomes<'a> {
    tasks: &'a TaskTable,
    edges: &'a Slab<Edge>,
    next: u32,
}

impl<'a> ParentOutcomes<'a> {
    pub(crate) fn new(tasks: &'a TaskTable, edges: &'a Slab<Edge>, first: u32) -> Self {
        Self { tasks, edges, next: first }
    }

    /// Returns true if no parent is left.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next == NONE
    }
}

impl<'a> Iterator for ParentOutcomes<'a> {
    type Item = (TaskId, &'a Payload);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == NONE {
            return None;
        }
        let edge = &self.edges[self.next];
        self.next = edge.next_parent;
        Some((self.tasks.id(edge.parent), self.tasks[edge.parent].payload()))
    }
}
