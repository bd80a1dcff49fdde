//! Whether results are those of runs that happened, and whether dependants saw the same.

use gristmill_core::{Core, Outcome, Payload, Status};
use gristmill_wire::Verdict;

use crate::memory::read_value;
use crate::world::World;

impl World {
    /// Asserts that each value is that of a run of its own task, which returned after it had seen its parents' values.
    ///
    /// # Panics
    /// A value is another one.
    pub fn check_values(&self, core: &Core) {
        for number in 0..self.ledger.len() {
            let Some(run) = self.final_run(core, number) else { continue };
            let entry = &self.ledger[number];
            assert!(
                entry.has_returned(run),
                "the value of {number} is that of a run that returned"
            );
            for &(parent, seen) in &entry.runs[run as usize].saw {
                // One that stayed where it was made, or was on its way home, and was made again after it was seen, is another.
                let its = &self.ledger[parent];
                let is_made_again = (its.may_stay || its.outputs > 0) && its.has_returned(seen);
                let given = self.final_run(core, parent);
                assert!(
                    given.is_none_or(|given| given == seen) || is_made_again,
                    "{number} saw what run {seen} of {parent} gave, and the program {given:?}"
                );
            }
        }
    }

    /// The run whose value a task has, if the program can still see it.
    fn final_run(&self, core: &Core, number: usize) -> Option<u32> {
        let entry = &self.ledger[number];
        let id = entry.id.filter(|_| !entry.is_released && entry.depth == 0)?;
        let Some(Outcome::Returned(payload)) = core.outcome(id) else { return None };
        let (verdict, of, run) = read_value(self.memory.get(payload));
        self.check_result(payload, number);
        assert_eq!((verdict, of), (Verdict::Returned as u8, number), "a value is its own task's");
        Some(run)
    }

    /// The runs whose values a task is given, each checked: it is a parent's, and returned.
    ///
    /// # Panics
    /// A value is none of a parent's.
    pub fn values<'a>(
        &self,
        number: usize,
        values: impl Iterator<Item = &'a Payload>,
    ) -> Vec<(usize, u32)> {
        let entry = &self.ledger[number];
        // A blob that was waited for is a parent that gives nothing.
        let given = values.map(|value| self.memory.get(value)).filter(|value| !value.is_empty());
        let saw: Vec<_> = given.map(read_value).collect();
        let parents: Vec<usize> = saw.iter().map(|&(_, parent, _)| parent).collect();
        assert_eq!(parents, entry.parents, "one value per parent");
        for &(verdict, parent, run) in &saw {
            assert_eq!(verdict, Verdict::Returned as u8, "a parent's value is what it returned");
            let entry = &self.ledger[parent];
            assert!(entry.has_returned(run), "a parent's value is what a run of it returned");
            let succeeded = entry.status == Some(Status::Succeeded);
            assert!(!self.is_alone || succeeded, "a task goes out when its parents succeeded");
        }
        saw.into_iter().map(|(_, parent, run)| (parent, run)).collect()
    }
}
