//! What engines say to each other, and what is said to them.

use gristmill_core::{Attempt, TaskId};

use crate::workers::Record;

/// A task's name at the client, and which placement of it this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Its number in the graph.
    pub number: u32,
    pub task: TaskId,
    pub attempt: Attempt,
}

/// A task that a task needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParentPart {
    pub number: u32,
    /// The node has it, or will; else its value comes with the task.
    pub is_there: bool,
}

/// How a task ended at a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HomeEnd {
    /// It returned, after so many nanoseconds.
    Returned(u64),
    /// It has not started and will not.
    Unstarted,
}

/// What an engine handles, one after the other.
#[derive(Debug)]
pub(crate) enum Message {
    /// The program submits this task.
    Submit(u32),
    /// A worker of its own has ended a task that ran for so long.
    Answer { slot: u16, record: Record, ran_ns: u64 },
    /// Time has passed.
    Poll,
    /// To a node: a task, and those whose answers the client has.
    Errand { placement: Placement, parents: Box<[ParentPart]>, confirmed: Vec<u32> },
    /// To a node: to give so many back.
    Recall(u32),
    /// From a node: the end of a task.
    Home { peer: u16, placement: Placement, end: HomeEnd },
    /// From a node: that was all.
    Recalled { peer: u16 },
}

/// What an engine has done, which others learn of.
#[derive(Debug)]
pub(crate) enum Deed {
    /// A worker of its own is to look into its ring.
    Rouse { slot: u16 },
    /// The client sends this to a node, with so many bytes of values.
    ToNode { peer: u16, message: Message, size: u64 },
    /// A node sends this to the client.
    ToClient { message: Message, size: u64 },
}
