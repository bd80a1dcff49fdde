//! Model of tasks that go to peers, without queues: the end of each task follows from the requests and the answers.

use std::collections::HashMap;

use gristmill_core::{Budgets, Config, ContextId, Status, TaskId};
use gristmill_wire::ResourceRequest;

/// Task, as its submitter knows it.
#[derive(Debug, Default)]
pub struct Known {
    pub parents: Vec<TaskId>,
    pub demand: ResourceRequest,
    pub context: ContextId,
    pub priority: i32,
    /// Budgets that are left.
    left: Budgets,
    /// Workers that died while they ran it.
    kills: u8,
    /// True if a cancel was asked for that spares a running task.
    pub is_asked: bool,
    /// True if a cancel was asked for that stops a running task.
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
    /// Returns the task at an index modulo the number of tasks, if there is one.
    pub fn pick(&self, at: usize) -> Option<TaskId> {
        self.order.get(at % self.order.len().max(1)).copied()
    }

    pub fn is_live(&self, task: TaskId) -> bool {
        !self.ends.contains_key(&task)
    }

    pub fn submit(
        &mut self,
        task: TaskId,
        parents: Vec<TaskId>,
        (demand, context, priority): (ResourceRequest, ContextId, i32),
        left: Budgets,
    ) {
        let failed = |parent| self.ends.get(parent).is_some_and(|&end| end != Status::Succeeded);
        let is_doomed = parents.iter().any(failed);
        self.order.push(task);
        let known = Known { parents, demand, context, priority, left, ..Known::default() };
        self.known.insert(task, known);
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

    /// Ends a task that returned. It is cancelled if it was asked to stop, unless other tasks need its result: they may
    /// have begun with it.
    pub fn returned(&mut self, task: TaskId) {
        let is_needed = self
            .order
            .iter()
            .any(|&child| self.is_live(child) && self.known[&child].parents.contains(&task));
        let is_stopped = self.live(task).is_some_and(|known| known.is_stopped) && !is_needed;
        self.end(task, if is_stopped { Status::Cancelled } else { Status::Succeeded });
    }

    /// Handles a task that raised.
    pub fn raised(&mut self, task: TaskId) {
        let Some(known) = self.live(task) else { return };
        if known.is_stopped {
            return self.end(task, Status::Cancelled);
        }
        if known.left.retries == 0 {
            return self.end(task, Status::Failed);
        }
        known.left.retries -= 1;
        known.is_asked = false;
    }

    /// Handles a task whose worker died or, with `by_peer`, whose peer was lost: there it may have begun.
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

    /// Handles a task that came back without having begun. That costs no attempt. It ends as cancelled if a cancel was
    /// asked for.
    pub fn returned_unstarted(&mut self, task: TaskId) {
        if self.live(task).is_some_and(|known| known.is_asked || known.is_stopped) {
            self.end(task, Status::Cancelled);
        }
    }
}
