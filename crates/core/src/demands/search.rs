//! Where to look for a peer that has what a task needs: a few places at a time, so that a decision costs the same
//! whatever their number.
//!
//! Few peers are all looked at. Of many only the one that has just got room is, or, for another task, the next few in turn.
//! What is not found so is found by the full round of [`crate::Core::poll`], which is due as long as something has changed
//! that nobody has looked at.

/// Places that are looked at in turn: enough of a choice, and a decision stays below two microseconds.
const LOOKS_MAX: usize = 32;

/// How far the search has come.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The place after those that were looked at last.
    next: usize,
    /// One that has more room than when it was looked at.
    grown: Option<usize>,
    /// A task or a peer has changed since all peers were looked at.
    is_due: bool,
}

impl Search {
    /// A peer has more room.
    #[inline]
    pub const fn grow(&mut self, place: usize) {
        self.grown = Some(place);
        self.is_due = true;
    }

    /// Another task may be the first.
    pub const fn repeat(&mut self) {
        self.is_due = true;
    }

    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// The places to look at now, of `end`.
    pub fn places(&self, end: usize) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = match self.grown {
            Some(place) if end > LOOKS_MAX => (place, 1),
            _ => (self.next, end.min(LOOKS_MAX)),
        };
        (first..first + count).map(move |place| place % end)
    }

    /// They have been looked at.
    pub const fn go_on(&mut self, end: usize) {
        if end <= LOOKS_MAX {
            self.is_due = false;
        } else if self.grown.is_none() {
            self.next = (self.next + LOOKS_MAX) % end;
        }
        self.grown = None;
    }

    /// All have been looked at.
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
        assert_eq!(search.places(end).collect::<Vec<_>>(), [end - 1], "what has grown");
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
