//! What is known of the blobs that a task waits for at a node, in words.

use gristmill_core::Payload;
use gristmill_store::{Giver, Stage};
use gristmill_wire::{BlobName, PeerId};

use crate::lanes::Lanes;

impl Lanes {
    /// How much of a large argument a node has yet to get before the task can run; `None`: of none, as far as is known.
    pub(crate) fn explain_blobs(&self, peer: PeerId, arguments: &Payload) -> Option<String> {
        let bundle = self.bundles.get(arguments.block()?);
        let names = bundle.named_parts().filter_map(|(_, name)| name);
        names.into_iter().find_map(|name| self.explain_blob(peer, &name))
    }

    fn explain_blob(&self, peer: PeerId, name: &BlobName) -> Option<String> {
        let BlobName { digest, size } = *name;
        let link = self.links.get(peer)?;
        match self.giving.spread.stage(peer, digest)? {
            Stage::Complete => None,
            Stage::Waiting | Stage::Asked => Some(format!(
                "an argument of {size} bytes waits for somebody who has time to give it"
            )),
            Stage::From(Giver::Client) => {
                let given = link.feeds.given(digest).unwrap_or(size);
                Some(format!("{given} of {size} bytes of an argument have left for there"))
            }
            Stage::From(Giver::Node(giver)) => {
                let giver = self.links.get(giver).map_or("?", |link| &link.name);
                Some(format!("an argument of {size} bytes is on its way there from node {giver}"))
            }
        }
    }
}
