//! Tasks that submit tasks and wait for them.
//!
//! A child is listed with its parent for as long as that attempt of the parent runs. A ready child
//! waits in the queue of the slot where its parent runs, so that it is found there when the parent
//! waits, and by every worker that has room. A waiting slot gets only children of its own stack. A
//! task can wait only for tasks that it submitted: what waits for what is a tree, its leaves can
//! always run in the wait of their parent, and so nothing hangs.

use gristmill_wire::{SlotId, TaskId};

use crate::contexts::PLAIN;
use crate::estimate::Cost;
use crate::expire::Started;
use crate::list::List;
use crate::machine::slot_id;
use crate::outcome::Content;
use crate::place::Placed;
use crate::port::Port;
use crate::slots::Slot;
use crate::task::{State, flag};
use crate::{Core, NONE, Status};

/// Children that are looked at for one that another worker could have than that which would have the first.
const LOOKS_MAX: usize = 64;

impl Core {
    /// Tells that a running task waits for tasks that it submitted (`on`), or has ceased to.
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
                if let Started::At(began) = started { began } else { self.now };
        }
        let task = &mut self.tasks[index];
        task.flags |= flag::WAITING;
        let cost = std::mem::replace(&mut task.cost, Cost::ZERO);
        let slot = usize::from(task.slot);
        self.slots[slot].backlog_ns -= cost.ns();
        self.slots[slot].waiting += 1;
        self.contexts.note_news();
        self.waiting_slots += u32::from(self.slots[slot].waiting == 1);
        let mut strangers = self.unclaimed(slot, port);
        strangers.retain(|&other| self.nested_slot(other) != Some(slot));
        let taken = self.recall(slot, &strangers, port);
        self.return_all(&taken, port);
    }

    pub(crate) fn end_wait(&mut self, index: u32) {
        self.tasks[index].flags &= !flag::WAITING;
        let slot = &mut self.slots[usize::from(self.tasks[index].slot)];
        slot.waiting -= 1;
        self.contexts.note_news();
        self.waiting_slots -= u32::from(slot.waiting == 0);
    }

    /// Lists a new task with its parent, if that still runs where it says.
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

    /// The slot in whose queue a task belongs: where its parent runs, unless that would not have
    /// it.
    pub(crate) fn nested_slot(&self, index: u32) -> Option<usize> {
        let task = &self.tasks[index];
        if task.extra == NONE || task.has(flag::DECLINED) {
            return None;
        }
        let parent = self.extras[task.extra].parent;
        let slot = (parent != NONE).then(|| usize::from(self.tasks[parent].slot))?;
        // In a worker with a context everything can run but what needs another one.
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

    /// Cancels the children of a lost attempt that have certainly not started: nobody waits for
    /// them.
    pub(crate) fn cancel_children(&mut self, index: u32, port: &mut impl Port) {
        for child in self.children(index).collect::<Vec<_>>() {
            let task = &self.tasks[child];
            let is_live = !matches!(task.state, State::Final | State::Free);
            if is_live && !task.has(flag::STARTED) {
                self.cancel_unstarted(child, port);
            }
        }
    }

    /// The live children of a task's running attempt.
    fn children(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let extra = self.tasks[index].extra;
        let first = if extra == NONE { NONE } else { self.extras[extra].first_child };
        let next =
            |&child: &u32| Some(self.extras[child].next_sibling).filter(|&next| next != NONE);
        std::iter::successors(Some(first).filter(|&first| first != NONE), next)
            .map(|child| self.extras[child].task)
    }

    /// Children that queue in other slots while their parent's slot waits with nothing to run.
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

    /// Whether a child may have to be brought home.
    pub(crate) fn has_strayed(&self) -> bool {
        self.strayed_children().next().is_some()
    }

    /// Brings children home that wait behind long tasks: their parents' slots can run them at once.
    pub(crate) fn bring_home(&mut self, port: &mut impl Port) {
        for child in self.strayed_children().collect::<Vec<_>>() {
            let slot = slot_id(usize::from(self.tasks[child].slot));
            if self.runs_long(&port.progress(slot)) && self.take_back_one(child, port) {
                self.counts.stolen += 1;
                let _is_requeued = self.return_unstarted(child, port);
            }
        }
        self.pump(port);
    }

    /// Sends children: to the slot where their parent waits, else to whoever has room.
    pub(crate) fn pump_nested(&mut self, port: &mut impl Port) {
        for slot in 0..self.slots.len() {
            while self.slots[slot].nested.len > 0 {
                let head = self.slots[slot].nested.head;
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

    /// Sends the oldest child of a slot's stack to a peer whose side has workers with nothing to do: it is the largest.
    fn share_nested(&mut self, slot: usize, place: usize, port: &mut impl Port) {
        let index = self.slots[slot].nested.head;
        self.unlist(index);
        if self.send_away(place, index, port) == Placed::Full {
            self.tasks[index].state = State::Nested;
            self.tasks[index].slot = slot_id(slot).0;
            self.slots[slot].nested.push_front(&mut self.tasks, index);
            self.nested_ready += 1;
        }
    }

    /// The first child of a slot's stack that can be sent, and where: where there is a context, the first in it or the first
    /// without, since what the one lacks the other may have.
    fn next_nested(&self, slot: usize, port: &impl Port) -> Option<(u32, usize)> {
        let Slot { nested, context, .. } = &self.slots[slot];
        let first = self.choose_nested(slot, nested.head, port).map(|to| (nested.head, to));
        if first.is_some() || *context == PLAIN {
            return first;
        }
        let differs = |&index: &u32| self.context_of(index) != self.context_of(nested.head);
        let other = List::from(&self.tasks, nested.head).take(LOOKS_MAX).find(differs)?;
        self.choose_nested(slot, other, port).map(|to| (other, to))
    }

    /// Home, if the parent waits there and could begin soon; else whoever has room; else home, if
    /// it has any.
    fn choose_nested(&self, slot: usize, index: u32, port: &impl Port) -> Option<usize> {
        let home = &self.slots[slot];
        let has_room = home.waiting > 0 && home.has_room(&self.config);
        let is_near = !home.stuck && home.backlog_ns <= self.config.wake_cost_ns;
        if has_room && (is_near || home.is_halted()) {
            return Some(slot);
        }
        let context = self.context_of(index);
        self.choose(context, port).or_else(|| (has_room && !home.stuck).then_some(slot))
    }

    fn send_nested(&mut self, index: u32, from: usize, to: usize, port: &mut impl Port) {
        self.unlist(index);
        if self.send(to, index, port) == Placed::Full {
            self.tasks[index].state = State::Nested;
            self.tasks[index].slot = slot_id(from).0;
            self.slots[from].nested.push_front(&mut self.tasks, index);
            self.nested_ready += 1;
        }
    }

    /// When every worker waits, nothing else runs and no worker can be added: refuses the children
    /// that their parents' workers would not run for want of stack. An error, where there would be
    /// a hang. Says whether there was one.
    pub(crate) fn refuse_too_deep(&mut self, port: &mut impl Port) -> bool {
        let are_waiting = !self.ready.is_empty() || self.contexts.waiting() > 0;
        if self.waiting_slots == 0 || !are_waiting || self.wants_workers() {
            return false;
        }
        // One that idles would have given way by now, if whoever waits could have more workers.
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
            self.finish(index, Status::Refused, Content::TooDeep, port);
        }
        self.give_guests_back(port) || !refused.is_empty()
    }

    /// Children that wait for workers with a context.
    fn children_for_contexts(&self) -> Vec<u32> {
        let waiting = self.contexts.in_order(&self.tasks, None);
        waiting.into_iter().filter(|&index| self.is_child(index)).collect()
    }

    /// In the engine of a lease: gives tasks of its client back that no worker here can begin, as all of them wait: perhaps for these, whose parents can run
    /// them elsewhere. Says whether there was one.
    fn give_guests_back(&mut self, port: &mut impl Port) -> bool {
        if !self.config.shares_nested_only {
            return false;
        }
        let mut guests = self.ready.in_order(&self.tasks);
        guests.append(&mut self.contexts.in_order(&self.tasks, None));
        guests.retain(|&index| !self.is_child(index));
        for &index in &guests {
            self.unlist(index);
            self.finish(index, Status::Cancelled, Content::Empty, port);
        }
        !guests.is_empty()
    }
}
