//! Which parts of payloads are blobs, and what they are called.

use gristmill_shm::BlockPart;
use gristmill_store::digest_of;
use gristmill_wire::BlobName;

/// Whether a part is large enough to have a name: from `min` bytes on.
pub(crate) fn is_blob(part: &BlockPart, min: usize) -> bool {
    part.size() >= min
}

/// What the blobs among some parts are called, in the parts' order; empty where there is none. Hashes what was not hashed
/// before, a second for each gigabyte or less.
pub(crate) fn names_of(parts: &[BlockPart], min: usize) -> Vec<Option<BlobName>> {
    if !parts.iter().any(|part| is_blob(part, min)) {
        return Vec::new();
    }
    let name = |part: &BlockPart| {
        let size = part.range().size;
        is_blob(part, min).then(|| BlobName { digest: digest_of(part), size })
    };
    parts.iter().map(name).collect()
}
