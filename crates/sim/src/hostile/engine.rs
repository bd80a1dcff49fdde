//! The engine that is besieged: a real graph with real links; its workers are obedient, its payloads bytes.

use gristmill_client::{
    Functions, Guests, LinkHome, LinkPort, LinkWork, Links, Parts, PayloadStore, PeerNews, Sending,
    is_guest,
};
use gristmill_core::{
    Attempt, Config, Core, Dispatch, Errand, FunctionId, KillReason, Payload, PeerId, Port,
    Progress, Sent, SlotId, Status, TakeBack, TaskId,
};
use gristmill_sync::clock::TickScale;
use gristmill_wire::peer::{Control, Part, Parted};

use super::workers::{Finals, Workers, bytes_of};

/// Payloads are their bytes.
pub(super) struct Bytes;

impl PayloadStore for Bytes {
    fn put(&self, payload: &Payload, out: &mut Vec<u8>) {
        Parted::put_plain(out, bytes_of(payload));
    }
}

/// What the graph is called with.
pub(super) struct Lanes {
    pub now: u64,
    pub links: Links,
    pub functions: Functions,
    pub workers: Workers,
    pub finals: Finals,
    /// Until when workers may begin tasks, if that was said.
    pub valid_until: Option<u64>,
    ended: Vec<(TaskId, u64)>,
    freed: Vec<FunctionId>,
}

/// An engine.
pub(super) struct Engine {
    pub core: Core,
    pub lanes: Lanes,
    pub guests: Guests,
    /// What ended links, in words.
    pub endings: Vec<String>,
}

impl Engine {
    /// A program's, without workers; or a lease's.
    pub fn new(is_lease: bool) -> Self {
        let workers = if is_lease { 2 } else { 0 };
        let config = Config {
            workers,
            spare_max: 0,
            shares_nested_only: is_lease,
            grace_ns: 1_000,
            backoff_min_ns: 1_000,
            backoff_max_ns: 10_000,
            ..Config::default()
        };
        let lanes = Lanes {
            now: 1_000,
            links: Links::new(None, is_lease),
            functions: Functions::default(),
            workers: Workers::new(workers.into()),
            finals: Finals::default(),
            valid_until: None,
            ended: Vec::new(),
            freed: Vec::new(),
        };
        let (guests, endings) = (Guests::default(), Vec::new());
        let mut engine = Self { core: Core::new(config), lanes, guests, endings };
        engine.core.start(engine.lanes.now, &mut engine.lanes);
        engine
    }

    /// What whoever completes tasks does.
    pub fn turn(&mut self) {
        self.lanes.now += 1_000;
        self.drain_links();
        let now = self.lanes.now;
        self.core.poll(now, &mut self.lanes);
        self.settle();
        self.flush_links(now);
        self.core.audit();
    }
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
    }

    fn release(&mut self, task: TaskId) {
        self.core.release(task);
    }

    fn call_waiters(&mut self, _concerns: impl Fn(&[TaskId]) -> bool) {}

    fn tell_news(&mut self, news: PeerNews) {
        if let PeerNews::Gone { text, .. } = news {
            self.endings.push(text);
        }
    }
}

impl LinkPort for Lanes {
    type Store = Bytes;

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    fn writing(&mut self) -> (&mut Links, &mut Functions, &Bytes) {
        (&mut self.links, &mut self.functions, &Bytes)
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        let is_here = |part: &Part<'_>| part.bytes().is_some();
        if parted.parts.iter().all(is_here) {
            Ok(Payload::copy_from(parted.bytes))
        } else {
            Err("it names what cannot be asked for here".to_owned())
        }
    }

    fn function_freed(&mut self, function: FunctionId) {
        self.freed.push(function);
    }

    fn extend_workers(&mut self, until_ns: u64) {
        self.valid_until = Some(until_ns);
    }

    fn read_clock(&mut self) -> u64 {
        self.now
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn now_ticks(&self) -> u64 {
        self.now
    }

    fn scale(&self) -> TickScale {
        TickScale::NANOSECONDS
    }
}

impl Port for Lanes {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        Sent::Written(self.workers.send(slot, &frame))
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBack>) {
        self.workers.take_back(slot, sequences, taken);
    }

    fn progress(&self, slot: SlotId) -> Progress {
        self.workers.progress(slot)
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        self.workers.interrupt(slot, sequence);
    }

    fn kill(&mut self, slot: SlotId, _: KillReason) {
        self.workers.kill(slot);
    }

    fn spawn(&mut self, slot: SlotId) {
        self.workers.spawn(slot);
    }

    fn retire(&mut self, slot: SlotId) {
        self.workers.kill(slot);
    }

    fn send_to_peer(&mut self, peer: PeerId, errand: Errand<'_>) -> Sent {
        self.send_away(peer, &errand)
    }

    fn stop_at_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt, grace_ns: u64) {
        self.say(peer, &Control::Stop { task, attempt, grace_ns });
    }

    fn withdraw_from_peer(&mut self, peer: PeerId, task: TaskId, attempt: Attempt) {
        self.say(peer, &Control::Withdraw { task, attempt });
    }

    fn recall_from_peer(&mut self, peer: PeerId, count: u32) {
        self.say(peer, &Control::Recall { count });
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is the function")]
    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        self.finals.note(task, status);
        let function = FunctionId(handle as u32);
        if self.functions.release(function) {
            self.freed.push(function);
        }
        if is_guest(handle) {
            self.ended.push((task, handle));
        }
    }

    fn ticks(&self) -> u64 {
        self.now
    }
}
