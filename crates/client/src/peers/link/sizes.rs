//! How much a link takes at a time, and keeps.

use gristmill_transport::SessionOptions;
use gristmill_wire::peer::MESSAGE_SIZE_MAX;

use crate::peers::backlog::BacklogLimits;

/// How much of what is sent goes at once, and how much before something is confirmed; bytes.
#[derive(Debug, Clone, Copy)]
pub struct LinkSizes {
    /// Of one chunk.
    pub chunk: usize,
    /// On their way to a peer above which it gets no more tasks.
    pub congested: usize,
    /// Of one message that comes.
    pub message: usize,
    /// Of a piece of a blob.
    pub piece: usize,
    /// What is kept until the peer has it.
    pub session: SessionOptions,
    /// What waits for a peer that does not read.
    pub backlog: BacklogLimits,
}

impl Default for LinkSizes {
    /// Chunks large enough for their costs to vanish, small enough for others to get a turn; and on the way enough to fill
    /// any network for a while.
    fn default() -> Self {
        Self {
            chunk: 1 << 20,
            congested: 16 << 20,
            message: MESSAGE_SIZE_MAX,
            // What a slow link takes in a few milliseconds, so that tasks get in between.
            piece: 128 << 10,
            session: SessionOptions::default(),
            backlog: BacklogLimits::default(),
        }
    }
}
