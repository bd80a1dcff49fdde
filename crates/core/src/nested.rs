//! Nested tasks: tasks that submit tasks and wait for them.
//!
//! A child is listed with its parent while that attempt of the parent runs. A ready child waits in the queue of the
//! slot where its parent runs. The parent's worker takes it from there when the parent waits; other workers that have
//! room take it from there too. A waiting slot gets only children of its own stack. A task can wait only for tasks that
//! it submitted. So the wait graph is a tree, its leaves can always run in the wait of their parent, and nothing
//! deadlocks.

use gristmill_wire::{SlotId, TaskId};

use crate::contexts::PLAIN;
use crate::estimate::Cost;
use crate::expire::StartState;
use crate::list::List;
use crate::machine::slot_id;
use crate::outcome::TaskContent;
use crate::place::Placed;
use crate::port::Port;
use crate::slots::Slot;
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

/// Most children that are looked at to find one in another context than the first child.
const LOOKS_MAX: usize = 64;

impl Core {
    /// Handles the report that a running task waits for tasks that it submitted (`on`), or has ceased to.
    pub fn waiting(
        &mut self,
        slot: SlotId,
        task: TaskId,
        on: bool,
        now: u64,
        port: &mut impl Port,
    ) {
        self.now = now;
        let Some(index) = self.tasks.find(task) else { return };
        let record = &self.tasks[index];
        if record.state != State::Sent || record.slot != slot.0 || record.has(flag::WAITING) == on {
            return;
        }
        if on {
            self.begin_wait(index, port)
        } else {
            self.end_wait(index)
        }
        self.pump(port);
    }

    fn begin_wait(&mut self, index: u32, port: &mut impl Port) {
        let extra = self.extra(index);
        if self.extras[extra].started_at == 0 {
            let started = self.started_at(index, port);
            self.extras[extra].started_at =
                if let StartState::At(began) = started { began } else { self.now };
        }
        let task = &mut self.tasks[index];
        task.flags |= flag::WAITING;
        let cost = std::mem::replace(&mut task.cost, Cost::ZERO);
        let (slot, sequence) = (usize::from(task.slot), task.sequence);
        self.slots[slot].backlog_ns -= cost.ns();
        self.slots[slot].uncount_cost(sequence, cost.ns());
        self.slots[slot].waiting += 1;
        self.contexts.mark_changed();
        self.waiting_slots += u32::from(self.slots[slot].waiting == 1);
        let mut strangers = self.unclaimed(slot, port);
        strangers.retain(|&other| {
            let is_child = self.nested_slot(other) == Some(slot);
            !is_child || !self.extras[self.tasks[other].extra].is_inline
        });
        let taken = self.recall(slot, &strangers, port);
        self.return_all(&taken, port);
    }

    pub(crate) fn end_wait(&mut self, index: u32) {
        self.tasks[index].flags &= !flag::WAITING;
        let slot = &mut self.slots[usize::from(self.tasks[index].slot)];
        slot.waiting -= 1;
        self.contexts.mark_changed();
        self.waiting_slots -= u32::from(slot.waiting == 0);
    }

    /// Lists a new task with its parent, if the parent still runs in that slot.
    pub(crate) fn adopt(&mut self, index: u32, slot: SlotId, parent: TaskId) {
        let Some(parent) = self.tasks.find(parent) else { return };
        if self.tasks[parent].state != State::Sent || self.tasks[parent].slot != slot.0 {
            return;
        }
        let extra = self.extra(index);
        let parent_extra = self.extra(parent);
        let first = std::mem::replace(&mut self.extras[parent_extra].first_child, extra);
        let child = &mut self.extras[extra];
        child.parent = parent;
        child.next_sibling = first;
        if first != NONE {
            self.extras[first].previous_sibling = extra;
        }
    }

    /// Returns the slot in whose queue a task belongs: the slot where its parent runs, unless that worker declined it.
    pub(crate) fn nested_slot(&self, index: u32) -> Option<usize> {
        let task = &self.tasks[index];
        if task.extra == NONE || task.has(flag::DECLINED) {
            return None;
        }
        let parent = self.extras[task.extra].parent;
        let slot = (parent != NONE).then(|| usize::from(self.tasks[parent].slot))?;
        // A worker with a context can run all children except those that need another context.
        let context = self.context_of(index);
        (context == PLAIN || self.slots[slot].context == context).then_some(slot)
    }

    /// Unlists a side record from its parent, and its children from it.
    pub(crate) fn leave_family(&mut self, extra: u32) {
        self.leave_parent(extra);
        self.orphan_children(extra);
    }

    fn leave_parent(&mut self, extra: u32) {
        let member = &mut self.extras[extra];
        let (previous, next) = (member.previous_sibling, member.next_sibling);
        let parent = std::mem::replace(&mut member.parent, NONE);
        member.previous_sibling = NONE;
        member.next_sibling = NONE;
        if parent == NONE {
            return;
        }
        if next != NONE {
            self.extras[next].previous_sibling = previous;
        }
        if previous == NONE {
            let parent_extra = self.tasks[parent].extra;
            self.extras[parent_extra].first_child = next;
        } else {
            self.extras[previous].next_sibling = next;
        }
    }

    /// Makes the children of an attempt that is over ordinary tasks.
    pub(crate) fn orphan_children(&mut self, extra: u32) {
        let mut child = std::mem::replace(&mut self.extras[extra].first_child, NONE);
        while child != NONE {
            let member = &mut self.extras[child];
            let (index, next) = (member.task, member.next_sibling);
            member.parent = NONE;
            member.previous_sibling = NONE;
            member.next_sibling = NONE;
            if self.tasks[index].state == State::Nested {
                self.unlist(index);
                self.make_ready(index);
            }
            child = next;
        }
    }

    /// Cancels the children of a lost attempt that have certainly not started: no task waits for them.
    pub(crate) fn cancel_children(&mut self, index: u32, port: &mut impl Port) {
        for child in self.children(index).collect::<Vec<_>>() {
            let task = &self.tasks[child];
            let is_live = !matches!(task.state, State::Final | State::Free);
            if is_live && !task.has(flag::STARTED) {
                self.cancel_unstarted(child, port);
            }
        }
    }

    /// Returns the live children of a task's running attempt.
    fn children(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let extra = self.tasks[index].extra;
        let first = if extra == NONE { NONE } else { self.extras[extra].first_child };
        let next =
            |&child: &u32| Some(self.extras[child].next_sibling).filter(|&next| next != NONE);
        std::iter::successors(Some(first).filter(|&first| first != NONE), next)
            .map(|child| self.extras[child].task)
    }

    /// Returns children that queue in other slots while their parent's slot waits with nothing to run.
    fn strayed_children(&self) -> impl Iterator<Item = u32> + '_ {
        let slots = if self.waiting_slots == 0 { &[] } else { &self.slots[..] };
        slots
            .iter()
            .filter(|slot| slot.is_halted())
            .flat_map(|slot| List::from(&self.tasks, slot.in_flight.head))
            .flat_map(|parent| self.children(parent))
            .filter(|&child| self.queues_elsewhere(child))
    }

    fn queues_elsewhere(&self, child: u32) -> bool {
        let task = &self.tasks[child];
        task.state == State::Sent
            && !task.has(flag::RECALLED)
            && task.previous != NONE
            && self.nested_slot(child).is_some_and(|home| home != usize::from(task.slot))
    }

    /// Returns true if a child may have to be brought back to its parent's slot.
    pub(crate) fn has_strayed(&self) -> bool {
        self.strayed_children().next().is_some()
    }

    /// Takes back children that wait behind long tasks in other slots: their parents' slots can run them at once.
    pub(crate) fn bring_home(&mut self, port: &mut impl Port) {
        for child in self.strayed_children().collect::<Vec<_>>() {
            let slot = slot_id(usize::from(self.tasks[child].slot));
            if self.runs_long(&port.progress(slot)) && self.take_back_one(child, port) {
                self.counts.stolen += 1;
                // The child may need a worker of its own, and must not come back here.
                self.slots[usize::from(slot.0)].stuck |= !self.has_earned(child);
                let _is_requeued = self.return_unstarted(child, port);
            }
        }
        self.pump(port);
    }

    /// Sends children to the slot where their parent waits, or to another worker or peer that has room.
    pub(crate) fn pump_nested(&mut self, port: &mut impl Port) {
        for slot in 0..self.slots.len() {
            if self.nested_ready == 0 {
                return;
            }
            while let Some(head) = self.slots[slot].nested.first(&self.tasks) {
                if let Some((index, to)) = self.next_nested(slot, port) {
                    self.send_nested(index, slot, to, port);
                } else if self.config.shares_nested_only
                    && let Some(place) = self.choose_peer(head, port)
                {
                    self.share_nested(slot, place, port);
                } else {
                    break;
                }
            }
        }
    }

    /// Sends the oldest child of a slot's stack to a peer whose side has idle workers. The oldest child is the largest.
    fn share_nested(&mut self, slot: usize, place: usize, port: &mut impl Port) {
        let Some(index) = self.slots[slot].nested.first(&self.tasks) else { return };
        self.unlist(index);
        if self.delegate(place, index, port) == Placed::Full {
            self.tasks[index].state = State::Nested;
            self.tasks[index].slot = slot_id(slot).0;
            let priority = self.priority(index);
            self.slots[slot].nested.push_first(&mut self.tasks, priority, index);
            self.nested_ready += 1;
        }
    }

    /// Returns the first child of a slot's stack that can be sent, and the slot for it. In a worker with a context, two
    /// children are tried: the first child, and the first of the other kind (in the context, or without one). Workers
    /// for one kind may have room although those for the other have none.
    fn next_nested(&self, slot: usize, port: &impl Port) -> Option<(u32, usize)> {
        let Slot { nested, context, .. } = &self.slots[slot];
        let head = nested.first(&self.tasks)?;
        if self.takes_children(slot) {
            let inner = self.innermost_child(slot, head);
            if self.has_earned(inner) {
                return Some((inner, slot));
            }
        }
        let first = self.choose_nested(slot, head, port).map(|to| {
            let inner = (to == slot).then(|| self.innermost_child(slot, head));
            (inner.filter(|&inner| self.may_run_inline(inner)).unwrap_or(head), to)
        });
        if first.is_some() || *context == PLAIN {
            return first;
        }
        let differs = |&index: &u32| self.context_of(index) != self.context_of(head);
        let other = nested.iter(&self.tasks).take(LOOKS_MAX).find(differs)?;
        self.choose_nested(slot, other, port).map(|to| (other, to))
    }

    /// Chooses the slot for a child:
    /// - the parent's slot, if the parent waits there, the child could begin soon, and it may run in the wait;
    /// - else another worker that has room;
    /// - else the parent's slot, if it has room.
    fn choose_nested(&self, slot: usize, index: u32, port: &impl Port) -> Option<usize> {
        if self.is_at_home(slot, index) {
            return Some(slot);
        }
        let home = &self.slots[slot];
        let may_wait = home.waiting > 0 && home.has_room(&self.config);
        self.choose_other(slot, index, port).or_else(|| {
            // An untrusted child goes there only alone: a child that is sent behind others needs more stack.
            let may_be_home = if self.has_earned(index) {
                !home.stuck || home.is_halted()
            } else {
                home.is_halted() && self.may_run_inline(index)
            };
            (may_wait && may_be_home).then_some(slot)
        })
    }

    /// Returns true if the parent's slot is the best one for a child: it may run there, and would begin soon.
    fn is_at_home(&self, slot: usize, index: u32) -> bool {
        self.takes_children(slot) && self.has_earned(index)
    }

    /// Returns true if a slot's stack waits and would begin soon with a child that is sent there now.
    fn takes_children(&self, slot: usize) -> bool {
        let home = &self.slots[slot];
        let is_near = !home.stuck && home.backlog_ns <= self.config.wake_cost_ns;
        home.waiting > 0 && (is_near || home.is_halted()) && home.has_room(&self.config)
    }

    /// Returns the first child of the innermost task of a slot's stack. The children of that task came last; in its
    /// wait they need less stack than others would. Returns `head`, the first child of all, if the innermost task has
    /// many.
    fn innermost_child(&self, slot: usize, head: u32) -> u32 {
        let parent = |index: u32| self.extras[self.tasks[index].extra].parent;
        let mut last = self.slots[slot].nested.last_plain().unwrap_or(head);
        let innermost = parent(last);
        for _ in 0..LOOKS_MAX {
            let before = self.tasks[last].previous;
            if before == NONE || parent(before) != innermost {
                return last;
            }
            last = before;
        }
        head
    }

    fn send_nested(&mut self, index: u32, from: usize, to: usize, port: &mut impl Port) {
        self.unlist(index);
        if self.send(to, index, port) == Placed::Full {
            self.tasks[index].state = State::Nested;
            self.tasks[index].slot = slot_id(from).0;
            let priority = self.priority(index);
            self.slots[from].nested.push_first(&mut self.tasks, priority, index);
            self.nested_ready += 1;
        }
    }

    /// Refuses the children that their parents' workers declined because their stacks are full, if every worker waits,
    /// nothing else runs and no worker can be added. The error replaces a deadlock. Returns whether a task was refused
    /// or returned to the client.
    pub(crate) fn refuse_too_deep(&mut self, port: &mut impl Port) -> bool {
        let are_waiting = !self.ready.is_empty() || self.contexts.waiting() > 0;
        if self.waiting_slots == 0 || !are_waiting || self.wants_workers() {
            return false;
        }
        // An idle worker would have left by now, if the waiting tasks could have more workers.
        let is_spent = !self.contexts.is_empty() && !self.has_startable();
        let is_over = |slot: &Slot| {
            let is_lost = slot.is_idle() && (slot.holder != NONE || is_spent);
            slot.is_halted() || is_lost || !slot.has_process()
        };
        if !self.slots.iter().all(is_over) {
            return false;
        }
        let mut refused = self.ready.in_order(&self.tasks);
        refused.retain(|&index| self.tasks[index].has(flag::DECLINED));
        refused.append(&mut self.children_for_contexts());
        for &index in &refused {
            self.unlist(index);
            self.finish(index, Status::Refused, TaskContent::TooDeep, port);
        }
        self.give_inbound_back(port) || !refused.is_empty()
    }

    /// Returns the children that wait for workers with a context.
    fn children_for_contexts(&self) -> Vec<u32> {
        let waiting = self.contexts.in_order(&self.tasks, None);
        waiting.into_iter().filter(|&index| self.is_child(index)).collect()
    }

    /// Returns inbound tasks to the client, in the engine of a lease. All workers here wait, perhaps for these tasks,
    /// and their parents can run them elsewhere. Returns whether there was such a task.
    fn give_inbound_back(&mut self, port: &mut impl Port) -> bool {
        if !self.config.shares_nested_only {
            return false;
        }
        let mut others = self.ready.in_order(&self.tasks);
        others.append(&mut self.contexts.in_order(&self.tasks, None));
        others.retain(|&index| !self.is_child(index));
        for &index in &others {
            self.unlist(index);
            self.finish(index, Status::Cancelled, TaskContent::Empty, port);
        }
        !others.is_empty()
    }
}
