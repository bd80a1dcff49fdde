//! Limits of a store, and its answers about blobs.

use std::path::PathBuf;

use gristmill_shm::BlockPart;

/// Limits of the bytes that the store keeps.
#[derive(Debug, Clone)]
pub struct BlobLimits {
    /// Bytes in memory, including blobs in use, whose blocks callers hold. Blobs in use stay in memory even above this limit.
    pub memory: u64,
    /// Bytes on disk; 0 if blobs must not go to disk.
    pub disk: u64,
    /// Directory of the file on disk.
    pub directory: PathBuf,
}

/// The state of a requested blob.
#[derive(Debug)]
#[must_use]
pub enum BlobAvailability {
    /// The blob is complete in this block.
    Here(BlockPart),
    /// The blob arrives in this block; it was requested before.
    Coming(BlockPart),
    /// The blob is missing: the caller must request it from another node, and its bytes will arrive in this block.
    Missing(BlockPart),
    /// The blob is on disk: the caller must call [`Store::restore`](crate::Store::restore), which reads it to this block.
    OnDisk(BlockPart),
}

/// The result of adding a blob that was made here, with the block that it is in. The blob stays in use while the caller
/// holds the block.
#[derive(Debug)]
#[must_use]
pub enum InsertOutcome {
    /// No caller waits for the bytes of the blob.
    Here(BlockPart),
    /// The bytes of the blob are in the block that other callers waited for.
    Came(BlockPart),
    /// Another thread writes to that block right now, or the blob no longer has that block: try again.
    Busy,
}

/// The bytes of a blob that have arrived.
#[derive(Debug)]
pub struct BlobProgress {
    /// Block in which the bytes arrive.
    pub part: BlockPart,
    /// Bytes that have arrived, counted from the start of the blob.
    pub received: u64,
    /// True if all bytes have arrived and hash to the blob's name.
    pub is_complete: bool,
}

/// Bytes that a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCounts {
    /// Bytes in memory, in use or not. A block counts in full from its allocation on, before its bytes arrive.
    pub in_memory: u64,
    /// Bytes on disk.
    pub on_disk: u64,
}
