//! Kinds of resources that tasks may lack. If a task lacks a resource, the tasks behind it that need the same kind need
//! not be looked at.

use gristmill_wire::ResourceRequest;

/// A set of the kinds of resources that a task may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds(u8);

/// Number of possible sets of kinds.
const SETS: usize = 8;

impl Kinds {
    /// More than one CPU slot.
    pub const PLACES: Self = Self(4);

    /// Returns the kinds that a task requests. A single CPU slot is no kind, because every task needs one.
    pub fn of(demand: &ResourceRequest) -> Self {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        Self(
            bit(demand.memory > 0, 1)
                | bit(demand.gpus > 0, 2)
                | bit(demand.places() > 1, Self::PLACES.0),
        )
    }

    /// Returns the kinds that a task requests besides CPU slots.
    pub fn besides_places(demand: &ResourceRequest) -> Self {
        Self::of(&ResourceRequest { cores: 0, ..*demand })
    }

    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if some of these kinds are not in `other`.
    pub const fn has_more_than(self, other: Self) -> bool {
        self.0 & !other.0 != 0
    }

    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Number of tasks that request each set of kinds.
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

    /// Returns true if every task requests some kind in `short`.
    pub fn all_meet(&self, short: Kinds) -> bool {
        let sets = (0u8..).map(Kinds).zip(self.0);
        sets.filter(|&(_, count)| count > 0).all(|(kinds, _)| kinds.meets(short))
    }
}
