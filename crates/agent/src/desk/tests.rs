//! A node whose engines write down what they are told.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gristmill_transport::Channel;

use super::*;

#[derive(Clone, Default)]
struct NotedEngine {
    told: Rc<RefCell<Vec<String>>>,
    news: Rc<RefCell<VecDeque<PeerNews>>>,
    /// A process of it does not end.
    is_stuck: Rc<Cell<bool>>,
}

impl NotedEngine {
    fn note(&self, what: &str) {
        self.told.borrow_mut().push(what.to_owned());
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
    fn take_news(&self) -> VecDeque<PeerNews> {
        self.news.take()
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

struct NoHousing;

impl Housing for NoHousing {
    type Engine = NotedEngine;

    fn start(&mut self, _: &Ask, _: &Grant, _: &[u16]) -> Result<NotedEngine, String> {
        Err("there is none".to_owned())
    }
}

const LEASE: u64 = 7;
const CLIENT: &str = "program:1";
const DURATION_NS: u64 = 800;
const NODE_ENDS_AT: u64 = 2_000;

/// A node with one lease, given at 0 for 800 ns, which drains for 100 of them.
struct Stage {
    desk: Desk<NoHousing>,
    engine: NotedEngine,
    dials: Dials,
}

impl Stage {
    fn new() -> Self {
        let facts = Facts {
            python: "3".to_owned(),
            engine: "test".to_owned(),
            name: "n0".to_owned(),
            capacity: Capacity { workers: 1, memory: 1, gpus: 0 },
            places: Places::default(),
            labels: String::new(),
            joins: false,
            drain_ns: 1_000,
            lease_min_ns: 100,
            ends_at: NODE_ENDS_AT,
        };
        let mut desk = Desk::new(facts, NoHousing);
        let ask = crate::leases::tests::ask(LEASE, 1);
        let ask = Ask { duration_ns: DURATION_NS, ..ask };
        desk.leases.grant(&ask, 0).expect("it is free");
        let engine = NotedEngine::default();
        let order = Order::of(CLIENT, &ask);
        let tenant = Tenant { engine: engine.clone(), peer: PeerId(0), name: String::new(), order };
        desk.tenants.insert(LEASE, tenant);
        Self { desk, engine, dials: Dials::new(&[]) }
    }

    /// What the engine is told at a time.
    fn look(&mut self, now: u64) -> Vec<String> {
        self.desk.hear(&mut self.dials, now);
        self.desk.end_over(&mut self.dials, now);
        self.engine.told.take()
    }

    fn extend(&self, duration_ns: u64) {
        let news = PeerNews::Extend { peer: PeerId(0), duration_ns };
        self.engine.news.borrow_mut().push_back(news);
    }
}

#[test]
fn a_lease_drains_once_and_ends_with_its_time() {
    let mut stage = Stage::new();
    assert!(stage.look(699).is_empty());
    assert_eq!(stage.desk.next_end(), Some(700));
    assert_eq!(stage.look(700), ["drain"]);
    assert!(stage.look(799).is_empty());
    assert_eq!(stage.look(800), ["end"]);
    assert!(stage.desk.is_idle());
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
    assert_eq!(stage.desk.next_end(), Some(1_800));
}

#[test]
fn an_extension_does_not_undo_the_drain_of_the_node() {
    let mut stage = Stage::new();
    stage.desk.drain("the node is over");
    assert_eq!(stage.engine.told.take(), ["drain"]);
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

/// What the desk says to whoever asks for a lease at a time; none is its grant.
fn refusal(stage: &mut Stage, ask: &Ask, now: u64) -> Option<Trouble> {
    let order = Order::of(CLIENT, ask);
    match stage.desk.try_lease(order, ask, now) {
        Err(trouble) if trouble.text == "there is none" => None,
        Err(trouble) => Some(trouble),
        Ok(_) => None,
    }
}

#[test]
fn a_process_that_does_not_end_holds_up_nobody_but_who_wants_its_share() {
    let mut stage = Stage::new();
    stage.engine.is_stuck.set(true);
    assert_eq!(stage.look(700), ["drain"]);
    assert_eq!(stage.look(800), ["end"]);
    assert!(stage.look(801).is_empty(), "the desk goes on, and ends it once");
    assert!(stage.desk.sweep(801));
    let ask = crate::leases::tests::ask(LEASE + 1, 1);
    let taken = refusal(&mut stage, &ask, 801).expect("its worker may still run");
    assert!(!taken.is_final);
    stage.engine.is_stuck.set(false);
    assert!(!stage.desk.sweep(802));
    assert_eq!(refusal(&mut stage, &ask, 802), None);
}

#[test]
fn a_share_is_given_again_in_the_end_whatever_its_processes_do() {
    let mut stage = Stage::new();
    stage.engine.is_stuck.set(true);
    let _ = (stage.look(700), stage.look(800));
    assert!(stage.desk.sweep(800 + LEAVE_MAX_NS - 1));
    assert!(!stage.desk.sweep(800 + LEAVE_MAX_NS));
    assert!(stage.desk.is_idle());
}

#[test]
fn a_lease_that_would_be_over_at_once_is_refused() {
    let mut stage = Stage::new();
    let _ = (stage.look(700), stage.look(800));
    let ask = Ask { duration_ns: 99, ..crate::leases::tests::ask(LEASE + 1, 1) };
    let refused = refusal(&mut stage, &ask, 900).expect("it is too short");
    assert_eq!(refused.text, "the lease would be over in 0 ms, and is given for a second or more");
    assert!(!refused.is_final, "its client may want another one");
    let ask = Ask { duration_ns: u64::MAX, ..ask };
    assert!(refusal(&mut stage, &ask, NODE_ENDS_AT - 99).is_some(), "the node is over then");
    assert_eq!(refusal(&mut stage, &ask, NODE_ENDS_AT - 100), None);
}

#[test]
fn what_could_not_be_started_for_a_client_is_refused_for_good_when_it_asks_again() {
    let mut stage = Stage::new();
    let news = PeerNews::Gone {
        peer: PeerId(0),
        name: CLIENT.into(),
        text: "no module".to_owned(),
        how: Departure::Failed,
        had_workers: false,
    };
    stage.engine.news.borrow_mut().push_back(news);
    assert_eq!(stage.look(10), ["end"]);
    let again = crate::leases::tests::ask(LEASE + 1, 1);
    assert_eq!(refusal(&mut stage, &again, 11), Some(Trouble::lasting("no module")));
    let other = Ask { world: b"another".to_vec(), ..again };
    assert_eq!(refusal(&mut stage, &other, 11), None);
}
