//! Tasks that have not begun, for the check of priorities.

use std::collections::BTreeMap;

use gristmill_wire::ResourceRequest;

use crate::world::ProgramTask;

/// State of the tasks that wait.
#[derive(Debug, Default)]
pub(super) struct Precedence {
    /// Tasks that have not begun, by number.
    pub waiting: BTreeMap<usize, Waiting>,
    /// Tasks that need more than a worker, by the link over which they were sent, and the true time since which the set is
    /// unchanged.
    pub demanding: BTreeMap<usize, (Vec<usize>, u64)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Number of times that the task was sent.
    pub sent: usize,
    /// True time since which the task is where it is and waits for no parents.
    pub since: u64,
    /// Number of runnable tasks that had been sent to the same engine by then, including this one.
    pub beside: usize,
}

impl Precedence {
    pub fn note_demanding(&mut self, ledger: &[ProgramTask], now: u64) {
        let mut found = BTreeMap::<usize, Vec<usize>>::new();
        for (number, entry) in ledger.iter().enumerate() {
            let link = entry.placements.last().and_then(|last| last.link);
            if let Some(link) = link
                && entry.status.is_none()
                && entry.demand_there().is_some()
            {
                found.entry(link).or_default().push(number);
            }
        }
        for link in self.demanding.keys().copied().collect::<Vec<_>>() {
            found.entry(link).or_default();
        }
        for (link, there) in found {
            let known = self.demanding.entry(link).or_default();
            if known.0 != there {
                *known = (there, now);
            }
        }
    }
}

impl ProgramTask {
    /// Returns the resources that the task needs at its node besides a worker, if any.
    pub(super) fn demand_there(&self) -> Option<ResourceRequest> {
        (!self.demand.is_none()).then_some(self.demand)
    }
}
