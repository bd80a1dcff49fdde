//! What a worker calls: the seam between the loop here and Python (or native) functions above.

use gristmill_wire::{FunctionId, ParentEntry, Verdict};

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
}

/// The results of a task's parents, still encoded.
#[derive(Debug, Clone, Copy)]
pub struct ParentList<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) count: u16,
}

impl<'a> ParentList<'a> {
    /// The entry and the bytes of parent `index`; `None` beyond the last or when the record is malformed.
    #[must_use]
    pub fn get(&self, index: u16) -> Option<(ParentEntry, &'a [u8])> {
        let mut rest = self.bytes;
        for place in 0..self.count {
            let (entry, bytes, behind) = split_parent(rest)?;
            if place == index {
                return Some((entry, bytes));
            }
            rest = behind;
        }
        None
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

/// Runs functions. Its methods run on the worker's main thread, one at a time.
pub trait Callee {
    /// Learns what a function id stands for from now on. A definition that does not load makes the *calls* fail.
    fn define(&mut self, function: FunctionId, definition: &[u8]);

    /// Runs one task and appends the encoded value, or exception, to `out`: at most [`REPLY_MAX`] bytes.
    fn call(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Reply;

    /// Runs `wait`, which may block: a callee that holds a lock others want (the interpreter's) gives it up meanwhile.
    fn while_idle(&mut self, wait: &mut dyn FnMut());
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// `Returned`, `Raised` or `Interrupted`.
    pub verdict: Verdict,
    /// What was appended is an `ArenaDescriptor`.
    pub arena: bool,
}
