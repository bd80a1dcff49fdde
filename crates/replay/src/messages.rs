//! The messages to engines, and the effects of engines that are visible outside them.

use gristmill_core::{Attempt, TaskId};

use crate::workers::Record;

/// A task that the client sent to a node, and the number of the attempt for which it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskPlacement {
    /// Index of the task in the graph.
    pub number: u32,
    pub task: TaskId,
    pub attempt: Attempt,
}

/// A parent of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParentPart {
    pub number: u32,
    /// True if the node has the parent's value, or will have it because it runs the parent; otherwise the value comes with
    /// the task.
    pub is_there: bool,
}

/// A node's answer about a task: how the task ended there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HomeEnd {
    /// The task returned; it ran for this time, nanoseconds.
    Returned(u64),
    /// The task did not run to its end at this node and will not; the client may send it again.
    Unstarted,
}

/// A message to an engine, which handles its messages one after the other.
#[derive(Debug)]
pub(crate) enum Message {
    /// The program submits this task.
    Submit(u32),
    /// One of the engine's workers has ended a task that ran for this time, nanoseconds.
    Answer { slot: u16, record: Record, ran_ns: u64 },
    /// A poll of the engine is due.
    Poll,
    /// To a node: a task to run, and the tasks whose answers the client has.
    Dispatch { placement: TaskPlacement, parents: Box<[ParentPart]>, confirmed: Vec<u32> },
    /// To a node: give back up to this number of tasks.
    Recall(u32),
    /// From a node: its answer about a task.
    Home { peer: u16, placement: TaskPlacement, end: HomeEnd },
    /// From a node: it has given back all tasks that it can of the last recall.
    Recalled { peer: u16 },
}

/// An effect of an engine that is visible outside it.
#[derive(Debug)]
pub(crate) enum EngineEffect {
    /// One of the engine's workers polls its ring.
    Rouse { slot: u16 },
    /// The client sends a message to a node, with `size` bytes of values.
    ToNode { peer: u16, message: Message, size: u64 },
    /// A node sends a message to the client, with `size` bytes of values.
    ToClient { message: Message, size: u64 },
}
