//! Tests of blobs that arrive, or are read back from disk, while their client dismisses them, names them again, requests
//! them, or leaves.

use gristmill_store::BlobLimits;
use gristmill_wire::BlobName;
use gristmill_wire::peer::MessageKind;

use super::facade::BlobWork as _;
use super::receiver::BlobReceiver;
use super::retention::ResultRetention as _;
use super::server::BlobServerCommand;
use super::work::BlobReceiverWork as _;
use crate::peers::{Departure, LinkWork as _};
use crate::workerless::{Node, WorkerlessEngine};

const BYTES: &[u8] = b"an argument";

/// Lease's engine, and a client that names a blob to it.
struct NamedBlob {
    engine: WorkerlessEngine,
    client: Node,
    name: BlobName,
}

impl NamedBlob {
    fn new() -> Self {
        Self::with(u64::MAX)
    }

    /// Creates an engine with `memory` bytes for unused blobs.
    fn with(memory: u64) -> Self {
        let mut engine = WorkerlessEngine::new();
        let client = engine.join("client", 0);
        let directory = std::env::temp_dir();
        let limits = BlobLimits { memory, disk: u64::MAX, directory };
        let port = &mut engine.inner.port;
        let waker = port.links.sleeper().expect("it sleeps").waker();
        port.receiver = Some(BlobReceiver::new(port.arena.clone(), limits, None, waker));
        let name = engine.name(BYTES);
        Self { engine, client, name }
    }

    fn receiver(&mut self) -> &mut BlobReceiver {
        self.engine.inner.port.receiver.as_mut().expect("it takes blobs")
    }

    /// Receives a task that names the blob.
    fn name(&mut self) {
        let name = self.name;
        self.receiver().take(name).expect("there is memory");
        self.engine.inner.promise_blobs(self.client.peer);
    }

    /// Receives all bytes of the blob.
    fn give(&mut self) {
        let name = self.name;
        assert!(self.receiver().store.append(name.digest, 0, BYTES));
        self.receiver().send(BlobServerCommand::Follow);
    }

    fn until_told(&mut self) {
        while !self.receiver().has_events() {
            std::thread::yield_now();
        }
    }

    fn hear(&mut self) {
        let now = self.engine.inner.port.read_clock();
        self.engine.inner.take_blob_events(now);
    }

    fn is_awaited(&mut self) -> bool {
        let digest = self.name.digest;
        self.receiver().awaited.requested_from(digest).is_some()
    }
}

#[test]
fn a_blob_that_is_named_again_has_yet_to_come_although_it_came_before() {
    let mut stage = NamedBlob::new();
    stage.name();
    stage.until_told();
    stage.hear();
    stage.give();
    // The blob is here, but the engine has not handled the event yet. The message from its client comes first.
    stage.until_told();
    let (client, digest) = (stage.client.peer, stage.name.digest);
    stage.engine.inner.stop_waiting(client, digest, None);
    assert_eq!(stage.receiver().store.make_room(u64::MAX), [digest]);
    stage.name();
    stage.hear();
    assert!(stage.is_awaited(), "its bytes are not in the new block");
    stage.give();
    while stage.is_awaited() {
        stage.hear();
    }
}

#[test]
fn who_asks_for_what_has_yet_to_come_is_told_that_it_is_not_here() {
    let mut stage = NamedBlob::new();
    stage.name();
    let (client, name) = (stage.client.peer, stage.name);
    stage.engine.inner.give_result(client, name, 0);
    assert_eq!(stage.receiver().requested.len(), 0, "it would wait for itself");
    stage.client.until_told(&mut stage.engine, MessageKind::Dropped);
}

#[test]
fn what_was_lost_here_is_still_needed_after_it_was_refused() {
    let mut stage = NamedBlob::new();
    stage.name();
    stage.until_told();
    stage.hear();
    let (client, name) = (stage.client.peer, stage.name);
    stage.engine.inner.give_result(client, name, 0);
    stage.client.until_told(&mut stage.engine, MessageKind::Dropped);
    let last = stage.client.heard.last().map(|(kind, _)| *kind);
    assert_eq!(last, Some(MessageKind::Need), "the client takes its last word");
}

#[test]
fn a_result_that_a_disk_does_not_give_back_is_not_waited_for() {
    let mut stage = NamedBlob::with(0);
    let (client, name) = (stage.client.peer, stage.name);
    let part = stage.engine.block(BYTES);
    let store = stage.receiver().store.clone();
    let _ = store.adopt(name, &part);
    drop(part);
    store.pin(name.digest);
    assert!(store.trim().is_empty());
    assert!(store.fail_disk().expect("it has one"), "it is on disk");
    stage.receiver().start_blob_server().expect("a thread");
    stage.engine.inner.give_result(client, name, 0);
    stage.until_told();
    stage.hear();
    assert!(!store.has(name.digest) && stage.receiver().requested.len() == 0);
    stage.client.until_told(&mut stage.engine, MessageKind::Dropped);
}

#[test]
fn nothing_is_waited_for_or_kept_for_a_client_that_is_gone() {
    let mut stage = NamedBlob::new();
    stage.name();
    stage.engine.inner.peer_gone(stage.client.peer, "the peer has left", Departure::Lost);
    let digest = stage.name.digest;
    assert!(!stage.is_awaited() && !stage.receiver().store.has(digest));
}
