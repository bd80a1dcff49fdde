//! Reasons why links end.

use gristmill_transport::{ChannelError, SessionError};
use gristmill_wire::peer::MessageKind;
use gristmill_wire::{ContextId, FunctionId, TaskId};

use crate::peers::backlog::Excess;

/// Reason why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection failed; another one may work.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The other end claims to have chunks that it cannot have.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The other end sent bytes that are no message.
    #[error("it sent bytes that are no message: {0}")]
    Message(#[from] gristmill_wire::FrameError),
    /// The other end sent a message that is larger than any may be here, and that belongs to no task.
    #[error(
        "it sent a message of kind {kind:?} with {size} bytes, and the limit is {limit}: pass large data to tasks as \
         arguments"
    )]
    TooLarge {
        /// The kind of the message.
        kind: MessageKind,
        /// Size of the message, bytes.
        size: usize,
        /// Maximum size, bytes.
        limit: usize,
    },
    /// The other end sent more pieces of a message than the message has.
    #[error("it sent {received} bytes of a message of {size}")]
    Overlong {
        /// Bytes that came.
        received: usize,
        /// Size of the message, bytes.
        size: usize,
    },
    /// The other end sent a task of a function that it has not defined.
    #[error("it sent a task of {0}, which it has not defined")]
    Undefined(FunctionId),
    /// The other end named a context that is not known here, is known already, or may not be defined by it.
    #[error("it named {0}, which is not a context of this lease, or is one already")]
    Context(ContextId),
    /// More waits for the other end than may wait.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// The other end sent a request that only a client may send.
    #[error("it requested {0} tasks, and only a client may do that")]
    Wanted(u32),
    /// The other end sent a task again while the first one was unfinished.
    #[error("it sent {0} again before it got an answer")]
    Again(TaskId),
}

impl LinkError {
    /// Returns true if the same lease can go on over another connection.
    pub fn can_resume(&self) -> bool {
        matches!(self, Self::Channel(_))
    }

    /// Returns true if the other end has closed the connection in order: it has nothing more to say, and will not come again.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Channel(ChannelError::Closed { .. }))
    }
}
