//! The engine that is besieged: a real graph with real links, and with blobs where that is wanted; its workers are obedient.

use gristmill_client::{
    BlobHome, BlobLook, BlobParts, BlobPort, BlobTables, BlobWork, ContextTelling, Contexts,
    Departure, Functions, Guests, LinkHome, LinkPort, LinkWork, Links, NewLink, Parts, PeerNews,
    Sending, is_guest,
};
use gristmill_core::{
    Attempt, Config, ContextId, Core, Dispatch, Errand, FunctionId, KillReason, Outfit, Payload,
    PeerId, Port, Progress, Sent, SlotId, Status, TakeBack, TaskId,
};
use gristmill_sync::clock::TickScale;
use gristmill_wire::FrameError;
use gristmill_wire::peer::{Control, MessageKind, Parted};

use super::payloads::{Contents, Payloads};
use super::workers::{Finals, Workers};

/// What the graph is called with.
pub(super) struct Lanes {
    pub now: u64,
    pub links: Links,
    pub functions: Functions,
    contexts: Contexts,
    pub payloads: Payloads,
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
            contexts: Contexts::default(),
            payloads: Payloads::default(),
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

    /// A lease's with blobs, whose workers make some of these.
    pub fn with_blobs(blobs: BlobTables, contents: Contents) -> Self {
        let mut engine = Self::new(true);
        engine.lanes.payloads = Payloads { blobs: Some(blobs), contents };
        engine
    }

    /// What it has for blobs; none: it refuses all messages about them.
    pub fn tables(&self) -> Option<&BlobTables> {
        self.lanes.payloads.blobs.as_ref()
    }

    /// Takes a link in so that whatever comes next over another one is taken in first; `nobody` is one that ends at once.
    pub fn attach_last(&mut self, new: NewLink, nobody: NewLink) -> PeerId {
        let place = self.attach(nobody);
        let peer = self.attach(new);
        self.peer_gone(place, "nobody was there", Departure::Lost);
        self.endings.clear();
        peer
    }

    /// What whoever completes tasks does.
    pub fn turn(&mut self) {
        self.lanes.now += 1_000;
        self.drain_links();
        let now = self.lanes.now;
        if self.tables().is_some() {
            self.take_blob_news(now);
        }
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
        while let Some(block) = self.core.freed_blocks().pop() {
            self.drop_bundle(block);
        }
    }

    fn release(&mut self, task: TaskId) {
        self.core.release(task);
    }

    fn peer_left(&mut self, peer: PeerId) {
        if self.tables().is_some() {
            self.blobs_left(peer);
        }
    }

    fn take_blob_message(
        &mut self,
        peer: PeerId,
        kind: MessageKind,
        body: &[u8],
    ) -> Result<(), FrameError> {
        match self.tables() {
            Some(_) => self.take_blob_of(peer, kind, body),
            None => Err(FrameError::UnknownKind(kind as u8)),
        }
    }

    fn provide_files(&mut self, peer: PeerId, context: ContextId) {
        if self.tables().is_some() {
            self.files_named(peer, context);
        }
    }

    fn take_promises(&mut self, peer: PeerId, context: ContextId) -> Vec<TaskId> {
        if self.tables().is_some() { self.promises_of(peer, context) } else { Vec::new() }
    }

    fn names_result(&mut self, task: TaskId, place: u32) -> bool {
        self.tables().is_some() && self.result_gets_names(task, place)
    }

    fn owes_results(&self) -> bool {
        self.tables().is_some() && self.owes_blobs()
    }

    fn call_waiters(&mut self, _concerns: impl Fn(&[TaskId]) -> bool) {}

    fn tell_news(&mut self, news: PeerNews) {
        if let PeerNews::Gone { text, .. } = news {
            self.endings.push(text);
        }
    }
}

impl BlobHome for Engine {
    fn is_asked_for(&self, _task: TaskId) -> bool {
        false
    }
}

impl BlobPort for Lanes {
    fn blobs(&mut self) -> BlobParts<'_> {
        self.payloads.blobs.as_mut().expect("there are some").parts()
    }

    fn blob_look(&self) -> BlobLook<'_> {
        self.payloads.blobs.as_ref().expect("there are some").look()
    }
}

impl LinkPort for Lanes {
    type Store = Payloads;

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    fn writing(&mut self) -> (&mut Links, &mut Functions, &Payloads) {
        (&mut self.links, &mut self.functions, &self.payloads)
    }

    fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.contexts
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        self.payloads.receive(parted)
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
        let arguments = self.payloads.bytes(frame.payload).to_vec();
        let parts = self.payloads.parts(frame.payload);
        Sent::Written(self.workers.send(slot, &frame, (arguments, parts)))
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

    fn spawn(&mut self, slot: SlotId, _: ContextId, _: Outfit) {
        self.workers.spawn(slot);
    }

    fn context_dropped(&mut self, context: ContextId) {
        self.tell_dropped(context);
        self.contexts.drop(context);
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
