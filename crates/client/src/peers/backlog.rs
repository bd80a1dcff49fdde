//! Limits on what waits for a peer that does not read, and on what it has not confirmed. A peer may send messages that require
//! answers and read none of them.
//!
//! A slow reader is not at fault: any number of large results waits for it while it confirms some of them now and then.

/// Limits on what may wait for one peer.
#[derive(Debug, Clone, Copy)]
pub struct BacklogLimits {
    /// Bytes that may wait for a peer that confirms nothing for a while (`PATIENCE_NS`).
    pub unread: usize,
    /// Bytes of control messages that may wait: enough to cancel two million tasks at once.
    pub words: usize,
    /// Answers that a peer may leave unconfirmed: more than a session holds of the shortest ones.
    pub answers: usize,
}

impl Default for BacklogLimits {
    fn default() -> Self {
        Self { unread: 256 << 20, words: 64 << 20, answers: 1 << 20 }
    }
}

/// Longest time for which a peer may confirm nothing while too much waits for it, nanoseconds. Even a peer that receives forty
/// kilobytes a second confirms a chunk within this time.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Reason to give up a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// The peer does not read.
    #[error("it has read nothing for {} s, while {size} bytes wait for it", PATIENCE_NS / 1_000_000_000)]
    Unread {
        /// Bytes waiting for the peer.
        size: usize,
    },
    /// The peer requests control messages and does not read them.
    #[error(
        "{size} bytes of control messages wait for it, and the limit is {limit}: it does not read the answers to its requests"
    )]
    Words {
        /// Bytes waiting for the peer.
        size: usize,
        /// Bytes that may wait.
        limit: usize,
    },
    /// The peer does not confirm the answers that it was sent.
    #[error("it has not confirmed {count} answers to its tasks, and the limit is {limit}")]
    Answers {
        /// Answers that the peer has not confirmed.
        count: usize,
        /// Answers that it may leave unconfirmed.
        limit: usize,
    },
}

/// Amounts waiting for a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Bytes in total.
    pub size: usize,
    /// Bytes of control messages among them, or slightly more.
    pub words: usize,
    /// Answers that the peer has not confirmed.
    pub answers: usize,
    /// Number of the last chunk that the peer has confirmed.
    pub confirmed: u64,
}

/// Record of a peer's reading progress.
#[derive(Debug, Default)]
pub(super) struct StallDetector {
    /// The last confirmed chunk, and the time when it was noticed or when too much began to wait.
    confirmed: (u64, u64),
}

impl StallDetector {
    /// Checks the amounts waiting for a peer; returns the limit that they exceed, if any.
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
        let mut backlog = StallDetector::default();
        assert_eq!(backlog.check(waiting(100, 0), &LIMITS, PATIENCE_NS), None, "it is not much");
        assert_eq!(backlog.check(waiting(101, 0), &LIMITS, 2 * PATIENCE_NS - 1), None);
        let excess = backlog.check(waiting(500, 0), &LIMITS, 2 * PATIENCE_NS).expect("too long");
        assert_eq!(excess.to_string(), "it has read nothing for 30 s, while 500 bytes wait for it");
    }

    #[test]
    fn who_reads_slowly_is_not() {
        let mut backlog = StallDetector::default();
        for turn in 1..100 {
            let now = turn * (PATIENCE_NS - 1);
            assert_eq!(backlog.check(waiting(1 << 40, turn), &LIMITS, now), None);
        }
    }

    #[test]
    fn words_and_answers_that_are_asked_for_have_limits_of_their_own() {
        let mut backlog = StallDetector::default();
        let most = Waiting { words: 10, answers: 3, ..waiting(10, 0) };
        assert_eq!(backlog.check(most, &LIMITS, 0), None);
        let check = |waiting| StallDetector::default().check(waiting, &LIMITS, 0);
        let words = check(Waiting { words: 11, ..most });
        assert_eq!(words, Some(Excess::Words { size: 11, limit: 10 }));
        let answers = check(Waiting { answers: 4, ..most });
        assert_eq!(answers, Some(Excess::Answers { count: 4, limit: 3 }));
    }
}
