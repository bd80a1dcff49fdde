//! Checks that results are those of runs that happened, and that dependants saw the same ones; and that large parts have
//! the right bytes.

use gristmill_core::{Core, Payload, Status, TaskOutcome};
use gristmill_wire::Verdict;

use crate::memory::{content, read_value};
use crate::world::SimWorld;

impl SimWorld {
    /// Asserts that the parts of a task's arguments and of its parents' results are here and have the right bytes.
    ///
    /// # Panics
    /// If a part is missing or has wrong bytes.
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

    /// Asserts that the parts of a task's result are here and have the right bytes.
    ///
    /// # Panics
    /// If a part is missing or has wrong bytes.
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

    /// Asserts that each value is that of a run of its own task, which returned after it had seen its parents' values.
    ///
    /// # Panics
    /// If a value is another one.
    pub fn check_values(&self, core: &Core) {
        for number in 0..self.ledger.len() {
            let Some(run) = self.final_run(core, number) else { continue };
            let entry = &self.ledger[number];
            assert!(
                entry.has_returned(run),
                "the value of {number} is that of a run that returned"
            );
            for &(parent, seen) in &entry.runs[run as usize].saw {
                // A result that stayed at its node, or was still being fetched, may be made again after a dependant has seen
                // it; then the values differ.
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

    /// Returns the run whose value a task has, if the program can still see it.
    fn final_run(&self, core: &Core, number: usize) -> Option<u32> {
        let entry = &self.ledger[number];
        let id = entry.id.filter(|_| !entry.is_released && entry.depth == 0)?;
        let Some(TaskOutcome::Returned(payload)) = core.outcome(id) else { return None };
        let (verdict, of, run) = read_value(self.memory.get(payload));
        self.check_result(payload, number);
        assert_eq!((verdict, of), (Verdict::Returned as u8, number), "a value is its own task's");
        Some(run)
    }

    /// Returns the runs whose values a task gets, and asserts that each is that of a parent which returned.
    ///
    /// # Panics
    /// If a value is not that of a parent.
    pub fn values<'a>(
        &self,
        number: usize,
        values: impl Iterator<Item = &'a Payload>,
    ) -> Vec<(usize, u32)> {
        let entry = &self.ledger[number];
        // A blob that was awaited counts as a parent without a value.
        let given = values.map(|value| self.memory.get(value)).filter(|value| !value.is_empty());
        let saw: Vec<_> = given.map(read_value).collect();
        let parents: Vec<usize> = saw.iter().map(|&(_, parent, _)| parent).collect();
        assert_eq!(parents, entry.parents, "one value per parent");
        for &(verdict, parent, run) in &saw {
            assert_eq!(verdict, Verdict::Returned as u8, "a parent's value is its returned value");
            let entry = &self.ledger[parent];
            assert!(entry.has_returned(run), "a parent's value is that of one of its runs");
            let succeeded = entry.status == Some(Status::Succeeded);
            assert!(!self.is_alone || succeeded, "a task goes out when its parents succeeded");
        }
        saw.into_iter().map(|(_, parent, run)| (parent, run)).collect()
    }
}
