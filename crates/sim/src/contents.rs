//! Large parts of the results of tasks.

use gristmill_wire::Verdict;

use crate::random::SeededRandom;
use crate::world::{ProgramTask, SimRun};

/// Bit that is set in the numbers of result parts, and clear in those of parts that several tasks share.
const MADE: u64 = 1 << 63;

impl ProgramTask {
    /// Returns whether a large result, which could stay where it was made, was made again.
    #[must_use]
    pub fn has_made_again(&self) -> bool {
        let has_returned = |run: &&SimRun| run.end == Some(Verdict::Returned);
        self.may_stay && self.outputs > 0 && self.runs.iter().filter(has_returned).count() > 1
    }

    /// Returns the parts of the result of a run.
    #[must_use]
    pub fn made(&self, number: usize, run: u32) -> Vec<u64> {
        let run = if self.varies { u64::from(run) + 1 } else { 0 };
        let id = |place| SeededRandom::new((number as u64) << 20 ^ run << 4 ^ place).next() | MADE;
        (0..self.outputs).map(id).collect()
    }
}
