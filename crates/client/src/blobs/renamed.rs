//! Blobs that come, or come back from disk, while their client dismisses them, names them again, asks for them, or goes.

use gristmill_store::BlobLimits;
use gristmill_wire::BlobName;
use gristmill_wire::peer::MessageKind;

use super::depot::Order;
use super::facade::BlobWork as _;
use super::keeping::KeepingWork as _;
use super::taking::Taking;
use super::work::TakingWork as _;
use crate::peers::{Departure, LinkWork as _};
use crate::workless::{Node, Workless};

const BYTES: &[u8] = b"an argument";

/// A lease's engine that a client names a blob to.
struct Taker {
    engine: Workless,
    client: Node,
    name: BlobName,
}

impl Taker {
    fn new() -> Self {
        Self::with(u64::MAX)
    }

    /// With so much memory for what nobody uses.
    fn with(memory: u64) -> Self {
        let mut engine = Workless::new();
        let client = engine.join("client", 0);
        let directory = std::env::temp_dir();
        let limits = BlobLimits { memory, disk: u64::MAX, directory };
        let lanes = &mut engine.inner.lanes;
        let waker = lanes.links.sleeper().expect("it sleeps").waker();
        lanes.taking = Some(Taking::new(lanes.arena.clone(), limits, None, waker));
        let name = engine.name(BYTES);
        Self { engine, client, name }
    }

    fn taking(&mut self) -> &mut Taking {
        self.engine.inner.lanes.taking.as_mut().expect("it takes blobs")
    }

    /// A task comes that names it.
    fn name(&mut self) {
        let name = self.name;
        self.taking().take(name).expect("there is memory");
        self.engine.inner.promise_blobs(self.client.peer);
    }

    /// All its bytes come.
    fn give(&mut self) {
        let name = self.name;
        assert!(self.taking().store.append(name.digest, 0, BYTES));
        self.taking().order(Order::Follow);
    }

    fn until_told(&mut self) {
        while !self.taking().has_news() {
            std::thread::yield_now();
        }
    }

    fn hear(&mut self) {
        let now = self.engine.inner.lanes.read_clock();
        self.engine.inner.take_blob_news(now);
    }

    fn is_awaited(&mut self) -> bool {
        let digest = self.name.digest;
        self.taking().awaited.asked(digest).is_some()
    }
}

#[test]
fn a_blob_that_is_named_again_has_yet_to_come_although_it_came_before() {
    let mut taker = Taker::new();
    taker.name();
    taker.until_told();
    taker.hear();
    taker.give();
    // It is here, as the engine has yet to hear; it hears from its client first.
    taker.until_told();
    let (client, digest) = (taker.client.peer, taker.name.digest);
    taker.engine.inner.stop_waiting(client, digest, None);
    assert_eq!(taker.taking().store.make_room(u64::MAX), [digest]);
    taker.name();
    taker.hear();
    assert!(taker.is_awaited(), "its bytes are not in the new block");
    taker.give();
    while taker.is_awaited() {
        taker.hear();
    }
}

#[test]
fn who_asks_for_what_has_yet_to_come_is_told_that_it_is_not_here() {
    let mut taker = Taker::new();
    taker.name();
    let (client, name) = (taker.client.peer, taker.name);
    taker.engine.inner.give_result(client, name, 0);
    assert_eq!(taker.taking().asked.len(), 0, "it would wait for itself");
    taker.client.until_told(&mut taker.engine, MessageKind::Dropped);
}

#[test]
fn a_result_that_a_disk_does_not_give_back_is_not_waited_for() {
    let mut taker = Taker::with(0);
    let (client, name) = (taker.client.peer, taker.name);
    let part = taker.engine.block(BYTES);
    let store = taker.taking().store.clone();
    let _ = store.adopt(name, &part);
    drop(part);
    store.pin(name.digest);
    assert!(store.trim().is_empty());
    assert!(store.fail_disk().expect("it has one"), "it is on disk");
    taker.taking().start_depot().expect("a thread");
    taker.engine.inner.give_result(client, name, 0);
    taker.until_told();
    taker.hear();
    assert!(!store.has(name.digest) && taker.taking().asked.len() == 0);
    taker.client.until_told(&mut taker.engine, MessageKind::Dropped);
}

#[test]
fn nothing_is_waited_for_or_kept_for_a_client_that_is_gone() {
    let mut taker = Taker::new();
    taker.name();
    taker.engine.inner.peer_gone(taker.client.peer, "it is gone", Departure::Lost);
    let digest = taker.name.digest;
    assert!(!taker.is_awaited() && !taker.taking().store.has(digest));
}
