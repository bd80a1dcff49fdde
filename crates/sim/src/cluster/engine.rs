//! An engine of the cluster, the program's or a lease's: a real graph with real links, around simulated workers.

use std::collections::{BTreeMap, VecDeque};

use gristmill_client::{
    Functions, Guests, LinkHome, LinkPort, LinkWork, Links, Parts, PayloadStore, PeerNews, Sending,
    is_guest,
};
use gristmill_core::{
    Attempt, Core, Dispatch, Errand, FunctionId, KillReason, Payload, PayloadRef, PeerId, Port,
    Progress, Sent, SlotId, Status, TakeBack, TaskId,
};
use gristmill_sync::clock::TickScale;
use gristmill_wire::peer::{Control, Parted};

use super::network::{Air, look};
use crate::drive::Around;
use crate::memory::{Memory, number_of};
use crate::random::Random;
use crate::world::{Placement, World};

/// What a graph of the cluster is called with.
pub(crate) struct Lanes {
    pub world: World,
    pub links: Links,
    pub functions: Functions,
    /// Tasks of others that are final.
    ended: Vec<(TaskId, u64)>,
    /// Final tasks that nobody will ask for.
    unneeded: Vec<TaskId>,
    freed: Vec<FunctionId>,
    /// The program's functions; a lease has none of its own.
    pub program: Vec<FunctionId>,
    /// Which line each link began with, by its peer.
    lines: BTreeMap<PeerId, usize>,
    /// The lines of links that are lost since this was emptied.
    pub lost: Vec<usize>,
    pub air: Air,
}

impl PayloadStore for Memory {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        let bytes = self.get(payload);
        match payload.get() {
            PayloadRef::Bytes(_) => Parted::put_plain(out, bytes),
            PayloadRef::Block(_) => {
                Parted::put_head(out, &[], 1);
                Parted::put_part(out, bytes.len(), |space| space.copy_from_slice(bytes));
            }
        }
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

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        let bytes = parted.parts.first().copied().unwrap_or(parted.bytes);
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
            ended: Vec::new(),
            unneeded: Vec::new(),
            freed: Vec::new(),
            program: Vec::new(),
            lines: BTreeMap::new(),
            lost: Vec::new(),
            air: air.clone(),
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
    fn has_begun(&self, number: usize) -> bool {
        let entry = &self.world.ledger[number];
        let link = entry.placements.last().and_then(|last| last.link);
        entry.is_begun() && link.is_none_or(|line| self.is_linked(line))
    }

    /// A task is lost: if its link is, and it may have left, nobody can tell whether it began.
    fn note_unknown(&mut self, number: usize) {
        let Some(placement) = self.world.ledger[number].placements.last() else { return };
        let Some(line) = placement.link else { return };
        let side = usize::from(self.world.engine != 0);
        if !self.is_linked(line) && look(&self.air).has_sent_since(line, side, placement.given_at) {
            self.world.ledger[number].unknowns += 1;
        }
    }

    fn note_placement(&mut self, number: usize, attempt: Attempt, link: Option<usize>) {
        // Where messages go in pieces one may have left in part.
        let is_whole = self.links.sizes.chunk >= 1 << 20;
        let given_at = if is_whole { look(&self.air).sent() } else { 0 };
        let placement = Placement { attempt, link, given_at, starts: 0 };
        self.world.ledger[number].placements.push(placement);
    }
}

/// What a function of the program is defined by: its number.
fn definition(number: u64) -> Vec<u8> {
    format!("function {number}").into_bytes()
}

impl Around for Lanes {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// A program now and then gives a function up for a new one, whose id may be the same.
    fn register(&mut self, number: usize, random: &mut Random) -> (FunctionId, u64) {
        if self.program.is_empty() {
            let function = self.functions.define(b"nested", "nested");
            return (function, handle(function, number));
        }
        let place = random.index(self.program.len());
        if random.chance(5) {
            let fresh = self.functions.define(&definition(random.next()), "f");
            let old = std::mem::replace(&mut self.program[place], fresh);
            if self.functions.release(old) {
                self.freed.push(old);
            }
        }
        let function = self.program[place];
        self.functions.use_again(function);
        (function, handle(function, number))
    }

    fn forget(&mut self, function: FunctionId) {
        if self.functions.release(function) {
            self.freed.push(function);
        }
    }
}

/// A function in the low half, a number in the high one.
const fn handle(function: FunctionId, number: usize) -> u64 {
    function.0 as u64 | (number as u64 + 1) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
const fn split(handle: u64) -> (FunctionId, usize) {
    (FunctionId(handle as u32), (handle >> 32) as usize - 1)
}

impl Port for Lanes {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let number = number_of(self.world.memory.get(frame.payload));
        let (attempt, is_own) = (frame.attempt, !self.program.is_empty());
        let sent = self.world.send(slot, frame);
        if is_own && matches!(sent, Sent::Written(_)) {
            self.note_placement(number, attempt, None);
        }
        sent
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>) {
        self.world.take_back(slot, sequences, taken);
    }

    fn progress(&self, slot: SlotId) -> Progress {
        self.world.progress(slot)
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        self.world.interrupt(slot, sequence);
    }

    fn kill(&mut self, slot: SlotId, why: KillReason) {
        self.world.kill(slot, why);
    }

    fn spawn(&mut self, slot: SlotId) {
        self.world.spawn(slot);
    }

    fn retire(&mut self, slot: SlotId) {
        self.world.retire(slot);
    }

    fn send_to_peer(&mut self, peer: PeerId, errand: Errand<'_>) -> Sent {
        let number = number_of(self.world.memory.get(errand.task.payload));
        let entry = &self.world.ledger[number];
        let is_own = entry.owner == self.world.engine;
        assert!(!is_own || entry.status.is_none(), "a final task was sent to a peer");
        assert_eq!(errand.parents.clone().count(), entry.parents.len(), "one result a parent");
        let attempt = errand.task.attempt;
        let sent = self.send_away(peer, &errand);
        if matches!(sent, Sent::Written(_)) {
            let line = self.line_of(peer);
            self.world.log(|| format!("send {number} attempt {} over line {line:?}", attempt.0));
            self.note_placement(number, attempt, line);
        }
        sent
    }

    fn stop_at_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, grace_ns: u64) {
        self.say(peer, &Control::Stop { task, attempt, grace_ns });
    }

    fn withdraw_from_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        self.say(peer, &Control::Withdraw { task, attempt });
    }

    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        self.world.log(|| format!("recall {count} from {peer}"));
        self.say(peer, &Control::Recall { count });
    }

    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        if self.functions.release(split(handle).0) {
            self.freed.push(split(handle).0);
        }
        if is_guest(handle) {
            self.ended.push((task, handle));
            return;
        }
        let number = split(handle).1;
        if self.world.ledger[number].depth > 0 {
            self.unneeded.push(task);
        }
        if status == Status::Lost {
            self.note_unknown(number);
        }
        let entry = &self.world.ledger[number];
        let is_exact = status != Status::Cancelled || entry.may_stop || !self.has_begun(number);
        assert!(is_exact || entry.depth > 0, "task {number} is cancelled, and has begun");
        self.world.end_task(task, number, status);
    }

    fn is_asleep(&self, slot: SlotId) -> bool {
        self.world.is_asleep(slot)
    }

    fn ticks(&self) -> u64 {
        self.world.now
    }
}

/// An engine.
pub(crate) struct Engine {
    pub core: Core,
    pub lanes: Lanes,
    pub guests: Guests,
    pub news: VecDeque<PeerNews>,
}

impl LinkHome for Engine {
    type Port = Lanes;

    fn parts(&mut self) -> Parts<'_, Lanes> {
        Parts { core: &mut self.core, port: &mut self.lanes, guests: &mut self.guests }
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn port(&self) -> &Lanes {
        &self.lanes
    }

    fn guests(&self) -> &Guests {
        &self.guests
    }

    fn settle(&mut self) {
        for function in std::mem::take(&mut self.lanes.freed) {
            self.core.forget_function(function);
        }
        for (task, handle) in std::mem::take(&mut self.lanes.ended) {
            self.answer_guest(task, handle);
        }
        for task in std::mem::take(&mut self.lanes.unneeded) {
            self.core.release(task);
        }
        self.lanes.world.memory.free(self.core.freed_blocks());
    }

    fn release(&mut self, task: TaskId) {
        self.core.release(task);
    }

    fn call_waiters(&mut self, _concerns: impl Fn(&[TaskId]) -> bool) {}

    fn tell_news(&mut self, news: PeerNews) {
        self.lanes.world.log(|| format!("{news:?}"));
        if let PeerNews::Gone { peer, .. } = &news {
            self.lanes.lost.extend(self.lanes.line_of(*peer));
        }
        self.news.push_back(news);
    }
}
