//! One blob in the plan: the stage of each node and the choice of the next source.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_wire::{BlobName, PeerId};

use super::{BroadcastSource, BroadcastTopology, Membership};

/// The state of one blob on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The node needs the blob and has no source.
    Waiting,
    /// The node has lost its source; the plan asked it what it still needs.
    Asked,
    /// The node receives the blob from this source.
    From(BroadcastSource),
    /// The node has all of the blob.
    Complete,
}

/// One node's part in the broadcast of a blob.
#[derive(Debug)]
struct Member {
    stage: Stage,
    /// Bytes that the node had at its last request.
    received: u64,
    /// Number of nodes that receive the blob from this one.
    sinks: u32,
    /// Position in the order of the nodes' first requests. Earlier nodes are preferred as sources, so they tend to be closer
    /// to the root of the tree.
    order: u64,
    /// Nodes that failed to send the blob to this one.
    failed: BTreeSet<PeerId>,
    /// True if the node got wrong bytes from another node: only the client may send it the blob.
    distrusts: bool,
    /// True if all bytes that the node has came from the client.
    is_pure: bool,
    /// True if the client is the latest source of the node. The client's `copies` counts such nodes.
    is_copy: bool,
}

/// A blob.
#[derive(Debug)]
pub(super) struct Blob {
    pub name: BlobName,
    /// True if tasks need the blob.
    pub is_named: bool,
    /// True if the client has the blob.
    pub is_held: bool,
    /// True if the client was asked to fetch the blob.
    pub is_requested: bool,
    /// Number of nodes that receive the blob from the client.
    sinks: u32,
    /// Number of nodes whose latest source is the client.
    copies: u32,
    members: BTreeMap<PeerId, Member>,
    /// Nodes that wait for a source, by order.
    waiting: BTreeMap<u64, PeerId>,
    /// Nodes with a free fanout slot, as `(is_partial, order, node)`: complete ones first, then by order.
    open: BTreeSet<(bool, u64, PeerId)>,
}

impl Blob {
    pub fn new(name: BlobName) -> Self {
        Self {
            name,
            is_named: false,
            is_held: false,
            is_requested: false,
            sinks: 0,
            copies: 0,
            members: BTreeMap::new(),
            waiting: BTreeMap::new(),
            open: BTreeSet::new(),
        }
    }

    /// Returns the nodes that wait for a source, in order.
    pub fn waiting(&self) -> Vec<PeerId> {
        self.waiting.values().copied().collect()
    }

    /// Returns the stage of a node; `None` if the node never requested the blob or no longer has it.
    pub fn stage(&self, node: PeerId) -> Option<Stage> {
        self.members.get(&node).map(|member| member.stage)
    }

    /// Returns the nodes that have, receive or need the blob, by number: first from `near` on, then those below it.
    pub fn holders(&self, near: PeerId) -> impl Iterator<Item = PeerId> {
        let after = self.members.range(near..).chain(self.members.range(..near));
        after.map(|(&node, _)| node)
    }

    /// Returns true if no task needs the blob and no node has or requests it.
    pub fn is_nowhere(&self) -> bool {
        !self.is_named && self.members.is_empty()
    }

    /// Returns true if tasks need the blob, a node waits for it, no node is fed (see `is_fed`), and the client neither has it
    /// nor was asked to fetch it.
    pub fn is_stuck(&self) -> bool {
        let is_waited_for = self.is_named && !self.waiting.is_empty();
        // The client can serve the blob, or will.
        let can_wait = self.is_held || self.is_requested;
        is_waited_for && !can_wait && !self.members.keys().any(|&node| self.is_fed(node))
    }

    /// Returns true if the node receives the blob and the chain of sources above it ends at the client or at a node that has
    /// all of the blob.
    fn is_fed(&self, node: PeerId) -> bool {
        let mut source = node;
        while let Some(Stage::From(above)) = self.stage(source) {
            match above {
                BroadcastSource::Client => return true,
                BroadcastSource::Node(above) => source = above,
            }
        }
        source != node && self.stage(source) == Some(Stage::Complete)
    }

    /// Records that a node needs the blob. Returns the node's previous source.
    pub fn need(
        &mut self,
        node: PeerId,
        order: u64,
        received: u64,
        membership: &Membership,
    ) -> Option<BroadcastSource> {
        let member = self.members.entry(node).or_insert_with(|| Member {
            stage: Stage::Asked,
            received,
            sinks: 0,
            order,
            failed: BTreeSet::new(),
            distrusts: false,
            is_pure: false,
            is_copy: false,
        });
        member.received = received;
        self.enter(node, Stage::Waiting, membership)
    }

    /// Records that `source` failed to send the blob to a node.
    pub fn note_failure(&mut self, node: PeerId, source: PeerId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.failed.insert(source);
        }
    }

    /// Returns true if all bytes that a node has came from the client.
    pub fn is_pure(&self, node: PeerId) -> bool {
        self.members.get(&node).is_some_and(|member| member.is_pure)
    }

    /// Records that a node got wrong bytes from another node.
    pub fn distrust(&mut self, node: PeerId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.distrusts = true;
        }
    }

    /// Records that a node has all of the blob. Returns the node's previous source.
    pub fn complete(&mut self, node: PeerId, membership: &Membership) -> Option<BroadcastSource> {
        let member = self.members.get_mut(&node)?;
        member.failed.clear();
        member.distrusts = false;
        self.enter(node, Stage::Complete, membership)
    }

    /// Removes a node. Returns the nodes that received the blob from it; the caller must ask them what they still need.
    pub fn remove(&mut self, node: PeerId, membership: &Membership) -> Vec<PeerId> {
        if !self.members.contains_key(&node) {
            return Vec::new();
        }
        let is_from = |member: &Member| member.stage == Stage::From(BroadcastSource::Node(node));
        let orphans = self.members.iter().filter(|(_, member)| is_from(member));
        let orphans: Vec<PeerId> = orphans.map(|(&orphan, _)| orphan).collect();
        for &orphan in &orphans {
            self.enter(orphan, Stage::Asked, membership);
        }
        self.enter(node, Stage::Asked, membership);
        let member = self.members.remove(&node);
        self.copies -= u32::from(member.is_some_and(|member| member.is_copy));
        orphans
    }

    /// Assigns sources to waiting nodes. Returns each such node with its source and the bytes that it already has.
    pub fn assign(&mut self, membership: &Membership) -> Vec<(PeerId, BroadcastSource, u64)> {
        let mut assigned = Vec::new();
        loop {
            let before = assigned.len();
            let waiting: Vec<PeerId> = self.waiting.values().copied().collect();
            for node in waiting {
                if self.open.is_empty() && !self.client_is_open(membership) {
                    return assigned;
                }
                if let Some(source) = self.choose(node, membership) {
                    self.enter(node, Stage::From(source), membership);
                    assigned.push((node, source, self.record_source(node, source)));
                }
            }
            // A node that has just got a source can itself be one, also for a node that comes earlier in the order.
            if assigned.len() == before {
                return assigned;
            }
        }
    }

    /// Records the new source of a node. Returns the bytes that the node already has.
    fn record_source(&mut self, node: PeerId, source: BroadcastSource) -> u64 {
        let is_copy = source == BroadcastSource::Client;
        let member = self.members.get_mut(&node).expect("a waiting node is a member");
        member.is_pure = is_copy && (member.is_pure || member.received == 0);
        let was_copy = std::mem::replace(&mut member.is_copy, is_copy);
        let received = member.received;
        self.copies += u32::from(is_copy);
        self.copies -= u32::from(was_copy);
        received
    }

    fn client_is_open(&self, membership: &Membership) -> bool {
        self.is_held && self.sinks < membership.options.fanout
    }

    /// Returns the source for a waiting node: a node that has all of the blob, else one that still receives it. The client
    /// precedes the nodes that still receive it until `fanout` nodes have the client as their latest source. After that, the
    /// client is the last choice, because all of its transfers share its link. A node whose group can serve it, or already
    /// receives the blob from outside, gets a source of its group only.
    fn choose(&self, node: PeerId, membership: &Membership) -> Option<BroadcastSource> {
        let client = self.client_is_open(membership).then_some(BroadcastSource::Client);
        if membership.options.topology == BroadcastTopology::Client || self.members[&node].distrusts
        {
            return client;
        }
        let group = membership
            .group(node)
            .filter(|_| membership.options.topology == BroadcastTopology::Groups);
        let is_inside = |other: PeerId| group.is_some() && membership.group(other) == group;
        let mut open =
            self.open.iter().filter(|(.., other)| self.may_take(node, *other, membership));
        if group.is_some() {
            let mut sources = self.members.keys().filter(|&&other| is_inside(other));
            if sources.any(|&other| self.may_take(node, other, membership))
                || self.inbound(node, membership) > 0
            {
                return open
                    .find(|(.., other)| is_inside(*other))
                    .map(|open| BroadcastSource::Node(open.2));
            }
        }
        match open.next() {
            Some(&(true, _, source)) => client
                .filter(|_| self.copies < membership.options.fanout)
                .or(Some(BroadcastSource::Node(source))),
            Some(&(false, _, source)) => Some(BroadcastSource::Node(source)),
            None => client,
        }
    }

    /// Returns the number of nodes in the node's group that receive the blob from outside the group. Nodes that receive it
    /// from this node, directly or through others, do not count.
    fn inbound(&self, node: PeerId, membership: &Membership) -> usize {
        let group = membership.group(node);
        let is_inbound = |&(&other, member): &(&PeerId, &Member)| {
            membership.group(other) == group
                && match member.stage {
                    Stage::From(BroadcastSource::Client) => true,
                    Stage::From(BroadcastSource::Node(source)) => membership.group(source) != group,
                    _ => false,
                }
        };
        let inbound = self.members.iter().filter(is_inbound);
        inbound.filter(|&(&other, _)| other == node || !self.descends(other, node)).count()
    }

    /// Returns true if `node` may get the blob from `source`. Does not check for a free fanout slot.
    fn may_take(&self, node: PeerId, source: PeerId, membership: &Membership) -> bool {
        let gives = self.members.get(&source).is_some_and(Member::can_give);
        gives
            && !self.members[&node].failed.contains(&source)
            && membership.reaches(node, source)
            && !self.descends(source, node)
    }

    /// Returns true if `node` is `ancestor`, or receives the blob from it directly or through other nodes.
    fn descends(&self, node: PeerId, ancestor: PeerId) -> bool {
        let above = |node: &PeerId| match self.members.get(node)?.stage {
            Stage::From(BroadcastSource::Node(source)) => Some(source),
            _ => None,
        };
        std::iter::successors(Some(node), above).any(|node| node == ancestor)
    }

    /// Changes the stage of a node. Returns the node's previous source.
    fn enter(
        &mut self,
        node: PeerId,
        stage: Stage,
        membership: &Membership,
    ) -> Option<BroadcastSource> {
        let member = self.members.get_mut(&node).expect("a changing node is a member");
        let before = std::mem::replace(&mut member.stage, stage);
        if stage == Stage::Waiting {
            self.waiting.insert(member.order, node);
        } else {
            self.waiting.remove(&member.order);
        }
        self.refresh(node, membership);
        if let Stage::From(source) = stage {
            *self.sinks_of(source) += 1;
            self.refresh_source(source, membership);
        }
        let Stage::From(source) = before else { return None };
        *self.sinks_of(source) -= 1;
        self.refresh_source(source, membership);
        Some(source)
    }

    /// Returns the count of nodes that receive the blob from a source (`sinks`).
    fn sinks_of(&mut self, source: BroadcastSource) -> &mut u32 {
        match source {
            BroadcastSource::Client => &mut self.sinks,
            BroadcastSource::Node(node) => {
                &mut self.members.get_mut(&node).expect("a source is a member").sinks
            }
        }
    }

    fn refresh_source(&mut self, source: BroadcastSource, membership: &Membership) {
        if let BroadcastSource::Node(node) = source {
            self.refresh(node, membership);
        }
    }

    /// Updates the entry of a node in `open`.
    fn refresh(&mut self, node: PeerId, membership: &Membership) {
        let member = &self.members[&node];
        for is_partial in [false, true] {
            let entry = (is_partial, member.order, node);
            let stands = member.can_give() && is_partial == (member.stage != Stage::Complete);
            if stands && member.sinks < membership.options.fanout {
                self.open.insert(entry);
            } else {
                self.open.remove(&entry);
            }
        }
    }

    /// Asserts the invariants that hold between calls.
    pub fn audit(&self, membership: &Membership) {
        let fanout = membership.options.fanout;
        let sinks = |source| {
            let is_from = |member: &&Member| member.stage == Stage::From(source);
            u32::try_from(self.members.values().filter(is_from).count()).expect("few nodes")
        };
        assert_eq!(self.sinks, sinks(BroadcastSource::Client), "the client's sinks are counted");
        let copies = self.members.values().filter(|member| member.is_copy).count();
        assert_eq!(self.copies as usize, copies, "the client's copies are counted");
        assert!(self.sinks <= fanout, "the client sends to at most its limit");
        for (&node, member) in &self.members {
            assert!(membership.nodes.contains_key(&node), "a member is there");
            assert_eq!(member.sinks, sinks(BroadcastSource::Node(node)), "its sinks are counted");
            assert!(
                !matches!(member.stage, Stage::From(BroadcastSource::Client)) || member.is_copy
            );
            assert!(member.sinks <= fanout, "it sends to at most its limit");
            let is_waiting = self.waiting.get(&member.order) == Some(&node);
            assert_eq!(is_waiting, member.stage == Stage::Waiting, "a waiting node is queued");
            let chain = std::iter::successors(Some(node), |node| match self.members[node].stage {
                Stage::From(BroadcastSource::Node(source)) => Some(source),
                _ => None,
            });
            assert!(chain.take(self.members.len() + 1).count() <= self.members.len(), "a tree");
            let gets_from_client = matches!(member.stage, Stage::From(BroadcastSource::Client));
            let is_alone = matches!(membership.options.topology, BroadcastTopology::Client);
            let gets = matches!(member.stage, Stage::From(_));
            assert!(!is_alone || !gets || gets_from_client, "only the client sends");
        }
    }
}

impl Member {
    const fn can_give(&self) -> bool {
        matches!(self.stage, Stage::From(_) | Stage::Complete)
    }
}
