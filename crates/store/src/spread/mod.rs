//! The plan of transfers: who has which blob, who needs it, and who gives it to whom.
//!
//! A client plans for its nodes. It is told what they need, have and drop, and gives [`Step`]s: to give a blob itself, or
//! to have a node fetch it from another one. A node that is still getting a blob gives on what it has, so that a blob
//! reaches many nodes in hardly more time than one; each giver has at most so many takers of one blob at a time.
//!
//! Guarantees: who takes from whom is a tree at whose root is the client or somebody who has all of it; whoever lacks a
//! blob that the client has gets it, whatever nodes die, refuse or lie, because the client gives it itself in the end. One
//! that it does not have it gets first, if nobody can be found who gives it.
//! Pure: no clock, no bytes, no sockets.
//!
//! The takers of a giver are counted for each blob, not together: a node that takes slowly would keep others from blobs
//! that they need, and links have enough of their own to share.

mod blob;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gristmill_wire::peer::Shortfall;
use gristmill_wire::{BlobName, Digest, PeerId};

use blob::Blob;

pub use blob::Stage;

/// Who gives to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Topology {
    /// Only the client gives.
    Client,
    /// Nodes give to each other.
    #[default]
    Peers,
    /// Nodes of a group give to each other, and one node of it at a time begins to get a blob from elsewhere.
    Groups,
}

/// How blobs are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadOptions {
    /// How many get a blob from the same giver at the same time; at least 1.
    pub fanout: u32,
    /// Who gives to whom.
    pub topology: Topology,
}

impl Default for SpreadOptions {
    /// Two: with one the time grows with the number of nodes, with more each of them gets less of its giver's link.
    fn default() -> Self {
        Self { fanout: 2, topology: Topology::default() }
    }
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Its group; without one it is a group of its own.
    pub group: Option<String>,
    /// Only nodes on the same machine can reach it.
    pub is_local: bool,
    /// It gives nothing to others.
    pub is_mute: bool,
}

/// Who gives a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Giver {
    /// The client, over the link that it has.
    Client,
    /// Another node.
    Node(PeerId),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The client gives a blob to a node, from this byte on. Whoever gave it before does not any more.
    Give {
        /// To whom.
        node: PeerId,
        /// Which.
        digest: Digest,
        /// Bytes that it has.
        offset: u64,
    },
    /// A node fetches a blob from another one.
    Fetch {
        /// Who.
        node: PeerId,
        /// What.
        name: BlobName,
        /// From whom.
        giver: PeerId,
    },
    /// A node has lost its giver and is to say anew what it needs.
    Ask {
        /// Who.
        node: PeerId,
        /// What.
        name: BlobName,
    },
    /// A node is to forget a blob that no task needs any more.
    Dismiss {
        /// Who.
        node: PeerId,
        /// What.
        name: BlobName,
    },
    /// The client is to get a blob that it does not have from a node that has it: those that need it cannot.
    Bring {
        /// What.
        name: BlobName,
    },
    /// A node cannot have a blob: what the client itself gives is not what it named.
    Refuse {
        /// Who.
        node: PeerId,
        /// What.
        name: BlobName,
    },
}

/// A node that is there.
#[derive(Debug)]
pub(crate) struct Known {
    node: Node,
    /// How many could not get a blob from it since somebody did.
    troubles: u32,
}

/// Nodes that are there, and the rules.
#[derive(Debug, Default)]
pub(crate) struct World {
    options: SpreadOptions,
    nodes: BTreeMap<PeerId, Known>,
}

/// A node from which so many others could get nothing is asked no more.
const TROUBLES_MAX: u32 = 3;

impl World {
    fn group(&self, node: PeerId) -> Option<&str> {
        self.nodes.get(&node)?.node.group.as_deref()
    }

    /// Whether `taker` can reach `giver`, as far as is known.
    fn reaches(&self, taker: PeerId, giver: PeerId) -> bool {
        let (Some(taker), Some(giver)) = (self.nodes.get(&taker), self.nodes.get(&giver)) else {
            return false;
        };
        let reaches = taker.node.is_local || !giver.node.is_local;
        reaches && !giver.node.is_mute && giver.troubles < TROUBLES_MAX
    }
}

/// The plan.
#[derive(Debug, Default)]
pub struct Spread {
    world: World,
    blobs: BTreeMap<Digest, Blob>,
    /// Needs so far: they are met in this order.
    needs: u64,
    steps: Vec<Step>,
}

impl Spread {
    /// For no nodes yet.
    #[must_use]
    pub fn new(options: SpreadOptions) -> Self {
        let options = SpreadOptions { fanout: options.fanout.max(1), ..options };
        Self { world: World { options, nodes: BTreeMap::new() }, ..Self::default() }
    }

    /// A node is there.
    pub fn join(&mut self, node: PeerId, about: Node) {
        self.leave(node);
        self.world.nodes.insert(node, Known { node: about, troubles: 0 });
    }

    /// A node gives what it has to others from now on.
    pub fn open(&mut self, node: PeerId) {
        if let Some(known) = self.world.nodes.get_mut(&node) {
            known.node.is_mute = false;
        }
    }

    /// A node is gone, with all that it had.
    pub fn leave(&mut self, node: PeerId) {
        if self.world.nodes.remove(&node).is_none() {
            return;
        }
        let digests: Vec<Digest> = self.blobs.keys().copied().collect();
        for digest in digests {
            self.remove(node, digest);
        }
    }

    /// The client has a blob.
    pub fn hold(&mut self, name: BlobName) {
        self.know(name);
        self.set_held(name.digest, true);
        self.assign(name.digest);
    }

    /// Tasks need a blob that the client does not have: [`Spread::made`] says who has it.
    pub fn know(&mut self, name: BlobName) {
        self.blobs.entry(name.digest).or_insert_with(|| Blob::new(name)).is_named = true;
    }

    /// The client has a blob no more that tasks need.
    pub fn let_go(&mut self, digest: Digest) {
        self.set_held(digest, false);
        self.assign(digest);
    }

    fn set_held(&mut self, digest: Digest, is_held: bool) {
        if let Some(blob) = self.blobs.get_mut(&digest) {
            blob.is_held = is_held;
            blob.is_sought = false;
        }
    }

    /// The client has a blob no more, as no task needs it: who waits for it is dismissed, and what is given already goes on.
    pub fn release(&mut self, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        (blob.is_named, blob.is_held) = (false, false);
        let name = blob.name;
        for node in blob.waiting() {
            self.steps.push(Step::Dismiss { node, name });
            self.remove(node, digest);
        }
        self.forget_if_nowhere(digest);
    }

    /// A node needs a blob, of which it has `received` bytes; `shortfall` is what became of its last giver.
    pub fn need(&mut self, node: PeerId, name: BlobName, received: u64, shortfall: Shortfall) {
        if !self.world.nodes.contains_key(&node) {
            return;
        }
        let digest = name.digest;
        let Some(blob) = self.blobs.get_mut(&digest).filter(|blob| blob.is_named) else {
            self.steps.push(Step::Dismiss { node, name });
            return self.remove(node, digest);
        };
        let order = self.needs;
        self.needs += 1;
        let giver = blob.need(node, order, received, &self.world);
        match (shortfall, giver) {
            (Shortfall::Wrong, Some(Giver::Client)) if blob.is_pure(node) => {
                self.steps.push(Step::Refuse { node, name });
                return self.remove(node, digest);
            }
            (Shortfall::Wrong, giver) => {
                blob.distrust(node);
                self.blame(giver);
            }
            (Shortfall::Gone, Some(Giver::Node(giver))) => {
                blob.note_failure(node, giver);
                self.blame(Some(Giver::Node(giver)));
            }
            (Shortfall::Gone | Shortfall::None, _) => {}
        }
        self.assign(digest);
    }

    fn blame(&mut self, giver: Option<Giver>) {
        if let Some(Giver::Node(giver)) = giver
            && let Some(known) = self.world.nodes.get_mut(&giver)
        {
            known.troubles += 1;
        }
    }

    /// A node has all of a blob; gives from whom it got it.
    pub fn have(&mut self, node: PeerId, digest: Digest) -> Option<Giver> {
        let giver = self.blobs.get_mut(&digest)?.complete(node, &self.world);
        if let Some(Giver::Node(giver)) = giver
            && let Some(known) = self.world.nodes.get_mut(&giver)
        {
            known.troubles = 0;
        }
        self.assign(digest);
        giver
    }

    /// A node has all of a blob, of its own: it was made there.
    pub fn made(&mut self, node: PeerId, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        if !self.world.nodes.contains_key(&node) {
            return;
        }
        let _giver = blob.need(node, self.needs, blob.name.size, &self.world);
        let _giver = blob.complete(node, &self.world);
        self.needs += 1;
        self.assign(digest);
    }

    /// A node has a blob no more, or needs it no more.
    pub fn dropped(&mut self, node: PeerId, digest: Digest) {
        self.remove(node, digest);
    }

    /// Where a node is with a blob, as far as it said that it needs it.
    #[must_use]
    pub fn stage(&self, node: PeerId, digest: Digest) -> Option<Stage> {
        self.blobs.get(&digest)?.stage(node)
    }

    /// The nodes that have a blob or are getting it: first `near`, if it is one, then those whose numbers come next.
    pub fn holders(&self, digest: Digest, near: PeerId) -> impl Iterator<Item = PeerId> {
        self.blobs.get(&digest).into_iter().flat_map(move |blob| blob.holders(near))
    }

    /// What is to be done since this was asked last, in this order.
    pub fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// Forgets what a node has of a blob; those that got it from there are asked what they need.
    fn remove(&mut self, node: PeerId, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        let name = blob.name;
        let orphans = blob.remove(node, &self.world);
        self.steps.extend(orphans.into_iter().map(|node| Step::Ask { node, name }));
        self.assign(digest);
        self.forget_if_nowhere(digest);
    }

    fn assign(&mut self, digest: Digest) {
        let Some(blob) = self.blobs.get_mut(&digest) else { return };
        let name = blob.name;
        for (node, giver, offset) in blob.assign(&self.world) {
            self.steps.push(match giver {
                Giver::Client => Step::Give { node, digest, offset },
                Giver::Node(giver) => Step::Fetch { node, name, giver },
            });
        }
        if blob.is_stuck() {
            blob.is_sought = true;
            self.steps.push(Step::Bring { name });
        }
    }

    fn forget_if_nowhere(&mut self, digest: Digest) {
        if self.blobs.get(&digest).is_some_and(Blob::is_nowhere) {
            self.blobs.remove(&digest);
        }
    }

    /// Asserts what must hold between calls.
    ///
    /// # Panics
    /// It does not.
    pub fn audit(&self) {
        self.blobs.values().for_each(|blob| blob.audit(&self.world));
    }
}
