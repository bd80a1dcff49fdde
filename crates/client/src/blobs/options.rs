//! Blob options of an engine.

use std::sync::Arc;

use gristmill_store::{BlobLimits, BroadcastOptions};
use gristmill_transport::Identity;

use crate::staging::FileStager;

/// Blob options of an engine.
#[derive(Debug, Clone, Default)]
pub struct BlobOptions {
    /// Options for the broadcasts of a program's client.
    pub broadcast: BroadcastOptions,
    /// Limits for the blobs that a lease's engine keeps; `None` if it receives no blobs.
    pub limits: Option<BlobLimits>,
    /// Identity that a lease's engine proves to other nodes; `None` if it gives no blobs to them and fetches none from them.
    pub sibling: Option<Identity>,
    /// File stager of a lease's engine; `None` if contexts with files fail there.
    pub stager: Option<Arc<dyn FileStager>>,
}

/// Minimum size of a blob, and size of the pieces that blobs are cut into.
#[derive(Debug, Clone, Copy)]
pub struct BlobSizes {
    /// Minimum size of a blob, bytes. Smaller parts travel with their tasks.
    pub min: usize,
    /// Bytes of a piece that one blob server sends to another.
    pub piece: usize,
}

impl Default for BlobSizes {
    /// Returns a minimum of one megabyte. A name for a smaller part saves less than it costs, because the first task has to
    /// wait until the blob was requested.
    fn default() -> Self {
        Self { min: 1 << 20, piece: 128 << 10 }
    }
}
