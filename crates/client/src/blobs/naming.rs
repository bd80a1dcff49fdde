//! Which parts of payloads are blobs, and what they are called.

use gristmill_shm::BlockPart;
use gristmill_store::digest_of;
use gristmill_wire::BlobName;

/// Smaller parts travel with their tasks, bytes: a name saves less than it costs, as the first task has to wait until the
/// blob was asked for.
const BLOB_MIN: usize = 1 << 20;

/// Whether a part is large enough to have a name.
pub(crate) fn is_blob(part: &BlockPart) -> bool {
    part.size() >= BLOB_MIN
}

/// What the blobs among some parts are called, in the parts' order; empty where there is none. Hashes what was not hashed
/// before, a second for each gigabyte or less.
pub(crate) fn names_of(parts: &[BlockPart]) -> Vec<Option<BlobName>> {
    if !parts.iter().any(is_blob) {
        return Vec::new();
    }
    let name = |part: &BlockPart| {
        let size = part.range().size;
        is_blob(part).then(|| BlobName { digest: digest_of(part), size })
    };
    parts.iter().map(name).collect()
}
