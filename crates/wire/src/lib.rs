//! The bytes that cross a process boundary: ids, record headers and frames.
//!
//! Guarantees: every layout here is fixed width and made of 64-bit words, so that a ring can move it word by word;
//! decoding validates every field and never panics; the golden tests pin each layout to the byte.
//! Not here: how words travel (`shm`, `transport`) and what a payload's bytes mean (an `ObjectCodec` above).
//!
//! # Versions
//! [`WIRE_VERSION`] names the whole set of layouts. Both ends compare it once, when a segment is attached or a connection
//! opens, and refuse to talk otherwise: the processes of one program always come from one installation, so there is no
//! negotiation. A reserved field is written as zero and ignored when read, so that filling one is not a new version.
#![forbid(unsafe_code)]

mod answer;
mod arena;
mod batch;
mod demand;
mod digest;
mod error;
mod ids;
mod nested;
pub mod peer;
mod record;
mod span;
mod task;
mod temperature;

pub use answer::{ANSWER_WORDS, AnswerFrame, Verdict};
pub use arena::{ArenaDescriptor, BlockRange};
pub use batch::{BATCH_MAX, BatchCalls, BatchResults, ResultFrame};
pub use demand::{
    Demand, Equipment, GPUS_MAX, NAMED_PLACES_MAX, WHOLE_GPU, pack_places, unpack_places,
};
pub use digest::{BlobName, Digest};
pub use error::FrameError;
pub use ids::{Attempt, ContextId, Epoch, FunctionId, IdHasher, PeerId, SlotId, TaskId};
pub use nested::{NestedOptions, NestedReply, NestedRequest, ReplyKind};
pub use record::{Kind, RECORD_ALIGN, RECORD_HEADER_SIZE, RecordHeader, padded_size};
pub use span::Span;
pub use task::{
    EXTENSION_WORDS, PARENT_WORDS, ParentEntry, PayloadKind, TASK_WORDS, TaskExtension, TaskFlags,
    TaskFrame,
};
pub use temperature::Temperature;

/// The version of every layout in this crate; two ends with different versions refuse each other.
pub const WIRE_VERSION: u32 = 3;
