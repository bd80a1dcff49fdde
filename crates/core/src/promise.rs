//! Promised values: tasks wait for them as for parents.
//!
//! A promise stands for an argument that is not here yet and that the caller fetches. A promise is no task: it is not
//! counted, not placed, and cannot be cancelled.

use gristmill_wire::{FunctionId, TaskId};

use crate::port::Port;
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, Status, TaskContent};

impl Core {
    /// Promises a value. Tasks that have it among their parents wait until [`Core::keep_promise`]. The task graph does
    /// not store the value. The record of the promise is freed once it was kept or broken and no task needs it.
    pub fn promise(&mut self) -> TaskId {
        let index = self.tasks.insert(FunctionId(0), Payload::EMPTY, 0);
        let task = &mut self.tasks[index];
        task.state = State::Promised;
        task.flags |= flag::RELEASED;
        self.tasks.id(index)
    }

    /// Keeps a promise: its value is here. The tasks that waited for nothing else become ready.
    pub fn keep_promise(&mut self, promise: TaskId, now: u64, port: &mut impl Port) {
        self.now = now;
        let Some(index) = self.find_promise(promise) else { return };
        self.tasks[index].state = State::Final;
        self.tasks[index].status = Status::Succeeded;
        self.tasks[index].holds += 1;
        self.settled.push(index);
        self.tell_settled(port);
        self.pump(port);
    }

    /// Breaks a promise: its value will not come. The tasks that wait for it fail with the exception `raised`. If
    /// `raised` is `None`, they end as if a task among their arguments had failed.
    pub fn break_promise(
        &mut self,
        promise: TaskId,
        raised: Option<&[u8]>,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(index) = self.find_promise(promise) else { return };
        while self.tasks[index].first_dependant != NONE {
            let child = self.edges[self.tasks[index].first_dependant].child;
            self.unlist(child);
            let (status, content) = match raised {
                Some(raised) => (Status::Failed, TaskContent::Payload(Payload::copy_from(raised))),
                None => (Status::DependencyFailed, TaskContent::Root(self.hold_root(index))),
            };
            self.finish(child, status, content, port);
        }
        self.tasks[index].state = State::Final;
        self.tasks[index].status = Status::Failed;
        self.free_if_unneeded(index);
        self.pump(port);
        self.wind_down(port);
    }

    /// Returns true if a task waits for the promise.
    #[must_use]
    pub fn is_awaited(&self, promise: TaskId) -> bool {
        self.find_promise(promise).is_some_and(|index| self.tasks[index].holds > 0)
    }

    fn find_promise(&self, promise: TaskId) -> Option<u32> {
        self.tasks.find(promise).filter(|&index| self.tasks[index].state == State::Promised)
    }
}
