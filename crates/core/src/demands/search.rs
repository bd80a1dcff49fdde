//! Search for a peer that has what a task needs. Each step looks at a few peers, so that a decision costs the same
//! whatever the number of peers.
//!
//! If there are few peers, a step looks at all of them. If there are many, it looks only at the peer that has just got
//! room or, for another task, at the next few peers in turn. The full search of [`crate::Core::poll`] finds the rest. It
//! is due while a task or a peer has changed and not all peers were looked at since.

/// Number of peers that a step looks at in turn: enough of a choice, and a decision stays below two microseconds.
const LOOKS_MAX: usize = 32;

/// Progress of the search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The index after the peers that were looked at last.
    next: usize,
    /// A peer that has more room than when it was looked at.
    grown: Option<usize>,
    /// True if a task or a peer has changed since all peers were looked at.
    is_due: bool,
}

impl Search {
    /// Records that a peer has more room.
    #[inline]
    pub const fn grow(&mut self, place: usize) {
        self.grown = Some(place);
        self.is_due = true;
    }

    /// Records that another task may be the first.
    pub const fn repeat(&mut self) {
        self.is_due = true;
    }

    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// Returns the indexes of the peers to look at now, of `end` peers.
    pub fn places(&self, end: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = match self.grown {
            Some(place) if end > LOOKS_MAX => (place, 1),
            _ => (self.next, end.min(LOOKS_MAX)),
        };
        (first..first + count).map(move |place| place % end)
    }

    /// Records that these peers have been looked at.
    pub const fn go_on(&mut self, end: usize) {
        if end <= LOOKS_MAX {
            self.is_due = false;
        } else if self.grown.is_none() {
            self.next = (self.next + LOOKS_MAX) % end;
        }
        self.grown = None;
    }

    /// Records that all peers have been looked at.
    pub const fn end(&mut self) {
        self.grown = None;
        self.is_due = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_places_are_looked_at_and_all_in_turn() {
        let end = 5 * LOOKS_MAX + 3;
        let mut search = Search::default();
        search.grow(end - 1);
        assert_eq!(
            search.places(end).collect::<Vec<_>>(),
            [end - 1],
            "the resource that has grown"
        );
        search.go_on(end);
        let mut seen = vec![false; end];
        for _ in 0..6 {
            search.places(end).for_each(|place| seen[place] = true);
            search.go_on(end);
        }
        assert!(seen.into_iter().all(|is_seen| is_seen));
        assert!(search.is_due(), "only a full round ends it");
    }

    #[test]
    fn few_peers_are_all_looked_at() {
        let mut search = Search::default();
        search.repeat();
        assert_eq!(search.places(3).count(), 3);
        search.go_on(3);
        assert!(!search.is_due());
        assert_eq!(search.places(0).count(), 0);
    }
}
