//! The bytes that cross a process boundary: ids, record headers and frames.
//!
//! Guarantees: every layout here has a fixed width and consists of 64-bit words, so a ring can move it word by word. Decoding
//! validates every field and never panics. The golden tests pin each layout to the byte.
//! Not here: the transport of the words (`shm`, `transport`) and the meaning of a payload's bytes (an `ObjectCodec` in a higher
//! layer).
//!
//! # Versions
//! [`WIRE_VERSION`] names the whole set of layouts. Both ends compare it once, when a segment is attached or a connection
//! opens, and refuse each other if the versions differ. The processes of one program always come from one installation, so
//! there is no negotiation. A reserved field is written as zero and ignored when read, so giving it a meaning later needs no
//! new version.
#![forbid(unsafe_code)]

mod answer;
mod arena;
mod batch;
mod demand;
mod dependency;
mod digest;
mod error;
mod failure;
mod ids;
mod limits;
mod nested;
pub mod peer;
mod record;
mod span;
mod task;
mod worker_state;

pub use answer::{ANSWER_WORDS, AnswerFrame, Verdict};
pub use arena::{ArenaDescriptor, BlockRange};
pub use batch::{BATCH_MAX, BatchCalls, BatchResults, ResultFrame};
pub use demand::{
    GPUS_MAX, NAMED_PLACES_MAX, ResourceGrant, ResourceRequest, WHOLE_GPU, pack_places,
    unpack_places,
};
pub use dependency::DefinitionHead;
pub use digest::{BlobName, Digest};
pub use error::FrameError;
pub use failure::{FailureKind, TaskFailure};
pub use ids::{Attempt, ContextId, Epoch, FunctionId, IdHasher, PeerId, SlotId, TaskId};
pub use limits::{NAME_SIZE_MAX, PARENTS_MAX, cut_text, short_name};
pub use nested::{Defined, NestedOptions, NestedReply, NestedRequest, Refusal, ReplyKind};
pub use record::{RECORD_ALIGN, RECORD_HEADER_SIZE, RecordHeader, RecordKind, padded_size};
pub use span::Span;
pub use task::{
    EXTENSION_WORDS, PARENT_WORDS, ParentEntry, PayloadKind, TASK_WORDS, TaskExtension, TaskFlags,
    TaskFrame,
};
pub use worker_state::WorkerState;

/// The version of every layout in this crate. Two ends with different versions refuse each other.
pub const WIRE_VERSION: u32 = 9;
