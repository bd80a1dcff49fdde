//! One blob in the plan: where each node is with it, and whom the next one gets it from.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_wire::{BlobName, PeerId};

use super::{Giver, Topology, World};

/// Where a node is with a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It needs it, and has nobody to get it from.
    Waiting,
    /// It has lost its giver, and was asked what it needs.
    Asked,
    /// It gets it.
    From(Giver),
    /// It has all of it.
    Complete,
}

/// A node and a blob.
#[derive(Debug)]
struct Member {
    stage: Stage,
    /// Bytes that it had when it said last what it needs.
    received: u64,
    /// How many get it from this one.
    takers: u32,
    /// When it came to need it: the first ones are next to the root.
    order: u64,
    /// Nodes that failed to give it to this one.
    failed: BTreeSet<PeerId>,
    /// What it got from nodes was wrong: the client gives it itself.
    distrusts: bool,
    /// All bytes that it has came from the client.
    is_pure: bool,
    /// The client was the last one that it got any from.
    is_copy: bool,
}

/// A blob.
#[derive(Debug)]
pub(super) struct Blob {
    pub name: BlobName,
    /// Tasks need it.
    pub is_named: bool,
    /// The client has it.
    pub is_held: bool,
    /// The client was told to get it.
    pub is_sought: bool,
    /// How many get it from the client.
    takers: u32,
    /// How many have it, or are getting it, from the client.
    copies: u32,
    members: BTreeMap<PeerId, Member>,
    /// Those that wait, by order.
    waiting: BTreeMap<u64, PeerId>,
    /// Those that could give it to one more: first those that have all of it, then by order.
    open: BTreeSet<(bool, u64, PeerId)>,
}

impl Blob {
    pub fn new(name: BlobName) -> Self {
        Self {
            name,
            is_named: false,
            is_held: false,
            is_sought: false,
            takers: 0,
            copies: 0,
            members: BTreeMap::new(),
            waiting: BTreeMap::new(),
            open: BTreeSet::new(),
        }
    }

    /// The nodes that wait for it.
    pub fn waiting(&self) -> Vec<PeerId> {
        self.waiting.values().copied().collect()
    }

    /// Where a node is with it; none: it never needed it, or has it no more.
    pub fn stage(&self, node: PeerId) -> Option<Stage> {
        self.members.get(&node).map(|member| member.stage)
    }

    /// The nodes that have it or are getting it, from a number on and round.
    pub fn holders(&self, near: PeerId) -> impl Iterator<Item = PeerId> {
        let after = self.members.range(near..).chain(self.members.range(..near));
        after.map(|(&node, _)| node)
    }

    /// Whether nobody has it and nobody needs it.
    pub fn is_nowhere(&self) -> bool {
        !self.is_named && self.members.is_empty()
    }

    /// Whether somebody waits for it, nobody is getting it, and the client neither has it nor was told to get it.
    pub fn is_stuck(&self) -> bool {
        let is_waited_for = self.is_named && !self.waiting.is_empty();
        let can_wait = self.is_held || self.is_sought;
        is_waited_for && !can_wait && !self.members.keys().any(|&node| self.is_fed(node))
    }

    /// Whether a node is getting it from the client, or through others from a node that has all of it.
    fn is_fed(&self, node: PeerId) -> bool {
        let mut giver = node;
        while let Some(Stage::From(above)) = self.stage(giver) {
            match above {
                Giver::Client => return true,
                Giver::Node(above) => giver = above,
            }
        }
        giver != node && self.stage(giver) == Some(Stage::Complete)
    }

    /// A node needs it; gives whom it was to get it from.
    pub fn need(
        &mut self,
        node: PeerId,
        order: u64,
        received: u64,
        world: &World,
    ) -> Option<Giver> {
        let member = self.members.entry(node).or_insert_with(|| Member {
            stage: Stage::Asked,
            received,
            takers: 0,
            order,
            failed: BTreeSet::new(),
            distrusts: false,
            is_pure: false,
            is_copy: false,
        });
        member.received = received;
        self.enter(node, Stage::Waiting, world)
    }

    /// A node could not get it from this one.
    pub fn note_failure(&mut self, node: PeerId, giver: PeerId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.failed.insert(giver);
        }
    }

    /// Whether all that a node has came from the client.
    pub fn is_pure(&self, node: PeerId) -> bool {
        self.members.get(&node).is_some_and(|member| member.is_pure)
    }

    /// A node got wrong bytes.
    pub fn distrust(&mut self, node: PeerId) {
        if let Some(member) = self.members.get_mut(&node) {
            member.distrusts = true;
        }
    }

    /// A node has all of it; gives whom it got it from.
    pub fn complete(&mut self, node: PeerId, world: &World) -> Option<Giver> {
        let member = self.members.get_mut(&node)?;
        member.failed.clear();
        member.distrusts = false;
        self.enter(node, Stage::Complete, world)
    }

    /// Forgets a node; gives those that got it from there, which have to be asked.
    pub fn remove(&mut self, node: PeerId, world: &World) -> Vec<PeerId> {
        if !self.members.contains_key(&node) {
            return Vec::new();
        }
        let is_from = |member: &Member| member.stage == Stage::From(Giver::Node(node));
        let orphans = self.members.iter().filter(|(_, member)| is_from(member));
        let orphans: Vec<PeerId> = orphans.map(|(&orphan, _)| orphan).collect();
        for &orphan in &orphans {
            self.enter(orphan, Stage::Asked, world);
        }
        self.enter(node, Stage::Asked, world);
        let member = self.members.remove(&node);
        self.copies -= u32::from(member.is_some_and(|member| member.is_copy));
        orphans
    }

    /// Finds givers for those that wait; each with its giver, and the bytes that it has.
    pub fn assign(&mut self, world: &World) -> Vec<(PeerId, Giver, u64)> {
        let mut assigned = Vec::new();
        loop {
            let before = assigned.len();
            let waiting: Vec<PeerId> = self.waiting.values().copied().collect();
            for node in waiting {
                if self.open.is_empty() && !self.client_is_open(world) {
                    return assigned;
                }
                if let Some(giver) = self.choose(node, world) {
                    self.enter(node, Stage::From(giver), world);
                    assigned.push((node, giver, self.note_giver(node, giver)));
                }
            }
            // Who gets it can give it on, maybe to somebody who came before.
            if assigned.len() == before {
                return assigned;
            }
        }
    }

    /// Notes whom a node gets it from now; gives the bytes that it has.
    fn note_giver(&mut self, node: PeerId, giver: Giver) -> u64 {
        let is_copy = giver == Giver::Client;
        let member = self.members.get_mut(&node).expect("who waits is a member");
        member.is_pure = is_copy && (member.is_pure || member.received == 0);
        let was_copy = std::mem::replace(&mut member.is_copy, is_copy);
        let received = member.received;
        self.copies += u32::from(is_copy);
        self.copies -= u32::from(was_copy);
        received
    }

    fn client_is_open(&self, world: &World) -> bool {
        self.is_held && self.takers < world.options.fanout
    }

    /// Whom a node that waits is to get it from: who has all of it, else who gets it himself. The client is asked before
    /// those until it has given as many copies as it may give at a time, and else in the end only: its link is everybody's.
    fn choose(&self, node: PeerId, world: &World) -> Option<Giver> {
        let client = self.client_is_open(world).then_some(Giver::Client);
        if world.options.topology == Topology::Client || self.members[&node].distrusts {
            return client;
        }
        let group = world.group(node).filter(|_| world.options.topology == Topology::Groups);
        let is_inside = |other: PeerId| group.is_some() && world.group(other) == group;
        let mut open = self.open.iter().filter(|(.., other)| self.may_take(node, *other, world));
        if group.is_some() {
            let mut givers = self.members.keys().filter(|&&other| is_inside(other));
            if givers.any(|&other| self.may_take(node, other, world))
                || self.inbound(node, world) > 0
            {
                return open.find(|(.., other)| is_inside(*other)).map(|open| Giver::Node(open.2));
            }
        }
        match open.next() {
            Some(&(true, _, giver)) => {
                client.filter(|_| self.copies < world.options.fanout).or(Some(Giver::Node(giver)))
            }
            Some(&(false, _, giver)) => Some(Giver::Node(giver)),
            None => client,
        }
    }

    /// How many of a node's group get it from outside; not counted is who gets it, on whatever way, from this one.
    fn inbound(&self, node: PeerId, world: &World) -> usize {
        let group = world.group(node);
        let is_inbound = |&(&other, member): &(&PeerId, &Member)| {
            world.group(other) == group
                && match member.stage {
                    Stage::From(Giver::Client) => true,
                    Stage::From(Giver::Node(giver)) => world.group(giver) != group,
                    _ => false,
                }
        };
        let inbound = self.members.iter().filter(is_inbound);
        inbound.filter(|&(&other, _)| other == node || !self.descends(other, node)).count()
    }

    /// Whether one node may get it from another, room aside.
    fn may_take(&self, node: PeerId, giver: PeerId, world: &World) -> bool {
        let gives = self.members.get(&giver).is_some_and(Member::can_give);
        gives
            && !self.members[&node].failed.contains(&giver)
            && world.reaches(node, giver)
            && !self.descends(giver, node)
    }

    /// Whether what one node gets comes from another one, or it is that one.
    fn descends(&self, node: PeerId, ancestor: PeerId) -> bool {
        let above = |node: &PeerId| match self.members.get(node)?.stage {
            Stage::From(Giver::Node(giver)) => Some(giver),
            _ => None,
        };
        std::iter::successors(Some(node), above).any(|node| node == ancestor)
    }

    /// Changes where a node is; gives whom it got it from before.
    fn enter(&mut self, node: PeerId, stage: Stage, world: &World) -> Option<Giver> {
        let member = self.members.get_mut(&node).expect("who changes is a member");
        let before = std::mem::replace(&mut member.stage, stage);
        if stage == Stage::Waiting {
            self.waiting.insert(member.order, node);
        } else {
            self.waiting.remove(&member.order);
        }
        self.refresh(node, world);
        if let Stage::From(giver) = stage {
            *self.takers_of(giver) += 1;
            self.refresh_giver(giver, world);
        }
        let Stage::From(giver) = before else { return None };
        *self.takers_of(giver) -= 1;
        self.refresh_giver(giver, world);
        Some(giver)
    }

    fn takers_of(&mut self, giver: Giver) -> &mut u32 {
        match giver {
            Giver::Client => &mut self.takers,
            Giver::Node(node) => {
                &mut self.members.get_mut(&node).expect("a giver is a member").takers
            }
        }
    }

    fn refresh_giver(&mut self, giver: Giver, world: &World) {
        if let Giver::Node(node) = giver {
            self.refresh(node, world);
        }
    }

    /// Notes whether a node can give it to one more.
    fn refresh(&mut self, node: PeerId, world: &World) {
        let member = &self.members[&node];
        for is_partial in [false, true] {
            let entry = (is_partial, member.order, node);
            let stands = member.can_give() && is_partial == (member.stage != Stage::Complete);
            if stands && member.takers < world.options.fanout {
                self.open.insert(entry);
            } else {
                self.open.remove(&entry);
            }
        }
    }

    /// Asserts what must hold between calls.
    pub fn audit(&self, world: &World) {
        let fanout = world.options.fanout;
        let takers = |giver| {
            let is_from = |member: &&Member| member.stage == Stage::From(giver);
            u32::try_from(self.members.values().filter(is_from).count()).expect("few nodes")
        };
        assert_eq!(self.takers, takers(Giver::Client), "the client's takers are counted");
        let copies = self.members.values().filter(|member| member.is_copy).count();
        assert_eq!(self.copies as usize, copies, "the client's copies are counted");
        assert!(self.takers <= fanout, "the client gives to as many as it may");
        for (&node, member) in &self.members {
            assert!(world.nodes.contains_key(&node), "a member is there");
            assert_eq!(member.takers, takers(Giver::Node(node)), "its takers are counted");
            assert!(!matches!(member.stage, Stage::From(Giver::Client)) || member.is_copy);
            assert!(member.takers <= fanout, "it gives to as many as it may");
            let is_waiting = self.waiting.get(&member.order) == Some(&node);
            assert_eq!(is_waiting, member.stage == Stage::Waiting, "who waits is in line");
            let chain = std::iter::successors(Some(node), |node| match self.members[node].stage {
                Stage::From(Giver::Node(giver)) => Some(giver),
                _ => None,
            });
            assert!(chain.take(self.members.len() + 1).count() <= self.members.len(), "a tree");
            let gets_from_client = matches!(member.stage, Stage::From(Giver::Client));
            let is_alone = matches!(world.options.topology, Topology::Client);
            let gets = matches!(member.stage, Stage::From(_));
            assert!(!is_alone || !gets || gets_from_client, "only the client gives");
        }
    }
}

impl Member {
    const fn can_give(&self) -> bool {
        matches!(self.stage, Stage::From(_) | Stage::Complete)
    }
}
