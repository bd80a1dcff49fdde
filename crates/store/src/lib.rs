//! Blobs: large parts of payloads, named by a hash of their bytes.
//!
//! | part | what it is |
//! |---|---|
//! | [`digest_of`], [`Verifier`] | the hash of a block, at once or as its bytes come |
//! | [`Store`] | the blobs of one node: those that come, those that are there, those on disk |
//! | [`Spread`] | the plan of a client: who has which blob, who needs it, who gives it to whom. Pure: no clock, no bytes |
//!
//! Guarantees: a blob is given out only once all of its bytes were found to hash to its name; one that somebody uses stays
//! in memory; what nobody uses is kept up to a limit, and goes to disk, or away, above that.
//! Not here: sockets and threads. Whoever has those moves the bytes.
// Blocks are in mapped memory, which models do without.
#![cfg(not(gristmill_loom))]
#![forbid(unsafe_code)]

mod hash;
mod spill;
mod spread;
mod state;
mod store;

pub use hash::{Verifier, digest_of};
pub use spread::{Giver, Node, Spread, SpreadOptions, Stage, Step, Topology};
pub use store::{Adoption, BlobLimits, Progress, Store, StoreCounts, Want};
