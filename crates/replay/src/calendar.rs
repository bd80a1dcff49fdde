//! The queue of simulated events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event with its time. Events of the same time come in the order in which they were added.
#[derive(Debug)]
struct Entry<E> {
    at: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Compares in reverse: a `BinaryHeap` returns its greatest entry first, and that must be the earliest event.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// Events, ordered by time.
#[derive(Debug)]
pub(crate) struct Calendar<E> {
    entries: BinaryHeap<Entry<E>>,
    /// Number of events that were added so far.
    noted: u64,
}

impl<E> Calendar<E> {
    pub const fn new() -> Self {
        Self { entries: BinaryHeap::new(), noted: 0 }
    }

    /// Adds an event that happens at the time `at`.
    pub fn note(&mut self, at: u64, event: E) {
        self.noted += 1;
        self.entries.push(Entry { at, number: self.noted, event });
    }

    /// Takes the next event, with its time.
    pub fn next(&mut self) -> Option<(u64, E)> {
        self.entries.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_earlier_comes_first_and_of_one_time_what_was_noted_first() {
        let mut calendar = Calendar::new();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b')] {
            calendar.note(at, event);
        }
        let order: Vec<_> = std::iter::from_fn(|| calendar.next()).collect();
        assert_eq!(order, [(3, 'a'), (4, 'b'), (5, 'c'), (5, 'd')]);
    }
}
