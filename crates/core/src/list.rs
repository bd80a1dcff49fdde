//! Lists through the task records themselves: no allocation, removal from the middle in constant time. A task is in at
//! most one.

use crate::NONE;
use crate::task::TaskTable;

#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub head: u32,
    pub tail: u32,
    pub len: u32,
}

impl List {
    pub const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    #[inline]
    pub fn push_back(&mut self, tasks: &mut TaskTable, index: u32) {
        let tail = std::mem::replace(&mut self.tail, index);
        let task = &mut tasks[index];
        task.previous = tail;
        task.next = NONE;
        if tail == NONE {
            self.head = index;
        } else {
            tasks[tail].next = index;
        }
        self.len += 1;
    }

    pub fn push_front(&mut self, tasks: &mut TaskTable, index: u32) {
        let head = std::mem::replace(&mut self.head, index);
        let task = &mut tasks[index];
        task.previous = NONE;
        task.next = head;
        if head == NONE {
            self.tail = index;
        } else {
            tasks[head].previous = index;
        }
        self.len += 1;
    }

    #[inline]
    pub fn remove(&mut self, tasks: &mut TaskTable, index: u32) {
        let (previous, next) = (tasks[index].previous, tasks[index].next);
        if previous == NONE {
            debug_assert!(self.head == index, "a task was removed from a list it is not in");
            self.head = next;
        } else {
            tasks[previous].next = next;
        }
        if next == NONE {
            debug_assert!(self.tail == index, "a task was removed from a list it is not in");
            self.tail = previous;
        } else {
            tasks[next].previous = previous;
        }
        self.len -= 1;
    }

    #[inline]
    pub fn pop_front(&mut self, tasks: &mut TaskTable) -> Option<u32> {
        if self.head == NONE {
            return None;
        }
        let index = self.head;
        self.remove(tasks, index);
        Some(index)
    }

    /// Returns the tasks from `first` to the end, in order.
    pub fn from(tasks: &TaskTable, first: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors((first != NONE).then_some(first), |&index| {
            let next = tasks[index].next;
            (next != NONE).then_some(next)
        })
    }
}
