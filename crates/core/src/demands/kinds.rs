//! What tasks may be short of: who is behind one that lacks a thing, and needs it too, need not be looked at.

use gristmill_wire::Demand;

/// Kinds of things that a task may be short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds(u8);

/// Sets of kinds.
const SETS: usize = 8;

impl Kinds {
    /// Several places.
    pub const PLACES: Self = Self(4);

    /// Those that a task asks for; a place is always one of them.
    pub fn of(demand: &Demand) -> Self {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        Self(
            bit(demand.memory > 0, 1)
                | bit(demand.gpus > 0, 2)
                | bit(demand.places() > 1, Self::PLACES.0),
        )
    }

    /// Those of what there is besides places.
    pub fn besides_places(demand: &Demand) -> Self {
        Self::of(&Demand { cores: 0, ..*demand })
    }

    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether some of these are not among the others.
    pub const fn has_more_than(self, other: Self) -> bool {
        self.0 & !other.0 != 0
    }

    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// How many tasks ask for which kinds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KindCounts([u32; SETS]);

impl KindCounts {
    pub fn add(&mut self, kinds: Kinds) {
        self.0[usize::from(kinds.0)] += 1;
    }

    pub fn remove(&mut self, kinds: Kinds) {
        self.0[usize::from(kinds.0)] -= 1;
    }

    pub fn has(&self, kinds: Kinds) -> bool {
        self.0[usize::from(kinds.0)] > 0
    }

    /// Whether every task asks for something of `short`.
    pub fn all_meet(&self, short: Kinds) -> bool {
        let sets = (0u8..).map(Kinds).zip(self.0);
        sets.filter(|&(_, count)| count > 0).all(|(kinds, _)| kinds.meets(short))
    }
}
