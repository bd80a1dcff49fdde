//! Tests of a client's negotiator with nodes that consist only of messages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gristmill_transport::pair;
use gristmill_wire::peer::Messages;

use super::*;

/// An engine that takes every link, and notes the largest message that its other end takes.
struct AnyOwner(Cell<u64>);

impl LinkOwner for AnyOwner {
    fn attach(&self, new: NewLink) -> PeerId {
        self.0.set(new.message_max);
        PeerId(0)
    }

    fn reattach(&self, _: PeerId, _: Box<dyn Channel + Send>, _: u64) -> bool {
        true
    }

    fn received(&self, _: PeerId) -> Option<u64> {
        None
    }
}

/// A connection that records what is said.
struct NotedHandshake(Rc<RefCell<Vec<u8>>>);

impl HandshakeChannel for NotedHandshake {
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        fill(&mut self.0.borrow_mut());
    }

    fn into_channel(self) -> Option<Box<dyn Channel + Send>> {
        pair().ok().map(|(ours, _)| Box::new(ours) as _)
    }

    fn peer(&self) -> &str {
        "10.0.0.1:5000"
    }
}

fn negotiator(nodes_max: Option<usize>) -> LeaseNegotiator<AnyOwner> {
    let request = LeaseRequest {
        lease: 0,
        workers: 0,
        tasks_per_worker: 0,
        expiry_ns: 1,
        beat_ns: 1,
        duration_ns: u64::MAX,
        memory: 0,
        gpus: 0,
        blob_limits: [0; 2],
        context_memory: 0,
        spawns_fresh: false,
        is_exact: false,
        program: Vec::new(),
        worker_environment: Vec::new(),
    };
    let (python, engine) = ("3.11".to_owned(), "0.1".to_owned());
    let name = "program:1".to_owned();
    let (ends_at_ns, message_max) = (u64::MAX, 5 << 20);
    let terms = LeaseTerms { request, python, engine, name, ends_at_ns, nodes_max, message_max };
    LeaseNegotiator::new(AnyOwner(Cell::new(0)), terms, Random::from_seed(1))
}

fn node(name: &str) -> Greeting {
    Greeting {
        wire_version: WIRE_VERSION,
        role: Role::Node,
        python: "3.11".to_owned(),
        engine: "0.1".to_owned(),
        name: name.to_owned(),
        lease: 0,
        received: 0,
        offer: [1, 1, 0],
        message_max: 3 << 20,
        labels: String::new(),
    }
}

/// Has a node greet; returns the next step of the handshake, and the message that the node was sent last.
fn greet(
    negotiator: &mut LeaseNegotiator<AnyOwner>,
    greeting: &Greeting,
) -> (HandshakeNext<NotedHandshake>, Control) {
    let said = Rc::default();
    let handshake = NotedHandshake(Rc::clone(&said));
    let pending = PendingHandshake { handshake, dial: None, lease: 0, theirs: None };
    let mut bytes = Vec::new();
    greeting.write(&mut bytes);
    let (kind, body) = Messages::new(&bytes).next().expect("one").expect("whole");
    let next = negotiator.said(pending, (kind, body), 0);
    if let HandshakeNext::Failed(pending, failure) = &next {
        Host::<NotedHandshake>::failed(negotiator, pending.name(), None, failure, 0);
    }
    let said = said.take();
    let (kind, body) = Messages::new(&said).last().expect("something").expect("whole");
    let control = Control::read(kind, body).expect("it is whole");
    (next, control.unwrap_or(Control::Recalled))
}

/// Grants a node a lease that ends in the way `how`; returns the action for its address.
fn lease_and_lose(
    negotiator: &mut LeaseNegotiator<AnyOwner>,
    name: &str,
    how: Departure,
) -> Option<Redial> {
    let (next, _) = greet(negotiator, &node(name));
    let HandshakeNext::On(pending) = next else {
        panic!("it gets a lease: {:?}", negotiator.last_failures)
    };
    let grant = LeaseGrant { lease: pending.lease, workers: 1, ..LeaseGrant::NOTHING };
    let mut bytes = Vec::new();
    grant.write(&mut bytes);
    let (kind, body) = Messages::new(&bytes).next().expect("one").expect("whole");
    assert!(matches!(negotiator.said(*pending, (kind, body), 0), HandshakeNext::Done));
    assert_eq!(negotiator.verdict(u64::MAX), None, "a node is there");
    let text = "no module".to_owned();
    let name = name.into();
    let event = PeerEvent::Gone { peer: PeerId(0), name, text, how, had_workers: false };
    negotiator.hear(event, 0).map(|(_, redial)| redial)
}

#[test]
fn both_ends_tell_each_other_the_largest_message_that_they_take() {
    let mut negotiator = negotiator(Some(1));
    assert_eq!(negotiator.greeting(0).message_max, 5 << 20);
    let _ = lease_and_lose(&mut negotiator, "n1", Departure::Lost);
    assert_eq!(negotiator.owner.0.get(), 3 << 20);
}

#[test]
fn a_node_of_another_python_is_refused_for_good_and_both_are_named() {
    let mut negotiator = negotiator(Some(1));
    let other = Greeting { python: "3.12".to_owned(), ..node("n1") };
    let (_, said) = greet(&mut negotiator, &other);
    let Control::Refuse { text, is_final: true } = said else {
        panic!("the peer gets a refusal: {said:?}")
    };
    assert!(text.starts_with("n1 runs Python 3.12 and this is Python 3.11"), "{text}");
    assert_eq!(negotiator.failures, [("n1".to_owned(), text.clone())], "the user gets the reason");
    let verdict = negotiator.verdict(0).expect("there is no other node");
    assert!(verdict.contains(&text), "{verdict}");
}

#[test]
fn a_node_of_another_engine_is_refused_for_good_and_both_are_named() {
    let mut negotiator = negotiator(None);
    let other = Greeting { engine: "0.2".to_owned(), ..node("n1") };
    let (_, said) = greet(&mut negotiator, &other);
    let Control::Refuse { text, is_final: true } = said else {
        panic!("the peer gets a refusal: {said:?}")
    };
    assert!(text.starts_with("n1 has gristmill 0.2 "), "{text}");
    let this = format!(
        "this is gristmill 0.1 with version {WIRE_VERSION}: install the same version on both"
    );
    assert!(text.ends_with(&this));
    assert_eq!(negotiator.verdict(0), None, "another node may come");
}

#[test]
fn a_node_that_has_not_said_its_name_is_one_node_however_often_it_comes() {
    let mut negotiator = negotiator(Some(2));
    for _ in 0..5 {
        let _ = greet(&mut negotiator, &Greeting { wire_version: 1, ..node("n1") });
    }
    assert_eq!(negotiator.failures.len(), 1);
    assert_eq!(negotiator.verdict(0), None, "the other one may come");
}

#[test]
fn a_node_where_no_worker_starts_gets_no_other_lease() {
    let mut negotiator = negotiator(Some(2));
    assert_eq!(lease_and_lose(&mut negotiator, "n1", Departure::Failed), Some(Redial::Never));
    let (next, said) = greet(&mut negotiator, &node("n1"));
    assert!(matches!(next, HandshakeNext::Failed(..)));
    assert_eq!(said, Control::Refuse { text: "no module".to_owned(), is_final: true });
    assert_eq!(negotiator.verdict(u64::MAX), None, "the other one may come");
    assert_eq!(lease_and_lose(&mut negotiator, "n2", Departure::Failed), Some(Redial::Never));
    assert!(negotiator.verdict(0).is_some());
    assert_eq!(negotiator.failures.len(), 2, "each failure is reported once");
}

#[test]
fn all_addresses_that_refuse_for_good_leave_no_node_to_wait_for() {
    let mut negotiator = negotiator(Some(2));
    let refused = HandshakeFailure::lasting("another key");
    Host::<NotedHandshake>::failed(&mut negotiator, "10.0.0.1:1", Some(0), &refused, 0);
    let silent = HandshakeFailure::passing("no process listens there");
    Host::<NotedHandshake>::failed(&mut negotiator, "10.0.0.1:2", Some(1), &silent, 0);
    assert_eq!(negotiator.verdict(u64::MAX), None, "the second one may come up");
    Host::<NotedHandshake>::failed(&mut negotiator, "10.0.0.1:2", Some(1), &refused, 0);
    let verdict = negotiator.verdict(0).expect("both have said no");
    assert!(verdict.contains("10.0.0.1:1: another key"), "{verdict}");
}

#[test]
fn who_only_knocks_leaves_one_trouble_a_host_until_a_node_comes_from_there() {
    let mut negotiator = negotiator(None);
    let gone = HandshakeFailure::passing("it has closed the connection");
    for port in 6000..6010 {
        let address = format!("10.0.0.1:{port}");
        Host::<NotedHandshake>::failed(&mut negotiator, &address, None, &gone, 0);
    }
    assert_eq!(negotiator.last_failures, [("10.0.0.1:6009".to_owned(), gone.text.clone())]);
    lease_and_lose(&mut negotiator, "n1", Departure::Ended);
    assert!(!negotiator.last_failures.iter().any(|(whom, _)| whom.starts_with("10.0.0.1")));
    for host in 0..2 * LAST_FAILURES_MAX {
        let address = format!("[fd00::{host:x}]:1");
        Host::<NotedHandshake>::failed(&mut negotiator, &address, None, &gone, 0);
    }
    assert_eq!(negotiator.last_failures.len(), LAST_FAILURES_MAX);
}

#[test]
fn failures_are_bounded_in_bytes() {
    let mut negotiator = negotiator(None);
    let failure = HandshakeFailure::passing("y".repeat(LAST_FAILURES_SIZE_MAX / 4));
    for number in 0..10 {
        let name = format!("n{number}");
        Host::<NotedHandshake>::failed(&mut negotiator, &name, None, &failure, 0);
    }
    let names: Vec<_> = negotiator.last_failures.iter().map(|(whom, _)| whom.as_str()).collect();
    assert_eq!(names, ["n7", "n8", "n9"], "with their names, four are too many");
}

#[test]
fn a_node_that_is_lost_may_come_again() {
    let mut negotiator = negotiator(Some(1));
    assert_eq!(lease_and_lose(&mut negotiator, "n1", Departure::Lost), Some(Redial::Anew));
    assert_eq!(negotiator.verdict(u64::MAX), None);
    assert_eq!(lease_and_lose(&mut negotiator, "n1", Departure::Lost), Some(Redial::Anew));
}

#[test]
fn a_node_that_joins_a_client_that_has_given_up_gets_the_reason() {
    let mut negotiator = negotiator(None);
    negotiator.close("no node runs tasks");
    let (_, said) = greet(&mut negotiator, &node("n1"));
    assert_eq!(said, Control::Refuse { text: "no node runs tasks".to_owned(), is_final: true });
    assert!(negotiator.failures.is_empty(), "nothing is wrong with that node");
}

#[test]
fn failures_of_an_address_are_forgotten_when_another_address_of_its_host_answers() {
    let mut negotiator = negotiator(Some(1));
    let failure = HandshakeFailure::passing("cannot reach [fd00::1]:7700: no route");
    Host::<NotedHandshake>::failed(&mut negotiator, "n1:7700", Some(0), &failure, 0);
    assert_eq!(negotiator.last_failures.len(), 1);
    Host::<NotedHandshake>::answered(&mut negotiator, "n1:7700");
    assert!(negotiator.last_failures.is_empty());
}
