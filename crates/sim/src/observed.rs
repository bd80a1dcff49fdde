//! Records that the world keeps of what workers and engines did, for later checks.

use gristmill_core::ContextId;

/// A child that was sent to the worker of its parent, to run in the parent's wait.
#[derive(Debug, Clone, Copy)]
pub struct Inner {
    /// The child's number.
    pub number: usize,
    /// Slot of parent and child.
    pub slot: usize,
    /// Set of the slots that were kept for tasks of a higher priority then, one bit each.
    pub kept: u64,
}

/// A call that began.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// Number of the call's task.
    pub number: usize,
    /// Context of its worker.
    pub context: ContextId,
    /// Time of the beginning.
    pub at: u64,
    /// True if its worker may run it in the wait of the task that submitted it.
    pub is_inner: bool,
}
