//! The names of things: small integers, one type each, so that none is mistaken for another.

use std::fmt;
use std::hash::Hasher;

/// Names one task for the life of its client: a place in the client's task table and that place's generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u64);

impl TaskId {
    /// Joins a table index with the generation that tells its occupants apart.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self(((generation as u64) << 32) | index as u64)
    }

    /// Takes an id off the wire; the table it belongs to decides whether it is still valid.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The id as one word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The place in the task table.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// How often that place was used before.
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
    /// A worker's place in its client's segment: the same slot gets another process when a worker is replaced.
    SlotId(u16), "slot"
);
id!(
    /// Which process sits in a slot: counts up each time a ring changes hands.
    Epoch(u32), "epoch"
);
id!(
    /// A function as its workers know it.
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
    /// How often a task was placed before, modulo 256: tells a late answer of an earlier attempt apart.
    Attempt(u8), "attempt"
);

/// For ids that this program gave out itself, in an order nobody chooses: one multiplication.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // The table takes its place from the low bits and a mark from the high ones; the product mixes upwards only.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
