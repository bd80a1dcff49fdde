//! Nodes that suit a task because they have the blobs that it names.

use gristmill_core::{Holders, Payload, TaskOptions};
use gristmill_wire::{BlobName, PeerId};

use super::parts::BlobPartsRef;

/// Maximum number of holders that are passed to placement. If many holders have room, one of these 16 probably has.
const HOLDERS_MAX: usize = 16;
/// Assumed cost to fetch a missing blob, nanoseconds per byte: about the time to transfer a byte over a fast network and to
/// hash it on one core.
const FETCH_NS_PER_BYTE: u64 = 1;

/// Returns the options of a task, marked as bulky if an argument is a named blob; `names` is empty if none is.
pub(crate) fn with_names(
    options: Option<&TaskOptions>,
    names: &[Option<BlobName>],
) -> Option<TaskOptions> {
    let is_bulky = !names.is_empty();
    let given = options.copied();
    if is_bulky { Some(TaskOptions { is_bulky, ..given.unwrap_or_default() }) } else { given }
}

impl BlobPartsRef<'_> {
    /// Returns the nodes that have, or are getting, the largest blob that a payload names.
    pub fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        let Some(block) = payload.block() else { return Holders::default() };
        let names = self.bundles.get(block).named_parts().filter_map(|(_, name)| name);
        let Some(largest) = names.max_by_key(|name| name.size) else { return Holders::default() };
        let peers =
            self.provider.broadcast.holders(largest.digest, near).take(HOLDERS_MAX).collect();
        Holders { peers, fetch_ns: largest.size.saturating_mul(FETCH_NS_PER_BYTE) }
    }
}
