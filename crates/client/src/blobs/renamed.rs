//! Blobs that are dismissed, and named again, while they come.

use gristmill_store::BlobLimits;
use gristmill_wire::{BlobName, PeerId};

use super::depot::Order;
use super::facade::BlobWork as _;
use super::taking::Taking;
use super::work::TakingWork as _;
use crate::workless::Workless;

const BYTES: &[u8] = b"an argument";

/// A lease's engine that a client names a blob to.
struct Taker {
    engine: Workless,
    client: PeerId,
    name: BlobName,
}

impl Taker {
    fn new() -> Self {
        let mut engine = Workless::new();
        let client = engine.join("client", 0).peer;
        let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
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
        self.engine.inner.promise_blobs(self.client);
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
        self.taking().awaited.contains_key(&digest)
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
    let digest = taker.name.digest;
    taker.engine.inner.refuse_blob(digest, None);
    taker.name();
    taker.hear();
    assert!(taker.is_awaited(), "its bytes are not in the new block");
    taker.give();
    while taker.is_awaited() {
        taker.hear();
    }
}
