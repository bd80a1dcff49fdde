//! The end of tasks: final states, their effects on dependants, the release of records.
//!
//! Nothing here recurses: a chain of a million failed tasks is a worklist.

use gristmill_wire::{Span, TaskId, WorkerState};

use crate::contexts::PLAIN;
use crate::machine::Phase;
use crate::outcome::TaskContent;
use crate::port::Port;
use crate::task::{State, flag};
use crate::{Core, NONE, Payload, Status, edges};

/// Run of a task, as its answer describes it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunReport {
    pub started_ticks: u64,
    pub claimed_before: Span,
    pub ran: Span,
    pub published_after: Span,
    pub drained_after: Span,
    pub worker_state: WorkerState,
    pub has_started: bool,
}

impl Core {
    /// Ends a task that is in no list and has no run to report.
    pub(crate) fn finish(
        &mut self,
        index: u32,
        status: Status,
        content: TaskContent,
        port: &mut impl Port,
    ) {
        self.finish_run(index, (status, content), &RunReport::default(), port);
    }

    /// Ends a task that is in no list.
    #[inline]
    pub(crate) fn finish_run(
        &mut self,
        index: u32,
        end: (Status, TaskContent),
        run: &RunReport,
        port: &mut impl Port,
    ) {
        self.settle(index, end, run, port);
        self.tell_settled(port);
    }

    /// Updates the dependants of tasks that have ended.
    #[inline]
    pub(crate) fn tell_settled(&mut self, port: &mut impl Port) {
        loop {
            while let Some(parent) = self.settled.pop() {
                self.tell_dependants(parent, port);
                self.tasks[parent].holds -= 1;
                self.free_if_unneeded(parent);
            }
            // The end of these tasks may leave others that no future and no task needs.
            let Some(unwanted) = self.next_unwanted() else { break };
            let end = (Status::Succeeded, TaskContent::Payload(Payload::EMPTY));
            self.settle(unwanted, end, &RunReport::default(), port);
        }
        self.drop_unneeded(port);
    }

    #[inline]
    fn settle(
        &mut self,
        index: u32,
        end: (Status, TaskContent),
        run: &RunReport,
        port: &mut impl Port,
    ) {
        let (status, content) = end;
        let task = &mut self.tasks[index];
        assert!(task.state == State::Loose, "a task becomes final once, out of any list");
        let arguments = std::mem::replace(&mut task.content, content);
        let first_parent = task.first_parent;
        let extra = std::mem::replace(&mut task.extra, NONE);
        task.state = State::Final;
        task.status = status;
        // A peer that sent the task learns from the run time how long such tasks take.
        task.next = run.ran.bits();
        if crate::HAS_TAGS {
            task.started_ticks = run.started_ticks;
            task.previous = run.claimed_before.bits();
            task.sequence = run.published_after.bits();
            task.first_parent = run.drained_after.bits();
        }
        task.set_temperature(run.worker_state);
        if run.has_started {
            task.flags |= flag::STARTED;
        }
        let handle = task.handle;
        let mut calls = 1;
        if let TaskContent::Payload(payload) = &arguments {
            self.argument_bytes = self.argument_bytes.saturating_sub(payload.heap_size());
            self.drop_payload(payload);
        }
        if first_parent != NONE {
            self.leave_parents(first_parent);
        }
        if extra != NONE {
            calls = self.extras[extra].batch.map_or(1, |batch| u64::from(batch.calls));
            self.drop_extra(extra);
        }
        self.counts.outstanding -= calls;
        self.counts.finished[status as usize] += calls;
        port.finished(self.tasks.id(index), handle, status);
        if self.tasks[index].first_dependant == NONE {
            self.free_if_unneeded(index);
        } else {
            self.tasks[index].holds += 1;
            self.settled.push(index);
        }
    }

    fn leave_parents(&mut self, first: u32) {
        let mut edge = first;
        while edge != NONE {
            edges::unlist(&mut self.tasks, &mut self.edges, edge);
            let removed = self.edges.remove(edge);
            self.tasks[removed.parent].holds -= 1;
            self.free_if_unneeded(removed.parent);
            self.forget_if_unwanted(removed.parent);
            edge = removed.next_parent;
        }
    }

    fn drop_extra(&mut self, extra: u32) {
        if !self.extras[extra].is_only_for_placing() {
            self.timers.set(&mut self.extras, extra, u64::MAX);
            self.leave_family(extra);
            self.end_claim(extra);
        }
        self.batches -= u32::from(self.extras[extra].batch.is_some());
        self.owed -= u32::from(self.extras[extra].is_owed);
        self.priorities.leave(self.extras[extra].priority);
        let context = self.extras[extra].context;
        self.extras.remove(extra);
        if context != PLAIN {
            self.context_loses_task(context);
        }
    }

    fn tell_dependants(&mut self, parent: u32, port: &mut impl Port) {
        let succeeded = self.tasks[parent].status == Status::Succeeded;
        while self.tasks[parent].first_dependant != NONE {
            let edge = self.tasks[parent].first_dependant;
            edges::unlist(&mut self.tasks, &mut self.edges, edge);
            let child = self.edges[edge].child;
            if succeeded {
                self.tasks[child].sequence -= 1;
                self.wake_dependant(child);
                continue;
            }
            if self.tasks[child].state == State::Delegated {
                // If the parent has not failed at the peer, the peer does not know of the failure: the child would wait
                // there forever.
                let (id, attempt) = (self.tasks.id(child), self.tasks[child].attempt);
                port.withdraw_from_peer(self.peer_of(child), id, attempt);
            }
            self.unlist(child);
            let end = if matches!(self.phase, Phase::Closing { cancels: true }) {
                // The task is one of those that have not started.
                (Status::Cancelled, TaskContent::Empty)
            } else {
                (Status::DependencyFailed, TaskContent::Root(self.hold_root(parent)))
            };
            self.settle(child, end, &RunReport::default(), port);
        }
    }

    /// Makes a task ready if its last parent has given its result. A delegated task is at the peer that has the results
    /// already.
    #[inline]
    pub(crate) fn wake_dependant(&mut self, child: u32) {
        let task = &self.tasks[child];
        if task.sequence > 0 {
            return;
        }
        match task.state {
            State::Delegated => self.unblock_delegated(child),
            State::Returned => {}
            _ => {
                self.unlist(child);
                self.make_ready(child);
            }
        }
    }

    /// Returns the task that caused the failure of `failed`, and holds its record for one more task that names it.
    pub(crate) fn hold_root(&mut self, failed: u32) -> TaskId {
        let root = match self.tasks[failed].content {
            TaskContent::Root(root) => root,
            _ => self.tasks.id(failed),
        };
        self.tasks[root.index()].holds += 1;
        root
    }

    /// Frees a record that is final, released and not held. A failed task drops its hold on its root. A root has no
    /// root itself, so the recursion ends there.
    #[inline]
    pub(crate) fn free_if_unneeded(&mut self, index: u32) {
        let task = &self.tasks[index];
        if task.state != State::Final || task.holds > 0 || !task.has(flag::RELEASED) {
            return;
        }
        match self.tasks.remove(index) {
            TaskContent::Payload(payload) => self.drop_payload(&payload),
            TaskContent::Root(root) => {
                self.tasks[root.index()].holds -= 1;
                self.free_if_unneeded(root.index());
            }
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn drop_payload(&mut self, payload: &Payload) {
        if let Some(block) = payload.block() {
            self.freed.push(block);
        }
    }

    /// Removes a live task from the list that it is in.
    pub(crate) fn unlist(&mut self, index: u32) {
        match self.tasks[index].state {
            State::Blocked => self.blocked -= 1,
            State::Following => {
                self.cease_to_follow(index);
                self.blocked -= 1;
            }
            State::Ready if self.is_demanding(index) => self.leave_demanding(index),
            State::Ready => {
                let (context, priority) = (self.context_of(index), self.priority(index));
                if context == PLAIN {
                    self.ready.remove(&mut self.tasks, priority, index);
                } else {
                    self.contexts.remove(&mut self.tasks, context, (priority, index));
                }
            }
            State::Nested => {
                let slot = usize::from(self.tasks[index].slot);
                let priority = self.priority(index);
                self.slots[slot].nested.remove(&mut self.tasks, priority, index);
                self.nested_ready -= 1;
            }
            State::Sent => self.leave_slot(index),
            State::Delegated => self.leave_peer(index),
            State::Returned => self.leave_stayed(index),
            State::Loose => {}
            State::Free | State::Promised | State::Final => {
                unreachable!("only a live task is in a list")
            }
        }
        self.tasks[index].state = State::Loose;
    }

    #[inline]
    pub(crate) fn priority(&self, index: u32) -> i32 {
        let extra = self.tasks[index].extra;
        if extra == NONE { 0 } else { self.extras[extra].priority }
    }
}
