//! What the machine asks of the world: one trait, dispatched statically.

use gristmill_wire::{
    Attempt, ContextId, Equipment, FunctionId, PeerId, SlotId, TaskExtension, TaskFlags, TaskId,
};

use crate::edges::Edge;
use crate::slab::Slab;
use crate::task::TaskTable;
use crate::{Errand, Holders, NONE, Payload, Status};

/// What became of a frame.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// It is in the ring, under this sequence. Sequences of a slot grow; a new process may begin
    /// again at 0.
    Written(u64),
    /// No room now. Nothing changed.
    Full,
    /// It can never be sent; the payload is the exception that the task ends with.
    Failed(Payload),
}

/// Whether a record came back.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeBack {
    /// It has not started and will not.
    Taken,
    /// The worker had claimed something beyond it; its answer will tell.
    Undecided,
}

/// What a worker says of its ring, each as a sequence plus 1, 0 for none. `claimed` and `started`
/// only grow; `ended` is the last one, which in a wait is not the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Records looked at.
    pub claimed: u64,
    /// Records whose user code began.
    pub started: u64,
    /// Records whose user code ended.
    pub ended: u64,
    /// When the record `started - 1` began, monotonic nanoseconds.
    pub started_at_ns: u64,
    /// How far it has come in the batch that it runs or ran last.
    pub calls: Option<CallProgress>,
}

/// How far a worker has come in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallProgress {
    /// The batch's record.
    pub sequence: u64,
    /// Calls whose user code began.
    pub started: u32,
}

/// Why a worker is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// This task outran its timeout and its grace.
    TimedOut(TaskId),
    /// This task was cancelled and outran its grace.
    Cancelled(TaskId),
    /// It was asked to leave and outran its grace.
    Stayed,
}

/// What the worker of a context has besides its place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outfit {
    /// Its GPUs, and how many places it fills; nothing of either where the context asks for no more than a worker.
    pub equipment: Equipment,
    /// Those places, where they are named, its own among them, in order.
    pub places: Vec<SlotId>,
}

/// The world as the machine sees it. Calls happen inside the machine's own calls and must not come
/// back into it.
pub trait Port {
    /// Writes the frame of a task into the slot's ring.
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent;

    /// Tries to take records back, one heavy barrier for all; answers into `taken`, in the order of
    /// `sequences`.
    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>);

    /// Lets no further call of a claimed batch begin, one heavy barrier; gives how many calls of it were claimed: none
    /// behind them will run. `None` where that is not certain.
    fn stop_batch(&mut self, slot: SlotId, sequence: u64) -> Option<u32> {
        let _ = (slot, sequence);
        None
    }

    /// How many calls of a batch have given a result, as far as results were taken in.
    fn results(&self, batch: TaskId) -> u32 {
        let _ = batch;
        0
    }

    /// Tells that the last calls of a batch have become the tasks `rest`; gives the handle of each.
    fn split(&mut self, batch: TaskId, rest: &[TaskId]) -> u64 {
        let _ = (batch, rest);
        0
    }

    /// What the slot's worker has claimed, started and ended.
    fn progress(&self, slot: SlotId) -> Progress;

    /// Asks the worker to interrupt the record `sequence` if that is what it runs.
    fn interrupt(&mut self, slot: SlotId, sequence: u64);

    /// Kills the slot's worker and its descent. Comes back as `Core::slot_lost`.
    fn kill(&mut self, slot: SlotId, why: KillReason);

    /// Starts a process that has a context, unless it is 0, and for as long as it lives the equipment that the context asks
    /// for. Comes back as `Core::slot_ready` or `Core::slot_failed`.
    fn spawn(&mut self, slot: SlotId, context: ContextId, outfit: Outfit);

    /// Nobody needs a context any more that was forgotten; workers that have it leave.
    fn context_dropped(&mut self, context: ContextId) {
        let _ = context;
    }

    /// Nobody uses a context now: what was set up for it need not be kept.
    fn unload_context(&mut self, context: ContextId) {
        let _ = context;
    }

    /// Asks the slot's worker, which has nothing in flight, to leave. Comes back as
    /// `Core::slot_lost`.
    fn retire(&mut self, slot: SlotId);

    /// Sends a task to a peer.
    fn send_to_peer(&mut self, peer: PeerId, errand: Errand<'_>) -> Sent {
        let _ = (peer, errand);
        Sent::Full
    }

    /// Who has the largest part of a task's arguments, or of a large result among them: where there are many, those whose
    /// numbers come next after that of `near`, or `near` itself. Arguments are asked for only if the options say that they
    /// are bulky.
    fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        let _ = (payload, near);
        Holders::default()
    }

    /// Asks a peer to stop a task, or not to start it.
    fn stop_at_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, grace_ns: u64) {
        let _ = (peer, task, attempt, grace_ns);
    }

    /// Asks a peer not to start a task. Comes back as its answer, or as `Core::peer_kept`.
    fn withdraw_from_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        let _ = (peer, task, attempt);
    }

    /// Asks a peer to give back up to `count` tasks that have not started. Comes back as their answers, then
    /// `Core::peer_recalled`.
    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        let _ = (peer, count);
    }

    /// Tells that a task is final: exactly once per task.
    fn finished(&mut self, task: TaskId, handle: u64, status: Status);

    /// Whether the slot's worker sleeps, so that the next record would cost a wake-up.
    fn is_asleep(&self, slot: SlotId) -> bool {
        let _ = slot;
        false
    }

    /// The clock ticks that tags are stamped with: may be one reading per batch.
    fn ticks(&self) -> u64 {
        0
    }
}

/// One task on its way to a worker.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// The task.
    pub id: TaskId,
    /// What to call.
    pub function: FunctionId,
    /// Which placement of it this is.
    pub attempt: Attempt,
    /// [`TaskFlags::EXTENDED`] and [`TaskFlags::NESTED`] as they apply.
    pub flags: TaskFlags,
    /// The results that its arguments name, in the order of `Submission::parents`.
    pub parents: Parents<'a>,
    /// Its arguments.
    pub payload: &'a Payload,
    /// What else it asks for.
    pub extension: Option<TaskExtension>,
    /// The slots whose places a wide task has, its own among them: as many as its equipment names.
    pub places: &'a [SlotId],
}

/// The parents of a task with their results, in order. Cheap to clone: a first pass can add up
/// sizes.
#[derive(Debug, Clone)]
pub struct Parents<'a> {
    tasks: &'a TaskTable,
    edges: &'a Slab<Edge>,
    next: u32,
}

impl<'a> Parents<'a> {
    pub(crate) fn new(tasks: &'a TaskTable, edges: &'a Slab<Edge>, first: u32) -> Self {
        Self { tasks, edges, next: first }
    }

    /// Whether there is none (left).
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next == NONE
    }
}

impl<'a> Iterator for Parents<'a> {
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
