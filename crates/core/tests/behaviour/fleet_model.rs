//! What may be expected of tasks that go to peers, by somebody who knows nothing of queues: their ends, from what was asked
//! and answered.

use std::collections::HashMap;

use gristmill_core::{Budgets, Config, Status, TaskId};
use gristmill_wire::Demand;

/// A task, as its submitter knows it.
#[derive(Debug, Default)]
pub struct Known {
    pub parents: Vec<TaskId>,
    pub demand: Demand,
    /// What is left of its budgets.
    left: Budgets,
    /// Workers that died under it.
    kills: u8,
    /// Somebody wants to know whether it can still be cancelled.
    pub is_asked: bool,
    /// Somebody wants its end even if it runs.
    pub is_stopped: bool,
}

/// All tasks, and those that have ended.
#[derive(Debug, Default)]
pub struct Model {
    pub order: Vec<TaskId>,
    pub known: HashMap<TaskId, Known>,
    pub ends: HashMap<TaskId, Status>,
}

impl Model {
    /// The task at a place, if there is one.
    pub fn pick(&self, at: usize) -> Option<TaskId> {
        self.order.get(at % self.order.len().max(1)).copied()
    }

    pub fn is_live(&self, task: TaskId) -> bool {
        !self.ends.contains_key(&task)
    }

    pub fn submit(&mut self, task: TaskId, parents: Vec<TaskId>, demand: Demand, left: Budgets) {
        let failed = |parent| self.ends.get(parent).is_some_and(|&end| end != Status::Succeeded);
        let is_doomed = parents.iter().any(failed);
        self.order.push(task);
        self.known.insert(task, Known { parents, demand, left, ..Known::default() });
        if is_doomed {
            self.end(task, Status::DependencyFailed);
        }
    }

    /// Ends a task, and with it those that cannot have its result.
    pub fn end(&mut self, task: TaskId, status: Status) {
        assert_eq!(self.ends.insert(task, status), None, "{task} ends once");
        if status == Status::Succeeded {
            return;
        }
        for child in self.order.clone() {
            if self.is_live(child) && self.known[&child].parents.contains(&task) {
                self.end(child, Status::DependencyFailed);
            }
        }
    }

    fn live(&mut self, task: TaskId) -> Option<&mut Known> {
        let is_live = self.is_live(task);
        self.known.get_mut(&task).filter(|_| is_live)
    }

    /// It raised.
    pub fn raised(&mut self, task: TaskId) {
        let Some(known) = self.live(task) else { return };
        if known.left.retries == 0 || known.is_stopped {
            return self.end(task, Status::Failed);
        }
        known.left.retries -= 1;
        known.is_asked = false;
    }

    /// Its worker died, or, without its own doing, the whole peer, where it may have begun.
    pub fn lost(&mut self, task: TaskId, by_peer: bool) {
        let Some(known) = self.live(task) else { return };
        if known.is_stopped {
            return self.end(task, Status::Cancelled);
        }
        known.kills += u8::from(!by_peer);
        if known.left.loss_retries == 0 || known.kills >= Config::default().kills_max {
            return self.end(task, Status::Lost);
        }
        known.left.loss_retries -= 1;
        known.is_asked = false;
    }

    /// It came back, and had not begun: that costs nothing, and whoever wanted it cancelled has what was wanted.
    pub fn returned_unstarted(&mut self, task: TaskId) {
        if self.live(task).is_some_and(|known| known.is_asked || known.is_stopped) {
            self.end(task, Status::Cancelled);
        }
    }
}
