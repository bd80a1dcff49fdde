//! Limits on what a link takes at a time, and on what it keeps.

use gristmill_transport::SessionOptions;
use gristmill_wire::peer::{MESSAGE_SIZE_MAX, SENT_SIZE_MAX};

use crate::peers::backlog::BacklogLimits;

/// Least limit of all incomplete messages: a few chunks, so that an engine with little memory can still receive messages.
const ASSEMBLED_MIN: usize = 16 << 20;

/// Limits on what is sent at once, and on what is sent before something is confirmed; bytes.
#[derive(Debug, Clone, Copy)]
pub struct LinkSizes {
    /// Size of one chunk.
    pub chunk: usize,
    /// Bytes under way to a peer above which it gets no more tasks.
    pub congested: usize,
    /// Maximum size of a received message that comes in several chunks.
    pub message: usize,
    /// Maximum size of all such messages whose ends have not come, of all links together.
    pub assembled: usize,
    /// Maximum size of a sent message.
    pub sent: usize,
    /// Size of a piece of a blob.
    pub piece: usize,
    /// Limits on the chunks that are kept until the peer has them.
    pub session: SessionOptions,
    /// Limits on what waits for a peer that does not read.
    pub backlog: BacklogLimits,
}

impl LinkSizes {
    /// Returns limits for an engine that may use `memory` bytes: a message takes at most an eighth of them, and all incomplete
    /// ones half.
    #[must_use]
    pub fn within(memory: u64) -> Self {
        let share = |divisor| usize::try_from(memory / divisor).unwrap_or(usize::MAX);
        Self {
            message: share(8).min(MESSAGE_SIZE_MAX),
            assembled: share(2).max(ASSEMBLED_MIN),
            ..Self::default()
        }
    }

    /// Returns limits for an engine of this process.
    #[must_use]
    pub fn of_machine() -> Self {
        Self::within(gristmill_machine::memory().usable)
    }

    /// Returns limits for a link to an end that takes messages of this size in several chunks, bytes. It takes each message that
    /// fits into one chunk.
    #[must_use]
    pub fn towards(self, message_max: u64) -> Self {
        let most = usize::try_from(message_max).unwrap_or(usize::MAX);
        Self { sent: self.sent.min(most.max(self.chunk)), ..self }
    }
}

impl Default for LinkSizes {
    /// Returns limits for chunks that are large enough for their costs to vanish and small enough for other links to get a
    /// turn, and for enough bytes under way to fill any network for a while.
    fn default() -> Self {
        Self {
            chunk: 1 << 20,
            congested: 16 << 20,
            message: MESSAGE_SIZE_MAX,
            assembled: 2 * MESSAGE_SIZE_MAX,
            sent: SENT_SIZE_MAX,
            // A slow link takes this in a few milliseconds, so that tasks get in between.
            piece: 128 << 10,
            session: SessionOptions::default(),
            backlog: BacklogLimits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_is_larger_than_the_other_end_takes() {
        let sizes = LinkSizes::default();
        let most = |message_max| sizes.towards(message_max).sent;
        assert_eq!([most(3 << 20), most(u64::MAX), most(0)], [3 << 20, SENT_SIZE_MAX, 1 << 20]);
        assert_eq!(most(LinkSizes::within(1 << 30).message as u64), 1 << 27);
    }
}
