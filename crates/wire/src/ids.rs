//! Ids: small integers with one type each, so that they cannot be mixed up.

use std::fmt;
use std::hash::Hasher;

/// The id of a task for the life of its client: an index into the client's task table and the generation of that entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u64);

impl TaskId {
    /// Joins a table index with the generation that tells the successive tasks at that index apart.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | index as u64)
    }

    /// Makes an id from a word that a peer sent. The task table decides whether the id is still valid.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the id as one word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the index into the task table.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns the number of earlier tasks at that index.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}.{}", self.index(), self.generation())
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({}.{})", self.index(), self.generation())
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $word:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A worker's slot in its client's segment. If a worker is replaced, the new process gets the same slot.
    SlotId(u16), "slot"
);
id!(
    /// A count of the successive processes in a worker slot, or of the successive peers with one number.
    Epoch(u32), "epoch"
);
id!(
    /// A function, as the client numbers it for its workers.
    FunctionId(u32), "function"
);
id!(
    /// A function context; 0 is none.
    ContextId(u32), "context"
);
id!(
    /// An engine at the other end of a link, as the engine at this end numbers it.
    PeerId(u16), "peer"
);
id!(
    /// The number of earlier placements of a task, modulo 256; the task need not have started in them. It distinguishes the
    /// answer of the current placement from a late answer of an earlier one.
    Attempt(u8), "attempt"
);

/// A hasher of one multiplication. Its keys are ids that this program assigned itself, and addresses; an attacker cannot choose
/// them to make them collide.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // The hash table takes the index from the low bits and the tag from the high bits; the product mixes upwards only.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
