//! What an engine of the cluster is called with: simulated workers, real links, and what is known of both.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_client::{Contexts, Functions, LinkPort, Links, PayloadStore};
use gristmill_core::{Attempt, ContextId, FunctionId, Payload, PayloadRef, PeerId, TaskId};
use gristmill_sync::clock::TickScale;
use gristmill_wire::BlobName;
use gristmill_wire::peer::{Part, Parted};

use super::blobs::BlobPlan;
use super::network::{Air, look};
use crate::contexts::Known;
use crate::memory::Memory;
use crate::world::{Placement, World};

/// What a graph of the cluster is called with.
pub(crate) struct Lanes {
    pub world: World,
    pub links: Links,
    pub functions: Functions,
    pub contexts: Contexts,
    /// What contexts there are, by kind, and the numbers of those that are told of here.
    pub kinds: Vec<Known>,
    pub held: BTreeMap<usize, ContextId>,
    /// One that was named by its key, and is in use for the task that was submitted last.
    pub lent: Option<ContextId>,
    /// Nobody holds those any more that the program has made.
    pub has_forgotten: bool,
    /// Tasks of others that are final.
    pub ended: Vec<(TaskId, u64)>,
    /// Final tasks that nobody will ask for.
    pub unneeded: Vec<TaskId>,
    pub freed: Vec<FunctionId>,
    /// The program's functions; a lease has none of its own.
    pub program: Vec<FunctionId>,
    /// Which line each link began with, by its peer.
    lines: BTreeMap<PeerId, usize>,
    /// The lines of links that are lost since this was emptied.
    pub lost: Vec<usize>,
    /// Links that were silent for too long.
    pub silences: u64,
    pub air: Air,
    /// Tasks that the program waits for.
    pub asked: BTreeSet<TaskId>,
    /// Large parts of payloads.
    pub plan: Option<BlobPlan>,
    /// Pieces of results that came with other bytes than were named.
    pub lies: u64,
}

impl PayloadStore for Memory {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        if let Some(blobs) = &self.blobs {
            return blobs.put(payload, out);
        }
        let bytes = self.get(payload);
        match payload.get() {
            PayloadRef::Bytes(_) => Parted::put_plain(out, bytes),
            PayloadRef::Block(_) => {
                Parted::put_head(out, &[], 1);
                Parted::put_part(out, bytes.len(), |space| space.copy_from_slice(bytes));
            }
        }
    }

    fn put_result(&self, payload: &Payload, names: &[Option<BlobName>], out: &mut Vec<u8>) {
        match &self.blobs {
            Some(blobs) => blobs.put_result(payload, names, out),
            None => self.put(payload, out),
        }
    }

    fn named_size(&self, payload: &Payload) -> u64 {
        self.blobs.as_ref().map_or(0, |blobs| blobs.named_size(payload))
    }
}

impl LinkPort for Lanes {
    type Store = Memory;

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    fn writing(&mut self) -> (&mut Links, &mut Functions, &Memory) {
        (&mut self.links, &mut self.functions, &self.world.memory)
    }

    fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.contexts
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        if let Some(blobs) = &mut self.world.memory.blobs {
            return blobs.parts().take_parted(parted);
        }
        let bytes = parted.parts.first().and_then(Part::bytes).unwrap_or(parted.bytes);
        Ok(self.world.memory.store(bytes.to_vec()))
    }

    fn function_freed(&mut self, function: FunctionId) {
        self.freed.push(function);
    }

    fn read_clock(&mut self) -> u64 {
        self.world.now
    }

    fn now(&self) -> u64 {
        self.world.now
    }

    fn now_ticks(&self) -> u64 {
        self.world.now
    }

    fn scale(&self) -> TickScale {
        TickScale::NANOSECONDS
    }
}

impl Lanes {
    pub fn new(world: World, links: Links, air: &Air) -> Self {
        Self {
            world,
            links,
            functions: Functions::default(),
            contexts: Contexts::default(),
            kinds: Vec::new(),
            held: BTreeMap::new(),
            lent: None,
            has_forgotten: false,
            ended: Vec::new(),
            unneeded: Vec::new(),
            freed: Vec::new(),
            program: Vec::new(),
            lines: BTreeMap::new(),
            lost: Vec::new(),
            silences: 0,
            air: air.clone(),
            asked: BTreeSet::new(),
            plan: None,
            lies: 0,
        }
    }

    /// The line that the link of a peer began with.
    pub fn line_of(&self, peer: PeerId) -> Option<usize> {
        self.lines.get(&peer).copied()
    }

    /// A link is about to be taken in, over this line: it gets the first number that is free.
    pub fn expect_link(&mut self, line: usize) {
        let is_free = |peer: &PeerId| self.links.get(*peer).is_none();
        let count = u16::try_from(self.links.peers().count()).expect("few links");
        let peer = self.links.peers().find(is_free).unwrap_or(PeerId(count));
        self.lines.insert(peer, line);
    }

    /// Whether there is still the link that began with a line.
    fn is_linked(&self, line: usize) -> bool {
        let mut peers = self.links.peers().filter(|peer| self.line_of(*peer) == Some(line));
        peers.any(|peer| self.links.get(peer).is_some())
    }

    /// Whether a task has certainly begun where it was sent last.
    pub fn has_begun(&self, number: usize) -> bool {
        let entry = &self.world.ledger[number];
        let link = entry.placements.last().and_then(|last| last.link);
        entry.is_begun() && link.is_none_or(|line| self.is_linked(line))
    }

    /// A task is lost: if its link is, and it may have left, nobody can tell whether it began.
    pub fn note_unknown(&mut self, number: usize) {
        let own = |one: &&Placement| one.by == self.world.engine;
        let placements = &self.world.ledger[number].placements;
        let Some(placement) = placements.iter().rfind(own) else { return };
        let Some(line) = placement.link else { return };
        let side = usize::from(self.world.engine != 0);
        if !self.is_linked(line) && look(&self.air).has_sent_since(line, side, placement.given_at) {
            self.world.ledger[number].unknowns += 1;
        }
    }

    pub fn note_placement(&mut self, number: usize, attempt: Attempt, link: Option<usize>) {
        // Where messages go in pieces one may have left in part.
        let is_whole = self.links.sizes.chunk >= 1 << 20;
        let given_at = if is_whole { look(&self.air).sent() } else { 0 };
        let by = self.world.engine;
        let placement = Placement { attempt, by, link, given_at, starts: 0 };
        let placements = &mut self.world.ledger[number].placements;
        let is_new = placements.last().is_none_or(|last| last.by != by || last.attempt != attempt);
        assert!(is_new, "two placements of task {number} are both {attempt}");
        placements.push(placement);
    }
}
