//! The interface between the worker's loop and the Python (or native) functions that it calls.

use gristmill_wire::{ContextId, FunctionId, ParentEntry, ResourceGrant, SlotId, Verdict};

/// One task, copied out of the ring.
#[derive(Debug)]
pub struct TaskCall<'a> {
    /// Sequence of its record; the calls of a batch share the batch's.
    pub sequence: u64,
    /// The function to call.
    pub function: FunctionId,
    /// Encoded arguments, or an `ArenaDescriptor` of them (see `arena`).
    pub payload: &'a [u8],
    /// True if the payload is a descriptor.
    pub arena: bool,
    /// The results that the arguments refer to, in order.
    pub parents: ParentList<'a>,
    /// The resource grant of the task: what it holds besides its worker.
    pub grant: ResourceGrant,
    /// The worker slots whose CPU slots a wide task holds, its own worker's included; empty if it holds only that one.
    pub places: &'a [SlotId],
}

/// The results of a task's parents, still encoded.
#[derive(Debug, Clone, Copy)]
pub struct ParentList<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) count: u32,
}

impl<'a> ParentList<'a> {
    /// No parents.
    pub(crate) const NONE: Self = Self { bytes: &[], count: 0 };

    /// Iterates over the entries and the bytes of all parents, in order. Yields fewer than [`Self::count`] if the
    /// record is malformed.
    pub fn iter(&self) -> impl Iterator<Item = (ParentEntry, &'a [u8])> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| {
            let (entry, bytes, behind) = split_parent(rest)?;
            rest = behind;
            Some((entry, bytes))
        })
    }

    /// Returns the number of parents.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }
}

/// Splits one parent off the front. Returns its entry, its bytes, and the bytes behind them.
pub(crate) fn split_parent(bytes: &[u8]) -> Option<(ParentEntry, &[u8], &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    let (second, rest) = rest.split_first_chunk::<8>()?;
    let entry = ParentEntry::from_words([u64::from_le_bytes(*first), u64::from_le_bytes(*second)]);
    let size = entry.size as usize;
    let (padded, behind) = rest.split_at_checked(gristmill_wire::padded_size(size))?;
    Some((entry, &padded[..size], behind))
}

/// Maximum bytes that a callee may append to a reply; anything larger goes to the arena.
pub const REPLY_MAX: usize = 32 << 10;

/// Runs functions. The worker calls these methods on its main thread. A call may re-enter the worker (to wait), which
/// then makes further calls below it on the stack.
pub trait Callee {
    /// Registers the definition of a function id. The first call loads the function; a failure to load belongs to that
    /// call.
    fn define(&self, function: FunctionId, definition: &[u8]);

    /// Drops the definition of a function id: no task names the id until it is defined again.
    fn forget(&self, function: FunctionId) {
        let _ = function;
    }

    /// Runs one task and appends the encoded value, or exception, to `out`: at most [`REPLY_MAX`] bytes.
    fn call(&self, call: &TaskCall<'_>, out: &mut Vec<u8>) -> Reply;

    /// Runs `wait`, which may block. A callee that holds a lock which others want (the interpreter's) releases it
    /// meanwhile.
    fn while_idle(&self, wait: &mut dyn FnMut());

    /// Returns the ticks that the last call took to load its function, or 0 if it was loaded already. The worker reads
    /// this once after each call.
    #[inline]
    fn take_loading(&self) -> u64 {
        0
    }

    /// Restores the value that [`Self::take_loading`] returned, for the outer call that goes on.
    fn put_loading(&self, ticks: u64) {
        let _ = ticks;
    }

    /// Returns whether the callee can run another call below the one that waits, for example because stack is left.
    fn may_nest(&self) -> bool {
        true
    }

    /// Runs the handlers of pending signals. Returns true if a handler raised, which ends the wait.
    fn has_raised(&self) -> bool {
        false
    }

    /// Returns true if no other task may run in this process: the worker then ends after the task that it runs.
    #[inline]
    fn is_unfit(&self) -> bool {
        false
    }

    /// Waits, within a bound, until what the last calls wrote to the standard streams is out: the worker calls this before
    /// it publishes their results. `ran` is the ticks that the last call took, or the calls of a batch together. A callee
    /// that cannot tell cheaply if a call has written asks the system only after calls that were long enough for it.
    #[inline]
    fn settle_output(&self, ran: u64) {
        let _ = ran;
    }

    /// Reports that the task of a watched ticket has ended.
    fn completed(&self, ticket: u32) {
        let _ = ticket;
    }

    /// Takes the tickets and contexts that nothing refers to any more, if there are at least `at_least` of them; otherwise
    /// takes none.
    fn take_dropped(&self, at_least: usize) -> Dropped {
        let _ = at_least;
        Dropped::default()
    }
}

/// Tickets and contexts that nothing refers to any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Tickets of tasks that tasks submitted.
    pub tickets: Vec<u32>,
    /// Contexts that those tasks named.
    pub contexts: Vec<ContextId>,
}

impl Dropped {
    /// Returns the number of tickets and contexts together.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.tickets.len() + self.contexts.len()
    }
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// True if the appended bytes are an `ArenaDescriptor`.
    pub arena: bool,
}
