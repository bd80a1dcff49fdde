//! Why links end.

use gristmill_transport::{ChannelError, SessionError};
use gristmill_wire::{ContextId, FunctionId, TaskId};

use crate::peers::backlog::Excess;
use crate::peers::definitions::DEFINITIONS_MAX;

/// Why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection; another one may do.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// What the other end says it has cannot be.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Bytes that are no message.
    #[error("it sent what is no message: {0}")]
    Message(#[from] gristmill_wire::FrameError),
    /// Pieces of a message that is larger than any.
    #[error("it sent {size} bytes of one message, of which {limit} may come")]
    TooLarge {
        /// Bytes that came.
        size: usize,
        /// Bytes that may.
        limit: usize,
    },
    /// It defines more than may be kept of it.
    #[error(
        "with {name} the definitions of its functions take {size} bytes here, of which it may have {DEFINITIONS_MAX}: give \
         large data to its tasks as arguments"
    )]
    Definitions {
        /// The function that is one too many.
        name: String,
        /// What all would take, bytes.
        size: usize,
    },
    /// A task of a function that it never told of.
    #[error("it sent a task of {0}, which it has not defined")]
    Undefined(FunctionId),
    /// A context that is not known here, is known already, or is not for its side to define.
    #[error("it named {0}, which stands for something else")]
    Context(ContextId),
    /// More waits for it than may.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// A word that is not for its side.
    #[error("it asked for {0} tasks, as only a client does of its nodes")]
    Wanted(u32),
    /// A task in the place of one that runs.
    #[error("it sent {0} again, which it has sent and was not answered")]
    Again(TaskId),
}

impl LinkError {
    /// Whether the same lease can go on over another connection.
    pub fn can_resume(&self) -> bool {
        matches!(self, Self::Channel(_))
    }

    /// Whether the other end has closed the connection in order: it has nothing more to say, and will not come again.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Channel(ChannelError::Closed { .. }))
    }
}
