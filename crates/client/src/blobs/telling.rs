//! Explanations of the blobs that a task waits for at a node.

use gristmill_core::Payload;
use gristmill_store::{BroadcastSource, Stage};
use gristmill_wire::{BlobName, PeerId};

use crate::client_port::ClientPort;

impl ClientPort {
    /// Describes how much of a large argument a node must still get before the task can run. Returns `None` if no argument is
    /// known to be missing.
    pub(crate) fn explain_blobs(&self, peer: PeerId, arguments: &Payload) -> Option<String> {
        let bundle = self.bundles.get(arguments.block()?);
        let names = bundle.named_parts().filter_map(|(_, name)| name);
        names.into_iter().find_map(|name| self.explain_blob(peer, &name))
    }

    fn explain_blob(&self, peer: PeerId, name: &BlobName) -> Option<String> {
        let BlobName { digest, size } = *name;
        let link = self.links.get(peer)?;
        match self.provider.broadcast.stage(peer, digest)? {
            Stage::Complete => None,
            Stage::Waiting | Stage::Asked => {
                Some(format!("an argument of {size} bytes waits until a node is free to send it"))
            }
            Stage::From(BroadcastSource::Client) => {
                let given = link.feeds.given(digest).unwrap_or(size);
                Some(format!("the program has sent {given} of {size} bytes of an argument"))
            }
            Stage::From(BroadcastSource::Node(source)) => {
                let source = self.links.get(source).map_or("?", |link| &link.names.theirs);
                Some(format!("node {source} sends an argument of {size} bytes"))
            }
        }
    }
}
