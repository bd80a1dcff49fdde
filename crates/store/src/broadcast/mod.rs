//! The broadcast plan: which nodes have or need a blob, and from which source each node gets it.
//!
//! A client plans for its nodes. The nodes report what they need, have and drop. The plan returns [`BroadcastAction`]s: the
//! client sends a blob itself, or a node fetches it from another node. A node that still receives a blob already forwards
//! the bytes it has, so a blob reaches many nodes in hardly more time than one. Each source sends one blob to at most
//! `fanout` nodes at a time.
//!
//! Guarantees: the sources never form a cycle. The chain of sources above a node ends at the client, at a node that has all
//! of the blob, or at a node that has lost its source and gets another. Every node that needs a blob of the client gets it,
//! even if other nodes die, refuse or lie: in the end the client sends it. If the client does not have the blob and no node
//! can serve it, the client fetches it first.
//! Pure: no clock, no bytes, no sockets.
//!
//! The fanout limit counts per blob, not over all blobs: otherwise a slow receiver would keep others from blobs that they
//! need. The links themselves share their bandwidth well enough.

mod blob;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest, PeerId};

use blob::Blob;

pub use blob::Stage;

/// The nodes that may be sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BroadcastTopology {
    /// Only the client is a source.
    Client,
    /// Every node may be a source for every other.
    #[default]
    Peers,
    /// Nodes of a group are sources for each other; one node of a group at a time starts to get a blob from outside it.
    Groups,
}

/// The rules of the broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroadcastOptions {
    /// Maximum number of nodes that get a blob from one source at the same time; at least 1.
    pub fanout: u32,
    /// The nodes that may be sources.
    pub topology: BroadcastTopology,
}

impl Default for BroadcastOptions {
    /// Returns a fanout of 2. With 1, the nodes form a chain, and the delay along it grows with the number of nodes; with
    /// more than 2, each node gets a smaller share of its source's link.
    fn default() -> Self {
        Self { fanout: 2, topology: BroadcastTopology::default() }
    }
}

/// The properties of a node that the plan depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BroadcastNode {
    /// Group of the node; `None` if the node is a group of its own.
    pub group: Option<String>,
    /// True if only nodes on the client's machine can reach this node. Local nodes are all on that machine.
    pub is_local: bool,
    /// True if the node does not send blobs to others.
    pub is_mute: bool,
}

/// The source of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BroadcastSource {
    /// The client, over its link to the node.
    Client,
    /// Another node.
    Node(PeerId),
}

/// An action that the plan requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum BroadcastAction {
    /// The client sends a blob to a node from `offset` on. The node's previous source stops.
    Give {
        /// Receiving node.
        node: PeerId,
        /// Digest of the blob.
        digest: Digest,
        /// Bytes that the node already has.
        offset: u64,
    },
    /// A node fetches a blob from another node.
    Fetch {
        /// Receiving node.
        node: PeerId,
        /// Name of the blob.
        name: BlobName,
        /// Node to fetch from.
        source: PeerId,
    },
    /// A node has lost its source; the client asks what the node still needs.
    RequestNeeds {
        /// Node to ask.
        node: PeerId,
        /// Name of the blob.
        name: BlobName,
    },
    /// A node forgets a blob that no task needs any more.
    Dismiss {
        /// Node that forgets the blob.
        node: PeerId,
        /// Name of the blob.
        name: BlobName,
    },
    /// The client fetches a blob that it does not have, because no node can send it to the nodes that need it: they cannot
    /// reach a node that has it, or no node has all of it.
    Bring {
        /// Name of the blob.
        name: BlobName,
    },
    /// A node cannot have a blob: the bytes that the client itself sends do not hash to the blob's name.
    Refuse {
        /// Node that is refused.
        node: PeerId,
        /// Name of the blob.
        name: BlobName,
    },
}

/// A node in the plan.
#[derive(Debug)]
pub(crate) struct BroadcastMember {
    node: BroadcastNode,
    /// Failed transfers from this node since the last one that succeeded.
    failures: u32,
}

/// The nodes in the plan, and the rules.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    options: BroadcastOptions,
    nodes: BTreeMap<PeerId, BroadcastMember>,
}

/// Failed transfers after which a node is no longer a source.
const FAILURES_MAX: u32 = 3;

impl Membership {
    fn group(&self, node: PeerId) -> Option<&str> {
        self.nodes.get(&node)?.node.group.as_deref()
    }

    /// Returns true if `sink` is expected to reach `source`: it can connect, and `source` serves others and has not failed
    /// too often.
    fn reaches(&self, sink: PeerId, source: PeerId) -> bool {
        let (Some(sink), Some(source)) = (self.nodes.get(&sink), self.nodes.get(&source)) else {
            return false;
        };
        let reaches = sink.node.is_local || !source.node.is_local;
        reaches && !source.node.is_mute && source.failures < FAILURES_MAX
    }
}

/// The broadcast plan of a client.
#[derive(Debug, Default)]
pub struct BroadcastPlan {
    membership: Membership,
    blobs: BTreeMap<Digest, Blob>,
    /// Requests so far. Sources are assigned in this order.
    needs: u64,
    steps: Vec<BroadcastAction>,
}

impl BroadcastPlan {
    /// Creates a plan without nodes.
    #[must_use]
    pub fn new(options: BroadcastOptions) -> Self {
        let options = BroadcastOptions { fanout: options.fanout.max(1), ..options };
        Self { membership: Membership { options, nodes: BTreeMap::new() }, ..Self::default() }
    }

    /// Adds a node. A node of the same number is removed first.
    pub fn join(&mut self, node: PeerId, about: BroadcastNode) {
        self.leave(node);
        self.membership.nodes.insert(node, BroadcastMember { node: about, failures: 0 });
    }

    /// Records that a node is a source for others from now on.
    pub fn open(&mut self, node: PeerId) {
        if let Some(known) = self.membership.nodes.get_mut(&node) {
            known.node.is_mute = false;
        }
    }

    /// Removes a node with all blobs that it had.
    pub fn leave(&mut self, node: PeerId) {
        if self.membership.nodes.remove(&node).is_none() {
            return;
        }
        let digests: Vec<Digest> = self.blobs.keys().copied().collect();
        for digest in digests {
            self.remove(node, digest);
        }
    }

    /// Records that the client has a blob.
    pub fn hold(&mut self, name: BlobName) {
        self.know(name);
        self.set_held(name.digest, true);
        self.assign(name.digest);
    }

    /// Records that tasks need a blob that the client does not have. Call [`BroadcastPlan::made`] to report a node that has
    /// it.
    pub fn know(&mut self, name: BlobName) {
        self.blobs.entry(name.digest).or_insert_with(|| Blob::new(name)).is_named = true;
    }

    /// Records that the client no longer has a blob that tasks still need.
    pub fn let_go(&mut self, digest: Digest) {
        self.set_held(digest, false);
        self.assign(digest);
    }

    fn set_held(&mut self, digest: Digest, is_held: bool) {
        if let Some(blob) = self.blobs.get_mut(&digest) {
            blob.is_held = is_held;
            blob.is_requested = false;
        }
    }

    /// Records that no task needs a blob and the client no longer has it. Waiting nodes must forget the blob; running
    /// transfers go on.
    pub fn release(&mut self, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        (blob.is_named, blob.is_held) = (false, false);
        let name = blob.name;
        for node in blob.waiting() {
            self.steps.push(BroadcastAction::Dismiss { node, name });
            self.remove(node, digest);
        }
        self.forget_if_nowhere(digest);
    }

    /// Records that a node needs a blob, of which it has `received` bytes. `shortfall` says how the node's last source
    /// failed.
    pub fn need(&mut self, node: PeerId, name: BlobName, received: u64, shortfall: Shortfall) {
        if !self.membership.nodes.contains_key(&node) {
            return;
        }
        let digest = name.digest;
        let Some(blob) = self.blobs.get_mut(&digest).filter(|blob| blob.is_named) else {
            self.steps.push(BroadcastAction::Dismiss { node, name });
            return self.remove(node, digest);
        };
        let order = self.needs;
        self.needs += 1;
        let source = blob.need(node, order, received, &self.membership);
        match (shortfall, source) {
            (Shortfall::Wrong, Some(BroadcastSource::Client)) if blob.is_pure(node) => {
                self.steps.push(BroadcastAction::Refuse { node, name });
                return self.remove(node, digest);
            }
            (Shortfall::Wrong, source) => {
                blob.distrust(node);
                self.blame(source);
            }
            (Shortfall::Gone, Some(BroadcastSource::Node(source))) => {
                blob.note_failure(node, source);
                self.blame(Some(BroadcastSource::Node(source)));
            }
            (Shortfall::Gone | Shortfall::None, _) => {}
        }
        self.assign(digest);
    }

    fn blame(&mut self, source: Option<BroadcastSource>) {
        if let Some(BroadcastSource::Node(source)) = source
            && let Some(known) = self.membership.nodes.get_mut(&source)
        {
            known.failures += 1;
        }
    }

    /// Records that a node has all of a blob. Returns the source that it came from.
    pub fn have(&mut self, node: PeerId, digest: Digest) -> Option<BroadcastSource> {
        let source = self.blobs.get_mut(&digest)?.complete(node, &self.membership);
        if let Some(BroadcastSource::Node(source)) = source
            && let Some(known) = self.membership.nodes.get_mut(&source)
        {
            known.failures = 0;
        }
        self.assign(digest);
        source
    }

    /// Records that a node has all of a blob because one of its tasks produced it.
    pub fn made(&mut self, node: PeerId, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        if !self.membership.nodes.contains_key(&node) {
            return;
        }
        let _source = blob.need(node, self.needs, blob.name.size, &self.membership);
        let _source = blob.complete(node, &self.membership);
        self.needs += 1;
        self.assign(digest);
    }

    /// Records that a node no longer has a blob, or no longer needs it.
    pub fn dropped(&mut self, node: PeerId, digest: Digest) {
        self.remove(node, digest);
    }

    /// Returns the stage of a blob on a node; `None` if the node did not request the blob.
    #[must_use]
    pub fn stage(&self, node: PeerId, digest: Digest) -> Option<Stage> {
        self.blobs.get(&digest)?.stage(node)
    }

    /// Returns the nodes that have or receive a blob, by number: first from `near` on, then those below it.
    pub fn holders(&self, digest: Digest, near: PeerId) -> impl Iterator<Item = PeerId> {
        self.blobs.get(&digest).into_iter().flat_map(move |blob| blob.holders(near))
    }

    /// Takes the actions requested since the last call, in order.
    pub fn take_steps(&mut self) -> Vec<BroadcastAction> {
        std::mem::take(&mut self.steps)
    }

    /// Removes a node from a blob, and asks the nodes that received the blob from it what they still need.
    fn remove(&mut self, node: PeerId, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        let name = blob.name;
        let orphans = blob.remove(node, &self.membership);
        self.steps
            .extend(orphans.into_iter().map(|node| BroadcastAction::RequestNeeds { node, name }));
        self.assign(digest);
        self.forget_if_nowhere(digest);
    }

    fn assign(&mut self, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        let name = blob.name;
        for (node, source, offset) in blob.assign(&self.membership) {
            self.steps.push(match source {
                BroadcastSource::Client => BroadcastAction::Give { node, digest, offset },
                BroadcastSource::Node(source) => BroadcastAction::Fetch { node, name, source },
            });
        }
        if blob.is_stuck() {
            blob.is_requested = true;
            self.steps.push(BroadcastAction::Bring { name });
        }
    }

    fn forget_if_nowhere(&mut self, digest: Digest) {
        if self.blobs.get(&digest).is_some_and(Blob::is_nowhere) {
            self.blobs.remove(&digest);
        }
    }

    /// Asserts the invariants that hold between calls.
    pub fn audit(&self) {
        self.blobs.values().for_each(|blob| blob.audit(&self.membership));
    }
}
