//! Timers of tasks: a heap with at most one entry for each side record (`Extra`, the record of a task's options).
//! Entries can be removed, so that finished tasks leave nothing.

use crate::NONE;
use crate::options::Extra;
use crate::slab::Slab;

#[derive(Debug)]
pub(crate) struct Timers {
    /// Pairs of time and side record. The side record knows its index in the heap.
    heap: Vec<(u64, u32)>,
}

impl Timers {
    pub const fn new() -> Self {
        Self { heap: Vec::new() }
    }

    pub const fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Sets or moves the timer of a side record, or removes it if `when` is `u64::MAX`.
    pub fn set(&mut self, extras: &mut Slab<Extra>, extra: u32, when: u64) {
        let place = extras[extra].timer;
        if place == NONE {
            if when != u64::MAX {
                self.heap.push((when, extra));
                self.sift_up(extras, self.heap.len() - 1);
            }
            return;
        }
        let place = place as usize;
        if when == u64::MAX {
            self.take_out(extras, place);
            return;
        }
        let before = std::mem::replace(&mut self.heap[place].0, when);
        if when < before {
            self.sift_up(extras, place);
        } else {
            self.sift_down(extras, place);
        }
    }

    fn take_out(&mut self, extras: &mut Slab<Extra>, place: usize) {
        extras[self.heap[place].1].timer = NONE;
        let last = self.heap.pop().expect("there is one to take out");
        if place == self.heap.len() {
            return;
        }
        let before = std::mem::replace(&mut self.heap[place], last);
        if last.0 < before.0 {
            self.sift_up(extras, place);
        } else {
            self.sift_down(extras, place);
        }
    }

    fn settle(&mut self, extras: &mut Slab<Extra>, place: usize) {
        extras[self.heap[place].1].timer = u32::try_from(place).expect("as many as side records");
    }

    fn sift_up(&mut self, extras: &mut Slab<Extra>, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above].0 <= self.heap[place].0 {
                break;
            }
            self.heap.swap(above, place);
            self.settle(extras, place);
            place = above;
        }
        self.settle(extras, place);
    }

    fn sift_down(&mut self, extras: &mut Slab<Extra>, mut place: usize) {
        loop {
            let mut least = place;
            for below in [2 * place + 1, 2 * place + 2] {
                if below < self.heap.len() && self.heap[below].0 < self.heap[least].0 {
                    least = below;
                }
            }
            if least == place {
                break;
            }
            self.heap.swap(least, place);
            self.settle(extras, place);
            place = least;
        }
        self.settle(extras, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, TaskOptions};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_the_earliest_of_what_is_set(
            moves in proptest::collection::vec((0u32..8, 0u64..20), 1..60),
        ) {
            let (mut timers, mut extras) = (Timers::new(), Slab::new());
            for task in 0..8 {
                extras.insert(Extra::new(task, &TaskOptions::default(), &Config::default()));
            }
            let mut model = [u64::MAX; 8];
            for (extra, when) in moves {
                let when = if when < 4 { u64::MAX } else { when };
                timers.set(&mut extras, extra, when);
                model[extra as usize] = when;
                let earliest = model.iter().copied().min().filter(|&when| when != u64::MAX);
                prop_assert_eq!(timers.first().map(|first| first.0), earliest);
                let count = model.iter().filter(|&&when| when != u64::MAX).count();
                prop_assert_eq!(timers.len(), count);
            }
        }
    }
}
