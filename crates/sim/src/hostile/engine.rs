//! The besieged engine: a real scheduler core with real links, with blobs if requested; its workers are simulated and obey
//! the protocol.

use gristmill_client::{
    BlobHome, BlobParts, BlobPartsRef, BlobPort, BlobTables, BlobWork, ContextRegistry,
    ContextTelling, Departure, EngineParts, Functions, InboundTasks, LinkHome, LinkPort, LinkWork,
    Links, NewLink, PeerEvent, Sending, is_inbound,
};
use gristmill_core::{
    Attempt, Config, ContextId, Core, Dispatch, Floor, FunctionId, KillReason, Payload, PeerId,
    Port, RemoteDispatch, RingProgress, Sent, SlotId, Status, TakeBackResult, TaskId, WorkerGrant,
};
use gristmill_sync::clock::TickScale;
use gristmill_wire::FrameError;
use gristmill_wire::peer::{Control, MessageKind, Parted};

use super::payloads::{Contents, Payloads};
use super::workers::{Finals, Workers};

/// The port that the scheduler core calls.
pub(super) struct HostilePort {
    pub now: u64,
    pub links: Links,
    pub functions: Functions,
    contexts: ContextRegistry,
    pub payloads: Payloads,
    pub workers: Workers,
    pub finals: Finals,
    /// Time until which workers may begin tasks, if it was set.
    pub valid_until: Option<u64>,
    ended: Vec<(TaskId, u64)>,
    freed: Vec<FunctionId>,
}

/// An engine under siege.
pub(super) struct Engine {
    pub core: Core,
    pub port: HostilePort,
    pub inbound: InboundTasks,
    /// Reasons for the ends of links, in words.
    pub endings: Vec<String>,
}

impl Engine {
    /// Creates a program's engine without workers, or a lease's with workers.
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
        let port = HostilePort {
            now: 1_000,
            links: Links::new(None, is_lease),
            functions: Functions::default(),
            contexts: ContextRegistry::default(),
            payloads: Payloads::default(),
            workers: Workers::new(workers.into()),
            finals: Finals::default(),
            valid_until: None,
            ended: Vec::new(),
            freed: Vec::new(),
        };
        let (inbound, endings) = (InboundTasks::default(), Vec::new());
        let mut engine = Self { core: Core::new(config), port, inbound, endings };
        engine.core.start(engine.port.now, &mut engine.port);
        engine
    }

    /// Creates the engine of a lease that has blob tables. Its workers return blobs out of `contents`.
    pub fn with_blobs(blobs: BlobTables, contents: Contents) -> Self {
        let mut engine = Self::new(true);
        engine.port.payloads = Payloads { blobs: Some(blobs), contents };
        engine
    }

    /// Returns the blob tables, or `None` if the engine refuses all messages about blobs.
    pub fn tables(&self) -> Option<&BlobTables> {
        self.port.payloads.blobs.as_ref()
    }

    /// Attaches the second argument first, as peer 0, then `new`, and ends the link of peer 0 at once. The next link thus gets
    /// number 0 again, and is read before `new`.
    pub fn attach_last(&mut self, new: NewLink, spare: NewLink) -> PeerId {
        let place = self.attach(spare);
        let peer = self.attach(new);
        self.peer_gone(place, "no process listened there", Departure::Lost);
        self.endings.clear();
        peer
    }

    /// Does a turn of the thread that completes tasks.
    pub fn turn(&mut self) {
        self.port.now += 1_000;
        self.drain_links();
        let now = self.port.now;
        if self.tables().is_some() {
            self.take_blob_events(now);
        }
        self.core.poll(now, &mut self.port);
        self.settle();
        self.flush_links(now);
        self.core.audit();
    }
}

impl LinkHome for Engine {
    type Port = HostilePort;

    fn parts(&mut self) -> EngineParts<'_, HostilePort> {
        EngineParts { core: &mut self.core, port: &mut self.port, inbound: &mut self.inbound }
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn port(&self) -> &HostilePort {
        &self.port
    }

    fn inbound(&self) -> &InboundTasks {
        &self.inbound
    }

    fn settle(&mut self) {
        for function in std::mem::take(&mut self.port.freed) {
            self.core.forget_function(function);
        }
        for (task, handle) in std::mem::take(&mut self.port.ended) {
            self.answer_inbound(task, handle);
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

    fn record_event(&mut self, events: PeerEvent) {
        if let PeerEvent::Gone { text, .. } = events {
            self.endings.push(text);
        }
    }
}

impl BlobHome for Engine {
    fn is_asked_for(&self, _task: TaskId) -> bool {
        false
    }
}

impl BlobPort for HostilePort {
    fn blobs(&mut self) -> BlobParts<'_> {
        self.payloads.blobs.as_mut().expect("there are some").parts()
    }

    fn blob_look(&self) -> BlobPartsRef<'_> {
        self.payloads.blobs.as_ref().expect("there are some").look()
    }
}

impl LinkPort for HostilePort {
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

    fn contexts(&self) -> &ContextRegistry {
        &self.contexts
    }

    fn contexts_mut(&mut self) -> &mut ContextRegistry {
        &mut self.contexts
    }

    fn receive_parted(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        self.payloads.receive(parted)
    }

    fn receive_result(&mut self, parted: &Parted<'_>) -> Result<Payload, String> {
        self.receive_parted(parted)
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

impl Port for HostilePort {
    fn send(&mut self, slot: SlotId, frame: Dispatch<'_>) -> Sent {
        let arguments = self.payloads.bytes(frame.payload).to_vec();
        let parts = self.payloads.parts(frame.payload);
        Sent::Written(self.workers.send(slot, &frame, (arguments, parts)))
    }

    fn take_back(&mut self, slot: SlotId, sequences: &[u64], taken: &mut Vec<TakeBackResult>) {
        self.workers.take_back(slot, sequences, taken);
    }

    fn progress(&self, slot: SlotId) -> RingProgress {
        self.workers.progress(slot)
    }

    fn interrupt(&mut self, slot: SlotId, sequence: u64) {
        self.workers.interrupt(slot, sequence);
    }

    fn kill(&mut self, slot: SlotId, _: KillReason) {
        self.workers.kill(slot);
    }

    fn spawn(&mut self, slot: SlotId, _: ContextId, _: WorkerGrant) {
        self.workers.spawn(slot);
    }

    fn context_dropped(&mut self, context: ContextId) {
        self.tell_dropped(context);
        self.contexts.drop(context);
    }

    fn retire(&mut self, slot: SlotId) {
        self.workers.kill(slot);
    }

    fn send_to_peer(&mut self, peer: PeerId, dispatch: RemoteDispatch<'_>) -> Sent {
        self.delegate(peer, &dispatch)
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

    fn floor_at_peer(&mut self, peer: PeerId, context: ContextId, floor: (Floor, u32)) {
        self.say_floor(peer, context, floor);
    }

    fn tell_vacant(&mut self, peer: PeerId, context: ContextId, word: (u32, u32)) {
        self.say_vacant(peer, context, word);
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is the function")]
    fn finished(&mut self, task: TaskId, handle: u64, status: Status) {
        self.finals.note(task, status);
        let function = FunctionId(handle as u32);
        if self.functions.release(function) {
            self.freed.push(function);
        }
        if is_inbound(handle) {
            self.ended.push((task, handle));
        }
    }

    fn ticks(&self) -> u64 {
        self.now
    }
}
