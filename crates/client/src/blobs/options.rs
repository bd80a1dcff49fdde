//! What an engine is told about blobs.

use std::sync::Arc;

use gristmill_store::{BlobLimits, SpreadOptions};
use gristmill_transport::Identity;

use crate::provisions::Steward;

/// What an engine is told about blobs.
#[derive(Debug, Clone, Default)]
pub struct BlobOptions {
    /// How a program's client spreads them.
    pub spread: SpreadOptions,
    /// How much a lease's engine keeps; none: it takes no blobs.
    pub limits: Option<BlobLimits>,
    /// What that engine proves to other nodes; none: it gives them nothing, and fetches nothing there.
    pub sibling: Option<Identity>,
    /// Whoever makes the files of contexts ready there; none: contexts that have any fail.
    pub steward: Option<Arc<dyn Steward>>,
}

/// From which size on parts are blobs, and how these are cut.
#[derive(Debug, Clone, Copy)]
pub struct BlobSizes {
    /// Smaller parts travel with their tasks, bytes.
    pub min: usize,
    /// Bytes of a piece that one depot gives another.
    pub piece: usize,
}

impl Default for BlobSizes {
    /// A megabyte: a name saves less than it costs where parts are smaller, as the first task has to wait until the blob
    /// was asked for.
    fn default() -> Self {
        Self { min: 1 << 20, piece: 128 << 10 }
    }
}
