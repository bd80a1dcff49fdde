//! Tests with a node whose engines record the calls that they receive.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gristmill_transport::Channel;

use super::*;

#[derive(Clone, Default)]
struct NotedEngine {
    calls: Rc<RefCell<Vec<String>>>,
    events: Rc<RefCell<VecDeque<PeerEvent>>>,
    /// True if a process of the engine does not end.
    is_stuck: Rc<Cell<bool>>,
}

impl NotedEngine {
    fn note(&self, what: &str) {
        self.calls.borrow_mut().push(what.to_owned());
    }
}

impl LinkOwner for NotedEngine {
    fn attach(&self, _: NewLink) -> PeerId {
        PeerId(0)
    }

    fn reattach(&self, _: PeerId, _: Box<dyn Channel + Send>, _: u64) -> bool {
        true
    }

    fn received(&self, _: PeerId) -> Option<u64> {
        None
    }
}

impl LeaseEngine for NotedEngine {
    fn take_events(&self) -> VecDeque<PeerEvent> {
        self.events.take()
    }

    fn drain(&self, _: &str) {
        self.note("drain");
    }

    fn is_drained(&self) -> bool {
        false
    }

    fn last(&self, _: PeerId, duration_ns: u64) {
        self.note(&format!("last for {duration_ns}"));
    }

    fn end_links(&self, _: &str) {}

    fn begin_end(&self, _: &str) {
        self.note("end");
    }

    fn has_ended(&self) -> bool {
        !self.is_stuck.get()
    }
}

struct NoEngines;

impl EngineFactory for NoEngines {
    type Engine = NotedEngine;

    fn start(
        &mut self,
        _: &LeaseRequest,
        _: &LeaseGrant,
        _: &[u16],
    ) -> Result<NotedEngine, String> {
        Err("there is none".to_owned())
    }
}

const LEASE: u64 = 7;
const CLIENT: &str = "program:1";
const DURATION_NS: u64 = 800;
const NODE_ENDS_AT: u64 = 2_000;

/// A node with one lease, granted at 0 for 800 ns, which drains for the last 100 ns.
struct Stage {
    server: LeaseServer<NoEngines>,
    engine: NotedEngine,
    dials: Dials,
}

impl Stage {
    fn new() -> Self {
        let facts = NodeDescription {
            python: "3".to_owned(),
            engine: "test".to_owned(),
            name: "n0".to_owned(),
            capacity: Capacity { workers: 1, memory: 1, gpus: 0 },
            affinity: CpuSlotAffinity::default(),
            labels: String::new(),
            message_max: u64::MAX,
            joins: false,
            drain_ns: 1_000,
            lease_min_ns: 100,
            ends_at: NODE_ENDS_AT,
        };
        let mut server = LeaseServer::new(facts, NoEngines);
        let request = crate::leases::tests::request(LEASE, 1);
        let request = LeaseRequest { duration_ns: DURATION_NS, ..request };
        server.leases.grant(&request, 0).expect("it is free");
        let engine = NotedEngine::default();
        let spec = WorkerSpecHash::of(CLIENT, &request);
        let session =
            LeaseSession { engine: engine.clone(), peer: PeerId(0), name: String::new(), spec };
        server.sessions.insert(LEASE, session);
        Self { server, engine, dials: Dials::new(&[]) }
    }

    /// Runs one round of the server at `now`, and returns the calls that the engine got.
    fn look(&mut self, now: u64) -> Vec<String> {
        self.server.hear(&mut self.dials, now);
        self.server.end_over(&mut self.dials, now);
        self.engine.calls.take()
    }

    fn extend(&self, duration_ns: u64) {
        let event = PeerEvent::Extend { peer: PeerId(0), duration_ns };
        self.engine.events.borrow_mut().push_back(event);
    }
}

#[test]
fn a_lease_drains_once_and_ends_with_its_time() {
    let mut stage = Stage::new();
    assert!(stage.look(699).is_empty());
    assert_eq!(stage.server.next_end(), Some(700));
    assert_eq!(stage.look(700), ["drain"]);
    assert!(stage.look(799).is_empty());
    assert_eq!(stage.look(800), ["end"]);
    assert!(stage.server.is_idle());
}

#[test]
fn an_extension_before_the_end_undoes_the_drain() {
    let mut stage = Stage::new();
    assert_eq!(stage.look(700), ["drain"]);
    stage.extend(80);
    assert_eq!(stage.look(790), ["last for 80"]);
    assert_eq!(stage.look(860), ["drain"]);
    assert_eq!(stage.look(870), ["end"]);
}

#[test]
fn an_extension_before_the_drain_delays_it() {
    let mut stage = Stage::new();
    stage.extend(800);
    assert_eq!(stage.look(690), ["last for 800"]);
    assert!(stage.look(1_389).is_empty());
    assert_eq!(stage.look(1_390), ["drain"]);
}

#[test]
fn an_extension_does_not_outlast_the_node() {
    let mut stage = Stage::new();
    stage.extend(8_000);
    assert_eq!(stage.look(400), ["last for 1600"]);
    assert_eq!(stage.server.next_end(), Some(1_800));
}

#[test]
fn an_extension_does_not_undo_the_drain_of_the_node() {
    let mut stage = Stage::new();
    stage.server.drain("the node is over");
    assert_eq!(stage.engine.calls.take(), ["drain"]);
    stage.extend(800);
    assert!(stage.look(710).is_empty());
    assert_eq!(stage.look(800), ["end"]);
}

#[test]
fn what_comes_too_late_extends_nothing() {
    let mut stage = Stage::new();
    assert_eq!(stage.look(700), ["drain"]);
    assert_eq!(stage.look(800), ["end"]);
    stage.extend(800);
    assert!(stage.look(801).is_empty());
}

/// Returns the refusal of a request for a lease at `now`, or `None` if the lease server grants it. The factory of these
/// tests always fails with "there is none": the server has granted the lease before that.
fn refusal(stage: &mut Stage, request: &LeaseRequest, now: u64) -> Option<HandshakeFailure> {
    let spec = WorkerSpecHash::of(CLIENT, request);
    match stage.server.try_lease(spec, request, now) {
        Err(failure) if failure.text == "there is none" => None,
        Err(failure) => Some(failure),
        Ok(_) => None,
    }
}

#[test]
fn a_process_that_does_not_end_delays_only_leases_that_need_its_share() {
    let mut stage = Stage::new();
    stage.engine.is_stuck.set(true);
    assert_eq!(stage.look(700), ["drain"]);
    assert_eq!(stage.look(800), ["end"]);
    assert!(stage.look(801).is_empty(), "the lease server goes on and ends the lease once");
    assert!(stage.server.sweep(801));
    let request = crate::leases::tests::request(LEASE + 1, 1);
    let taken = refusal(&mut stage, &request, 801).expect("its worker may still run");
    assert!(!taken.is_final);
    stage.engine.is_stuck.set(false);
    assert!(!stage.server.sweep(802));
    assert_eq!(refusal(&mut stage, &request, 802), None);
}

#[test]
fn a_share_is_given_again_in_the_end_whatever_its_processes_do() {
    let mut stage = Stage::new();
    stage.engine.is_stuck.set(true);
    let _ = (stage.look(700), stage.look(800));
    assert!(stage.server.sweep(800 + LEAVE_MAX_NS - 1));
    assert!(!stage.server.sweep(800 + LEAVE_MAX_NS));
    assert!(stage.server.is_idle());
}

#[test]
fn a_lease_that_would_be_over_at_once_is_refused() {
    let mut stage = Stage::new();
    let _ = (stage.look(700), stage.look(800));
    let request = LeaseRequest { duration_ns: 99, ..crate::leases::tests::request(LEASE + 1, 1) };
    let refused = refusal(&mut stage, &request, 900).expect("it is too short");
    assert_eq!(refused.text, "the lease would end in 0 ms, and a lease lasts at least one second");
    assert!(!refused.is_final, "its client may want another one");
    let request = LeaseRequest { duration_ns: u64::MAX, ..request };
    assert!(refusal(&mut stage, &request, NODE_ENDS_AT - 99).is_some(), "the node is over then");
    assert_eq!(refusal(&mut stage, &request, NODE_ENDS_AT - 100), None);
}

#[test]
fn what_could_not_be_started_for_a_client_is_refused_for_good_when_it_asks_again() {
    let mut stage = Stage::new();
    let event = PeerEvent::Gone {
        peer: PeerId(0),
        name: CLIENT.into(),
        text: "no module".to_owned(),
        how: Departure::Failed,
        had_workers: false,
    };
    stage.engine.events.borrow_mut().push_back(event);
    assert_eq!(stage.look(10), ["end"]);
    let again = crate::leases::tests::request(LEASE + 1, 1);
    assert_eq!(refusal(&mut stage, &again, 11), Some(HandshakeFailure::lasting("no module")));
    let other = LeaseRequest { worker_environment: b"another".to_vec(), ..again };
    assert_eq!(refusal(&mut stage, &other, 11), None);
}

/// A connection that goes nowhere.
struct Unheard;

impl HandshakeChannel for Unheard {
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        fill(&mut Vec::new());
    }

    fn into_channel(self) -> Option<Box<dyn Channel + Send>> {
        None
    }

    fn peer(&self) -> &str {
        CLIENT
    }
}

/// Requests a lease through a handshake of its own.
fn request_lease(stage: &mut Stage, lease: u64, now: u64) {
    let pending = PendingHandshake { handshake: Unheard, dial: None, lease: 0, theirs: None };
    let request = LeaseRequest { duration_ns: 1_000, ..crate::leases::tests::request(lease, 1) };
    let _ = stage.server.lease(pending, &request, now);
}

#[test]
fn a_request_for_a_lease_that_exists_leaves_the_lease_its_workers() {
    let mut stage = Stage::new();
    request_lease(&mut stage, LEASE, 10);
    let other = crate::leases::tests::request(LEASE + 1, 1);
    let other = LeaseRequest { duration_ns: 1_000, ..other };
    assert!(refusal(&mut stage, &other, 10).is_some(), "the node's only worker is leased");
}

#[test]
fn a_lease_whose_engine_does_not_start_leaves_its_workers_to_others() {
    let mut stage = Stage::new();
    let _ = (stage.look(700), stage.look(800));
    for lease in [LEASE + 1, LEASE + 2] {
        request_lease(&mut stage, lease, 810);
        assert!(stage.server.leases.is_empty(), "lease {lease} holds its worker");
    }
}
