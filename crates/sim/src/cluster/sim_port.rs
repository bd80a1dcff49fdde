//! Port of an engine in the cluster: simulated workers, real links, and the state of both.

use std::collections::{BTreeMap, BTreeSet};

use gristmill_client::{ContextRegistry, Functions, LinkPort, Links, PayloadStore};
use gristmill_core::{Attempt, ContextId, FunctionId, Payload, PayloadRef, PeerId, TaskId};
use gristmill_sync::clock::TickScale;
use gristmill_wire::BlobName;
use gristmill_wire::peer::{Part, Parted};

use super::blob_plan::BlobPlan;
use super::network::{Air, look};
use crate::contexts::SimContext;
use crate::memory::SimMemory;
use crate::world::{ProgramTask, SimPlacement, SimWorld};

/// The port that a graph of the cluster calls.
pub(crate) struct SimPort {
    pub world: SimWorld,
    pub links: Links,
    pub functions: Functions,
    pub contexts: ContextRegistry,
    /// Properties of all contexts, by kind (`kinds`), and the ids of those that this engine holds, by kind (`held`).
    pub kinds: Vec<SimContext>,
    pub held: BTreeMap<usize, ContextId>,
    /// Context that a task named by its key, held for the task that was submitted last.
    pub lent: Option<ContextId>,
    /// True once the contexts that the program has defined are released for good.
    pub has_forgotten: bool,
    /// Inbound tasks that are final, with their handles.
    pub ended: Vec<(TaskId, u64)>,
    /// Final tasks whose results no caller will ask for.
    pub unneeded: Vec<TaskId>,
    pub freed: Vec<FunctionId>,
    /// The program's functions; a lease has none of its own.
    pub program: Vec<FunctionId>,
    /// Line that the link of each peer began with.
    lines: BTreeMap<PeerId, usize>,
    /// Lines of the links that were lost since this vector was emptied.
    pub lost: Vec<usize>,
    /// Number of links that were silent for too long.
    pub silences: u64,
    pub air: Air,
    /// Tasks that the program waits for.
    pub asked: BTreeSet<TaskId>,
    /// Plan of the large parts of payloads.
    pub plan: Option<BlobPlan>,
    /// Number of result pieces that came with bytes that differ from those named.
    pub lies: u64,
}

impl PayloadStore for SimMemory {
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

    fn put_size(&self, payload: &Payload) -> usize {
        match &self.blobs {
            Some(blobs) => blobs.put_size(payload),
            None => Parted::written_size(0, std::iter::once(Some(self.get(payload).len()))),
        }
    }

    fn result_size(&self, payload: &Payload, names: &[Option<BlobName>]) -> usize {
        match &self.blobs {
            Some(blobs) => blobs.result_size(payload, names),
            None => self.put_size(payload),
        }
    }

    fn named_size(&self, payload: &Payload) -> u64 {
        self.blobs.as_ref().map_or(0, |blobs| blobs.named_size(payload))
    }
}

impl LinkPort for SimPort {
    type Store = SimMemory;

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    fn writing(&mut self) -> (&mut Links, &mut Functions, &SimMemory) {
        (&mut self.links, &mut self.functions, &self.world.memory)
    }

    fn contexts(&self) -> &ContextRegistry {
        &self.contexts
    }

    fn contexts_mut(&mut self) -> &mut ContextRegistry {
        &mut self.contexts
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        if let Some(blobs) = &mut self.world.memory.blobs {
            return blobs.parts().take_parted(parted);
        }
        let bytes = parted.parts.first().and_then(Part::bytes).unwrap_or(parted.bytes);
        Ok(self.world.memory.store(bytes.to_vec()))
    }

    fn receive_result(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        match &mut self.world.memory.blobs {
            Some(blobs) => blobs.parts().take_result(parted),
            None => self.receive_parted(parted),
        }
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

impl SimPort {
    pub fn new(world: SimWorld, links: Links, air: &Air) -> Self {
        Self {
            world,
            links,
            functions: Functions::default(),
            contexts: ContextRegistry::default(),
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

    /// Returns the line that the link of a peer began with.
    pub fn line_of(&self, peer: PeerId) -> Option<usize> {
        self.lines.get(&peer).copied()
    }

    /// Notes the line of a link that is about to be attached: the link gets the first free peer number.
    pub fn expect_link(&mut self, line: usize) {
        let is_free = |peer: &PeerId| self.links.get(*peer).is_none();
        let count = u16::try_from(self.links.peers().count()).expect("few links");
        let peer = self.links.peers().find(is_free).unwrap_or(PeerId(count));
        self.lines.insert(peer, line);
    }

    /// Returns whether the link that began with `line` still exists.
    fn is_linked(&self, line: usize) -> bool {
        let mut peers = self.links.peers().filter(|peer| self.line_of(*peer) == Some(line));
        peers.any(|peer| self.links.get(peer).is_some())
    }

    /// Returns whether a task has certainly begun where it was sent last.
    pub fn has_begun(&self, number: usize) -> bool {
        let entry = &self.world.ledger[number];
        let link = entry.placements.last().and_then(|last| last.link);
        entry.is_begun() && link.is_none_or(|line| self.is_linked(line))
    }

    /// Notes the loss of a task. If its link is lost and the task may have left over it, no engine can tell whether the task
    /// began.
    pub fn note_unknown(&mut self, number: usize) {
        let own = |one: &&SimPlacement| one.by == self.world.engine;
        let placements = &self.world.ledger[number].placements;
        let Some(placement) = placements.iter().rfind(own) else { return };
        let Some(line) = placement.link else { return };
        let side = usize::from(self.world.engine != 0);
        if !self.is_linked(line) && look(&self.air).has_sent_since(line, side, placement.given_at) {
            self.world.ledger[number].unknowns += 1;
        }
    }

    pub fn note_placement(&mut self, number: usize, attempt: Attempt, link: Option<usize>) {
        // With small chunks a message may have left in part.
        let is_whole = self.links.sizes.chunk >= 1 << 20;
        let given_at = if is_whole { look(&self.air).sent() } else { 0 };
        let by = self.world.engine;
        let beside = 1 + runnable_beside(&self.world.ledger, number, (by, link));
        let (starts, is_result_lost) = (0, false);
        let placement =
            SimPlacement { attempt, by, link, given_at, beside, starts, is_result_lost };
        let placements = &mut self.world.ledger[number].placements;
        let is_new = placements.last().is_none_or(|last| last.by != by || last.attempt != attempt);
        assert!(is_new, "two placements of task {number} are both {attempt}");
        placements.push(placement);
    }
}

/// Returns the number of other tasks that an engine has sent over a link, that are not final, and that wait for no parents.
/// Tasks that share a parent with `number` do not count: they may have begun to wait behind it.
pub(super) fn runnable_beside(
    ledger: &[ProgramTask],
    number: usize,
    (by, link): (usize, Option<usize>),
) -> usize {
    let could_run = |(_, entry): &(usize, &ProgramTask)| {
        let last = entry.placements.last();
        let is_there = last.is_some_and(|last| last.by == by && last.link == link);
        let is_over = |&parent: &usize| ledger[parent].status.is_some();
        let is_sibling = entry.parents.iter().any(|one| ledger[number].parents.contains(one));
        is_there && !is_sibling && entry.status.is_none() && entry.parents.iter().all(is_over)
    };
    ledger.iter().enumerate().filter(|&(one, _)| one != number).filter(could_run).count()
}
