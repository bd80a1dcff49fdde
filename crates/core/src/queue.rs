//! Ready queue: by priority, then first in, first out.
//!
//! A task that comes back from a ring takes its old position again: tasks that were placed before are in the order of
//! their submission, whatever the order in which they come back. Children that their parent's worker declined because
//! its stack was full go before all of them, the last one submitted first. It is the deepest, so a tree of tasks runs
//! depth first, and few of its tasks wait at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::NONE;
use crate::list::List;
use crate::task::{TaskTable, flag};

/// Sort key of a task among those that came back; the least one is first.
type SortKey = (bool, u64, u32);

/// Tasks of one priority.
#[derive(Debug)]
struct PriorityQueue {
    list: List,
    /// Tasks that came back while the head of the list went before them.
    returned: BTreeSet<SortKey>,
}

impl PriorityQueue {
    const EMPTY: Self = Self { list: List::EMPTY, returned: BTreeSet::new() };

    fn is_empty(&self) -> bool {
        self.list.len == 0 && self.returned.is_empty()
    }

    fn sort_key(tasks: &TaskTable, index: u32) -> SortKey {
        let task = &tasks[index];
        match task.has(flag::DECLINED) {
            true => (false, u64::MAX - task.submitted_ticks, index),
            false => (true, task.submitted_ticks, index),
        }
    }

    /// Puts a task that was placed before in front, behind those that were submitted earlier and came back too.
    fn push_returned(&mut self, tasks: &mut TaskTable, index: u32) {
        let sort_key = Self::sort_key(tasks, index);
        let is_first = self.list.len == 0 || sort_key <= Self::sort_key(tasks, self.list.head);
        if self.returned.is_empty() && is_first {
            self.list.push_front(tasks, index);
        } else {
            self.returned.insert(sort_key);
        }
    }

    fn first(&self, tasks: &TaskTable) -> Option<u32> {
        let head = (self.list.len > 0).then_some(self.list.head);
        let Some(&returned) = self.returned.first() else { return head };
        Some(head.filter(|&head| Self::sort_key(tasks, head) <= returned).unwrap_or(returned.2))
    }

    fn remove(&mut self, tasks: &mut TaskTable, index: u32) {
        let was_returned =
            !self.returned.is_empty() && self.returned.remove(&Self::sort_key(tasks, index));
        if !was_returned {
            self.list.remove(tasks, index);
        }
    }

    /// Returns its tasks in order.
    fn iter<'a>(&'a self, tasks: &'a TaskTable) -> impl Iterator<Item = u32> + 'a {
        let mut returned = self.returned.iter().peekable();
        let mut head = self.list.head;
        std::iter::from_fn(move || {
            let is_next =
                |sort_key: SortKey| head == NONE || Self::sort_key(tasks, head) > sort_key;
            if let Some(&(.., index)) = returned.next_if(|&&sort_key| is_next(sort_key)) {
                return Some(index);
            }
            let index = (head != NONE).then_some(head)?;
            head = tasks[index].next;
            Some(index)
        })
    }

    /// Returns its tasks, the last one first.
    fn backwards<'a>(&'a self, tasks: &'a TaskTable) -> Box<dyn Iterator<Item = u32> + 'a> {
        if !self.returned.is_empty() {
            let all: Vec<u32> = self.iter(tasks).collect();
            return Box::new(all.into_iter().rev());
        }
        let before = |&index: &u32| Some(tasks[index].previous).filter(|&one| one != NONE);
        Box::new(std::iter::successors(Some(self.list.tail).filter(|&one| one != NONE), before))
    }
}

/// Ready tasks. Those of priority 0 are in the first line and need no search; others are few.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    plain: PriorityQueue,
    others: BTreeMap<i32, PriorityQueue>,
    len: u32,
}

impl ReadyQueue {
    pub const fn new() -> Self {
        Self { plain: PriorityQueue::EMPTY, others: BTreeMap::new(), len: 0 }
    }

    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if all tasks have priority 0.
    pub fn is_plain(&self) -> bool {
        self.others.is_empty()
    }

    fn line(&mut self, priority: i32) -> &mut PriorityQueue {
        if priority == 0 {
            return &mut self.plain;
        }
        self.others.entry(priority).or_insert(PriorityQueue::EMPTY)
    }

    #[inline]
    pub fn push_back(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len += 1;
        self.line(priority).list.push_back(tasks, index);
    }

    /// Puts a task in front of all others of its priority. Only for queues whose returned tasks all use this method.
    pub fn push_first(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len += 1;
        self.line(priority).list.push_front(tasks, index);
    }

    /// Puts a task that was placed before in front of all that were not.
    pub fn push_front(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len += 1;
        self.line(priority).push_returned(tasks, index);
    }

    pub fn remove(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len -= 1;
        let line = self.line(priority);
        line.remove(tasks, index);
        if priority != 0 && line.is_empty() {
            self.others.remove(&priority);
        }
    }

    #[inline]
    pub fn pop_front(&mut self, tasks: &mut TaskTable) -> Option<u32> {
        if self.others.is_empty() && self.plain.returned.is_empty() {
            let index = self.plain.list.pop_front(tasks)?;
            self.len -= 1;
            return Some(index);
        }
        self.pop_by_priority(tasks)
    }

    #[cold]
    fn pop_by_priority(&mut self, tasks: &mut TaskTable) -> Option<u32> {
        let index = self.first(tasks)?;
        let priority = self.first_priority()?;
        self.remove(tasks, priority, index);
        Some(index)
    }

    /// Returns the priority of the task that would be popped.
    #[inline]
    pub fn first_priority(&self) -> Option<i32> {
        let highest = self.others.last_key_value().map(|(&priority, _)| priority);
        if self.plain.is_empty() {
            return highest;
        }
        Some(highest.map_or(0, |highest| highest.max(0)))
    }

    /// Returns the task that would be popped.
    #[inline]
    pub fn first(&self, tasks: &TaskTable) -> Option<u32> {
        match self.first_priority()? {
            0 => self.plain.first(tasks),
            priority => self.others[&priority].first(tasks),
        }
    }

    /// Returns the last task of the queue; `None` if any task has a priority or came back.
    #[inline]
    pub fn last_plain(&self) -> Option<u32> {
        let is_plain = self.others.is_empty() && self.plain.returned.is_empty();
        Some(self.plain.list.tail).filter(|&tail| is_plain && tail != NONE)
    }

    /// Returns up to `count` tasks that would be popped last, the last one first.
    pub fn last(&self, tasks: &TaskTable, count: usize) -> Vec<u32> {
        let below = self.others.range(..0).map(|(_, line)| line);
        let above = self.others.range(1..).map(|(_, line)| line);
        let lines = below.chain(std::iter::once(&self.plain)).chain(above);
        lines.flat_map(|line| line.backwards(tasks)).take(count).collect()
    }

    /// Returns all tasks, in the order in which they would be popped.
    pub fn in_order(&self, tasks: &TaskTable) -> Vec<u32> {
        self.iter(tasks).collect()
    }

    /// Iterates over all tasks, in the order in which they would be popped.
    pub fn iter<'a>(&'a self, tasks: &'a TaskTable) -> impl Iterator<Item = u32> + 'a {
        let above = self.others.range(1..).rev().map(|(_, line)| line);
        let below = self.others.range(..0).rev().map(|(_, line)| line);
        above.chain(std::iter::once(&self.plain)).chain(below).flat_map(|line| line.iter(tasks))
    }
}

#[cfg(test)]
mod tests {
    use gristmill_wire::FunctionId;

    use super::*;
    use crate::Payload;

    #[test]
    fn declined_children_go_before_what_came_back_the_last_one_first() {
        let mut tasks = TaskTable::new();
        let mut queue = ReadyQueue::new();
        let indices: Vec<u32> = (0..6)
            .map(|number| {
                let index = tasks.insert(FunctionId(0), Payload::copy_from(&[]), 0);
                tasks[index].submitted_ticks = 10 + number;
                index
            })
            .collect();
        let [fresh, early, late, first, second, third] = indices[..] else { unreachable!() };
        queue.push_back(&mut tasks, 0, fresh);
        for declined in [second, first, third] {
            tasks[declined].flags |= flag::DECLINED;
        }
        for back in [late, second, early, first, third] {
            queue.push_front(&mut tasks, 0, back);
        }
        let order = [third, second, first, fresh, early, late];
        assert_eq!(queue.in_order(&tasks), order);
        let popped: Vec<u32> = std::iter::from_fn(|| queue.pop_front(&mut tasks)).collect();
        assert_eq!(popped, order);
    }
}
