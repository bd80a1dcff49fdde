//! What an engine is told about blobs.

use gristmill_store::{BlobLimits, SpreadOptions};
use gristmill_transport::Identity;

/// What an engine is told about blobs.
#[derive(Debug, Clone, Default)]
pub struct BlobOptions {
    /// How a program's client spreads them.
    pub spread: SpreadOptions,
    /// How much a lease's engine keeps; none: it takes no blobs.
    pub limits: Option<BlobLimits>,
    /// What that engine proves to other nodes; none: it gives them nothing, and fetches nothing there.
    pub sibling: Option<Identity>,
}
