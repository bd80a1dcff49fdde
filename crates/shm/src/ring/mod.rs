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

pub use consumer::{Consumer, Tail};
pub use error::{BeginError, Corrupt, LayoutError};
#[cfg(not(gristmill_loom))]
pub(crate) use layout::CONTROL_SIZE;
pub use layout::RingLayout;
pub use producer::{Producer, RecordWriter};
pub use record::RingRecord;
pub use take_back::TakeBack;
pub use watch::RingWatch;
pub use words::{HeapWords, Words};

/// A record's number in its ring, counted from 0 since the ring was reset; pads have none.
pub type Sequence = u64;
