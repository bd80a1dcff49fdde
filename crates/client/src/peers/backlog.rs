//! What waits for a peer that does not read, and what it has not confirmed: bounded, since a peer may send what has to be
//! answered and read nothing.
//!
//! Who reads slowly is not to blame: large results wait for it, however many they are, while it confirms some now and then.

/// What may wait for one peer.
#[derive(Debug, Clone, Copy)]
pub struct BacklogLimits {
    /// Bytes that may wait for a peer which confirms nothing for a while.
    pub unread: usize,
    /// Bytes of short words that may wait: as many as for two million tasks that are cancelled at once.
    pub words: usize,
    /// Answers that a peer may not have confirmed: more than a session holds of the shortest.
    pub answers: usize,
}

impl Default for BacklogLimits {
    fn default() -> Self {
        Self { unread: 256 << 20, words: 64 << 20, answers: 1 << 20 }
    }
}

/// For how long a peer may confirm nothing of what waits for it, nanoseconds: a chunk is confirmed in this time even by one
/// that gets forty kilobytes a second.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Why a peer has to be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// It does not read.
    #[error("it has read nothing for {} s, and {size} bytes wait for it", PATIENCE_NS / 1_000_000_000)]
    Unread {
        /// Bytes that wait.
        size: usize,
    },
    /// It asks for words and does not read them.
    #[error(
        "{size} bytes of short words wait for it, of which {limit} may: it does not read what it asks for"
    )]
    Words {
        /// Bytes that wait.
        size: usize,
        /// Bytes that may.
        limit: usize,
    },
    /// It does not say that it has what it was answered.
    #[error("it has not confirmed {count} answers to its tasks, of which {limit} may be under way")]
    Answers {
        /// Answers that it has not confirmed.
        count: usize,
        /// Those that it may not have.
        limit: usize,
    },
}

/// What waits for a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Bytes.
    pub size: usize,
    /// Of these, those of short words, or a few more.
    pub words: usize,
    /// Answers that were not confirmed.
    pub answers: usize,
    /// The last chunk that was confirmed.
    pub confirmed: u64,
}

/// What is known of a peer's reading.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// The last chunk that was confirmed, and when that was seen, or when too much began to wait.
    confirmed: (u64, u64),
}

impl Backlog {
    /// Looks at what waits; gives why that is too much.
    pub fn check(&mut self, waiting: Waiting, limits: &BacklogLimits, now: u64) -> Option<Excess> {
        let Waiting { size, words, answers, confirmed } = waiting;
        if size <= limits.unread || confirmed != self.confirmed.0 {
            self.confirmed = (confirmed, now);
        }
        if now.saturating_sub(self.confirmed.1) >= PATIENCE_NS {
            return Some(Excess::Unread { size });
        }
        if words > limits.words {
            return Some(Excess::Words { size: words, limit: limits.words });
        }
        let limit = limits.answers;
        (answers > limit).then_some(Excess::Answers { count: answers, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BacklogLimits = BacklogLimits { unread: 100, words: 10, answers: 3 };

    const fn waiting(size: usize, confirmed: u64) -> Waiting {
        Waiting { size, words: 0, answers: 0, confirmed }
    }

    #[test]
    fn who_reads_nothing_is_given_up_after_a_while() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.check(waiting(100, 0), &LIMITS, PATIENCE_NS), None, "it is not much");
        assert_eq!(backlog.check(waiting(101, 0), &LIMITS, 2 * PATIENCE_NS - 1), None);
        let excess = backlog.check(waiting(500, 0), &LIMITS, 2 * PATIENCE_NS).expect("too long");
        assert_eq!(excess.to_string(), "it has read nothing for 30 s, and 500 bytes wait for it");
    }

    #[test]
    fn who_reads_slowly_is_not() {
        let mut backlog = Backlog::default();
        for turn in 1..100 {
            let now = turn * (PATIENCE_NS - 1);
            assert_eq!(backlog.check(waiting(1 << 40, turn), &LIMITS, now), None);
        }
    }

    #[test]
    fn words_and_answers_that_are_asked_for_have_limits_of_their_own() {
        let mut backlog = Backlog::default();
        let most = Waiting { words: 10, answers: 3, ..waiting(10, 0) };
        assert_eq!(backlog.check(most, &LIMITS, 0), None);
        let check = |waiting| Backlog::default().check(waiting, &LIMITS, 0);
        let words = check(Waiting { words: 11, ..most });
        assert_eq!(words, Some(Excess::Words { size: 11, limit: 10 }));
        let answers = check(Waiting { answers: 4, ..most });
        assert_eq!(answers, Some(Excess::Answers { count: 4, limit: 3 }));
    }
}
