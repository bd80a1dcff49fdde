//! The ready queue: by priority, then first in first out.

use std::collections::BTreeMap;

use crate::NONE;
use crate::list::List;
use crate::task::TaskTable;

/// Tasks of priority 0 take the first list and no search; others are few.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    plain: List,
    others: BTreeMap<i32, List>,
    len: u32,
}

impl ReadyQueue {
    pub const fn new() -> Self {
        Self { plain: List::EMPTY, others: BTreeMap::new(), len: 0 }
    }

    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether all tasks have priority 0.
    pub fn is_plain(&self) -> bool {
        self.others.is_empty()
    }

    fn list(&mut self, priority: i32) -> &mut List {
        if priority == 0 {
            return &mut self.plain;
        }
        self.others.entry(priority).or_insert(List::EMPTY)
    }

    #[inline]
    pub fn push_back(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len += 1;
        self.list(priority).push_back(tasks, index);
    }

    pub fn push_front(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len += 1;
        self.list(priority).push_front(tasks, index);
    }

    pub fn remove(&mut self, tasks: &mut TaskTable, priority: i32, index: u32) {
        self.len -= 1;
        let list = self.list(priority);
        list.remove(tasks, index);
        if priority != 0 && list.len == 0 {
            self.others.remove(&priority);
        }
    }

    #[inline]
    pub fn pop_front(&mut self, tasks: &mut TaskTable) -> Option<u32> {
        if self.others.is_empty() {
            let index = self.plain.pop_front(tasks)?;
            self.len -= 1;
            return Some(index);
        }
        self.pop_by_priority(tasks)
    }

    #[cold]
    fn pop_by_priority(&mut self, tasks: &mut TaskTable) -> Option<u32> {
        let highest = *self.others.last_key_value()?.0;
        let priority = if highest < 0 && self.plain.len > 0 { 0 } else { highest };
        let index = self.list(priority).head;
        self.remove(tasks, priority, index);
        Some(index)
    }

    /// The task that would be popped.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        let highest = self.others.last_key_value().filter(|(priority, _)| **priority > 0);
        let list = highest.map_or(&self.plain, |(_, list)| list);
        let head = if list.len > 0 { list.head } else { self.others.last_key_value()?.1.head };
        Some(head)
    }

    /// The tasks that would be popped last, last first.
    pub fn last(&self, tasks: &TaskTable, count: usize) -> Vec<u32> {
        let backwards = |list: &List| {
            let before = |&index: &u32| Some(tasks[index].previous).filter(|&one| one != NONE);
            std::iter::successors(Some(list.tail).filter(|&one| one != NONE), before)
        };
        let below = self.others.range(..0).map(|(_, list)| list);
        let above = self.others.range(1..).map(|(_, list)| list);
        let lists = below.chain(std::iter::once(&self.plain)).chain(above);
        lists.flat_map(backwards).take(count).collect()
    }

    /// All tasks, in the order they would be popped.
    pub fn in_order(&self, tasks: &TaskTable) -> Vec<u32> {
        self.iter(tasks).collect()
    }

    /// The same, one by one.
    pub fn iter<'a>(&'a self, tasks: &'a TaskTable) -> impl Iterator<Item = u32> + 'a {
        let above = self.others.range(1..).rev().map(|(_, list)| list);
        let below = self.others.range(..0).rev().map(|(_, list)| list);
        above
            .chain(std::iter::once(&self.plain))
            .chain(below)
            .flat_map(|list| List::from(tasks, list.head))
    }
}
