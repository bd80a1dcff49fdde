//! Content-addressed blobs: large parts of payloads, named by a hash of their bytes.
//!
//! | part | purpose |
//! |---|---|
//! | [`digest_of`], [`digest_of_bytes`], [`Verifier`] | the hash of a block, computed at once or while its bytes arrive |
//! | [`Store`] | the blobs of one node: in transfer, in memory, on disk |
//! | [`BroadcastPlan`] | a client's plan of which node gets which blob from which source. Pure: no clock, no bytes |
//!
//! Guarantees: a blob is handed out as complete ([`BlobAvailability::Here`]) only after all of its bytes hash to its name.
//! Callers must check this before they call [`Store::complete`] or [`Store::adopt`]; the store checks what it reads back from
//! disk. A blob that still arrives is handed out unchecked, and marked so. A blob in use stays in memory. Unused blobs stay
//! in memory up to a limit; above it, the store moves them to disk or drops them.
//! Not here: threads and sockets. Callers bring both, and move the bytes between nodes.
#![forbid(unsafe_code)]

mod availability;
mod broadcast;
mod hash;
mod spill;
mod state;
mod store;

pub use availability::{BlobAvailability, BlobLimits, BlobProgress, InsertOutcome, StoreCounts};
pub use broadcast::{
    BroadcastAction, BroadcastNode, BroadcastOptions, BroadcastPlan, BroadcastSource,
    BroadcastTopology, Stage,
};
pub use hash::{Verifier, digest_of, digest_of_bytes};
pub use store::Store;
