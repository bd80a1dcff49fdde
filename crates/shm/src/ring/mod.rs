//! The ring: records from exactly one writer to exactly one reader. `README.md` has the proof.

mod consumer;
mod error;
mod growing;
mod layout;
mod producer;
mod record;
mod take_back;
mod watch;
mod words;
mod writer;

pub use consumer::{Consumer, Tail};
pub use error::{BeginError, Corrupt, LayoutError};
#[cfg(not(gristmill_loom))]
pub(crate) use layout::CONTROL_SIZE;
pub use layout::RingLayout;
pub use producer::Producer;
pub use record::Record;
pub use take_back::TakeBack;
pub use watch::RingWatch;
pub use words::{HeapWords, Words};
pub use writer::RecordWriter;

/// A record's place in its ring, counted from 0 since the ring was reset; pads have none.
pub type Sequence = u64;
