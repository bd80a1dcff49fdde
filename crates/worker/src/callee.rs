//! What a worker calls: the seam between the loop here and Python (or native) functions above.

use gristmill_wire::{ContextId, Equipment, FunctionId, ParentEntry, SlotId, Verdict};

/// One task, copied out of the ring.
#[derive(Debug)]
pub struct Call<'a> {
    /// What to call.
    pub function: FunctionId,
    /// Encoded arguments, or an `ArenaDescriptor` of them (see `arena`).
    pub payload: &'a [u8],
    /// The payload is a descriptor.
    pub arena: bool,
    /// The results that the arguments name, in order.
    pub parents: ParentList<'a>,
    /// What it has besides its worker.
    pub equipment: Equipment,
    /// The slots whose places a wide task has, its worker's among them; empty: its worker's alone.
    pub places: &'a [SlotId],
}

/// The results of a task's parents, still encoded.
#[derive(Debug, Clone, Copy)]
pub struct ParentList<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) count: u16,
}

impl<'a> ParentList<'a> {
    /// No parents.
    pub(crate) const NONE: Self = Self { bytes: &[], count: 0 };

    /// The entries and the bytes of all parents, in order; fewer than [`Self::count`] when the record is malformed.
    pub fn iter(&self) -> impl Iterator<Item = (ParentEntry, &'a [u8])> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| {
            let (entry, bytes, behind) = split_parent(rest)?;
            rest = behind;
            Some((entry, bytes))
        })
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.count
    }
}

/// Takes one parent off the front: its entry, its bytes, and what is behind them.
pub(crate) fn split_parent(bytes: &[u8]) -> Option<(ParentEntry, &[u8], &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    let (second, rest) = rest.split_first_chunk::<8>()?;
    let entry = ParentEntry::from_words([u64::from_le_bytes(*first), u64::from_le_bytes(*second)]);
    let size = entry.size as usize;
    let (padded, behind) = rest.split_at_checked(gristmill_wire::padded_size(size))?;
    Some((entry, &padded[..size], behind))
}

/// The most that a callee may append: what is larger goes to the arena.
pub const REPLY_MAX: usize = 32 << 10;

/// Runs functions. Its methods run on the worker's main thread; a call may come back to the worker, which then makes
/// another one below it.
pub trait Callee {
    /// Learns what a function id stands for from now on. A definition that does not load makes the *calls* fail.
    fn define(&self, function: FunctionId, definition: &[u8]);

    /// Runs one task and appends the encoded value, or exception, to `out`: at most [`REPLY_MAX`] bytes.
    fn call(&self, call: &Call<'_>, out: &mut Vec<u8>) -> Reply;

    /// Runs `wait`, which may block: a callee that holds a lock others want (the interpreter's) gives it up meanwhile.
    fn while_idle(&self, wait: &mut dyn FnMut());

    /// Whether there is stack, or what else the callee counts, for another call below the one that waits.
    fn may_nest(&self) -> bool {
        true
    }

    /// Handles signals that have come; whether a handler raised something, which ends the wait.
    fn has_raised(&self) -> bool {
        false
    }

    /// A watched ticket's task has ended.
    fn completed(&self, ticket: u32) {
        let _ = ticket;
    }

    /// What nobody holds any more, if that is `at_least` so much; nothing otherwise.
    fn take_dropped(&self, at_least: usize) -> Dropped {
        let _ = at_least;
        Dropped::default()
    }
}

/// Numbers that nothing stands for any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Of tasks that tasks submitted.
    pub tickets: Vec<u32>,
    /// Of contexts that those named.
    pub contexts: Vec<ContextId>,
}

impl Dropped {
    /// How many they are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.tickets.len() + self.contexts.len()
    }
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// What was appended is an `ArenaDescriptor`.
    pub arena: bool,
}
