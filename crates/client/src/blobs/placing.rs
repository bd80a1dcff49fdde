//! Which nodes are good places for a task because of the blobs that it names.

use gristmill_core::{Holders, Payload, TaskOptions};
use gristmill_wire::{BlobName, PeerId};

use super::parts::BlobLook;

/// Nodes that placement is told of: enough that one of them has room, if many do.
const HOLDERS_MAX: usize = 16;
/// Assumed of a blob that is not there, nanoseconds for each byte: what a good network needs, and a core for the hash.
const FETCH_NS_PER_BYTE: u64 = 1;

/// The options of a task whose arguments have these names.
pub(crate) fn with_names(
    options: Option<&TaskOptions>,
    names: &[Option<BlobName>],
) -> Option<TaskOptions> {
    let is_bulky = !names.is_empty();
    let given = options.copied();
    if is_bulky { Some(TaskOptions { is_bulky, ..given.unwrap_or_default() }) } else { given }
}

impl BlobLook<'_> {
    /// Who has the largest blob that arguments or a result name, or is getting it.
    pub fn holders(&self, payload: &Payload, near: PeerId) -> Holders {
        let Some(block) = payload.block() else { return Holders::default() };
        let names = self.bundles.get(block).named_parts().filter_map(|(_, name)| name);
        let Some(largest) = names.max_by_key(|name| name.size) else { return Holders::default() };
        let peers = self.giving.spread.holders(largest.digest, near).take(HOLDERS_MAX).collect();
        Holders { peers, fetch_ns: largest.size.saturating_mul(FETCH_NS_PER_BYTE) }
    }
}
