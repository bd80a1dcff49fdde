//! Names of the parts of payloads that are blobs.

use gristmill_shm::BlockPart;
use gristmill_store::digest_of;
use gristmill_wire::BlobName;

/// Returns true if a part has at least `min` bytes, and so gets a name.
pub(crate) fn is_blob(part: &BlockPart, min: usize) -> bool {
    part.size() >= min
}

/// Returns the names of the blobs among some parts, in the order of the parts; empty if there are none. Hashes the blobs that
/// were not hashed before, which takes at most a second for each gigabyte.
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
