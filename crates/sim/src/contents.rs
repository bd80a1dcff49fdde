//! Large parts of payloads: which bytes they are, so that whoever gets one can tell whether it is the right one.

use gristmill_core::Payload;
use gristmill_wire::Verdict;

use crate::memory::read_value;
use crate::random::Random;
use crate::world::{Entry, Run, World};

/// The longest part, bytes.
const SIZE_MAX: u64 = 1_500;
/// A bit that parts of results have, and those that several tasks share have not.
const MADE: u64 = 1 << 63;

/// The bytes of a part, by its number.
#[must_use]
pub fn content(id: u64) -> Vec<u8> {
    let mut random = Random::new(id);
    let size = 1 + random.index(usize::try_from(SIZE_MAX).expect("small"));
    let words = std::iter::repeat_with(|| random.next()).flat_map(u64::to_le_bytes);
    words.take(size).collect()
}

impl Entry {
    /// Whether its large result, which could stay where it was made, was made again.
    #[must_use]
    pub fn has_made_again(&self) -> bool {
        let has_returned = |run: &&Run| run.end == Some(Verdict::Returned);
        self.may_stay && self.outputs > 0 && self.runs.iter().filter(has_returned).count() > 1
    }

    /// The parts of what a run of a task returns.
    #[must_use]
    pub fn made(&self, number: usize, run: u32) -> Vec<u64> {
        let run = if self.varies { u64::from(run) + 1 } else { 0 };
        let id = |place| Random::new((number as u64) << 20 ^ run << 4 ^ place).next() | MADE;
        (0..self.outputs).map(id).collect()
    }
}

impl World {
    /// Asserts that the parts of a task's arguments, and of what its parents gave, are here, and are the right ones.
    ///
    /// # Panics
    /// They are not.
    pub fn check_contents<'a>(
        &self,
        number: usize,
        arguments: &Payload,
        values: impl Iterator<Item = &'a Payload>,
    ) {
        self.check_parts(arguments, &self.ledger[number].arguments, number);
        let given = values.filter(|value| !self.memory.get(value).is_empty());
        given.for_each(|value| self.check_result(value, number));
    }

    /// Asserts that the parts of what a task gave are here.
    ///
    /// # Panics
    /// They are not.
    pub fn check_result(&self, value: &Payload, reader: usize) {
        let (verdict, number, run) = read_value(self.memory.get(value));
        if verdict == Verdict::Returned as u8 {
            self.check_parts(value, &self.ledger[number].made(number, run), reader);
        }
    }

    fn check_parts(&self, payload: &Payload, ids: &[u64], reader: usize) {
        let found = self.memory.contents(payload);
        assert_eq!(found.len(), ids.len(), "{reader} gets all parts");
        for (found, &id) in found.iter().zip(ids) {
            assert!(*found == content(id), "{reader} gets other bytes than those of a part");
        }
    }
}
