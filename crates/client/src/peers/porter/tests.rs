//! A client that meets nodes which are only words.

use std::cell::RefCell;
use std::rc::Rc;

use gristmill_transport::pair;
use gristmill_wire::peer::Messages;

use super::*;

/// An engine that takes every link.
struct AnyOwner;

impl LinkOwner for AnyOwner {
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

/// A connection that writes down what is said.
struct NotedMeeting(Rc<RefCell<Vec<u8>>>);

impl Conversation for NotedMeeting {
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

fn porter(nodes_max: Option<usize>) -> Porter<AnyOwner> {
    let ask = Ask {
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
        world: Vec::new(),
    };
    let (python, engine) = ("3.11".to_owned(), "0.1".to_owned());
    let name = "program:1".to_owned();
    let terms = Terms { ask, python, engine, name, ends_at_ns: u64::MAX, nodes_max };
    Porter::new(AnyOwner, terms, Random::from_seed(1))
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
        labels: String::new(),
    }
}

/// Has a node greet; gives how the meeting goes on, and what was said to the node last.
fn greet(porter: &mut Porter<AnyOwner>, greeting: &Greeting) -> (Turn<NotedMeeting>, Control) {
    let said = Rc::default();
    let meeting = NotedMeeting(Rc::clone(&said));
    let talk = Talk { meeting, dial: None, lease: 0, theirs: None };
    let mut bytes = Vec::new();
    greeting.write(&mut bytes);
    let (kind, body) = Messages::new(&bytes).next().expect("one").expect("whole");
    let turn = porter.said(talk, (kind, body), 0);
    if let Turn::Failed(talk, trouble) = &turn {
        Host::<NotedMeeting>::failed(porter, talk.name(), None, trouble, 0);
    }
    let said = said.take();
    let (kind, body) = Messages::new(&said).last().expect("something").expect("whole");
    let control = Control::read(kind, body).expect("it is whole");
    (turn, control.unwrap_or(Control::Recalled))
}

/// Lets a node have a lease, which ends like this.
fn lease_and_lose(porter: &mut Porter<AnyOwner>, name: &str, how: Departure) -> Option<Redial> {
    let (turn, _) = greet(porter, &node(name));
    let Turn::On(talk) = turn else { panic!("it gets a lease: {:?}", porter.troubles) };
    let grant = Grant { lease: talk.lease, workers: 1, ..Grant::NOTHING };
    let mut bytes = Vec::new();
    grant.write(&mut bytes);
    let (kind, body) = Messages::new(&bytes).next().expect("one").expect("whole");
    assert!(matches!(porter.said(*talk, (kind, body), 0), Turn::Done));
    assert_eq!(porter.verdict(u64::MAX), None, "a node is there");
    let text = "no module".to_owned();
    let name = name.into();
    let news = PeerNews::Gone { peer: PeerId(0), name, text, how, had_workers: false };
    porter.hear(news, 0).map(|(_, redial)| redial)
}

#[test]
fn a_node_of_another_python_is_refused_for_good_and_both_are_named() {
    let mut porter = porter(Some(1));
    let other = Greeting { python: "3.12".to_owned(), ..node("n1") };
    let (_, said) = greet(&mut porter, &other);
    let Control::Refuse { text, is_final: true } = said else { panic!("it is told: {said:?}") };
    assert!(text.starts_with("n1 runs Python 3.12 and this is Python 3.11"), "{text}");
    assert_eq!(porter.failures, [("n1".to_owned(), text.clone())], "the user is told");
    let verdict = porter.verdict(0).expect("there is no other node");
    assert!(verdict.contains(&text), "{verdict}");
}

#[test]
fn a_node_of_another_engine_is_refused_for_good_and_both_are_named() {
    let mut porter = porter(None);
    let other = Greeting { engine: "0.2".to_owned(), ..node("n1") };
    let (_, said) = greet(&mut porter, &other);
    let Control::Refuse { text, is_final: true } = said else { panic!("it is told: {said:?}") };
    assert!(text.starts_with("n1 has gristmill 0.2 "), "{text}");
    let this =
        format!("this is gristmill 0.1 with version {WIRE_VERSION}: install the same on both");
    assert!(text.ends_with(&this));
    assert_eq!(porter.verdict(0), None, "another node may come");
}

#[test]
fn a_node_that_has_not_said_its_name_is_one_node_however_often_it_comes() {
    let mut porter = porter(Some(2));
    for _ in 0..5 {
        let _ = greet(&mut porter, &Greeting { wire_version: 1, ..node("n1") });
    }
    assert_eq!(porter.failures.len(), 1);
    assert_eq!(porter.verdict(0), None, "the other one may come");
}

#[test]
fn a_node_where_no_worker_starts_gets_no_other_lease() {
    let mut porter = porter(Some(2));
    assert_eq!(lease_and_lose(&mut porter, "n1", Departure::Failed), Some(Redial::Never));
    let (turn, said) = greet(&mut porter, &node("n1"));
    assert!(matches!(turn, Turn::Failed(..)));
    assert_eq!(said, Control::Refuse { text: "no module".to_owned(), is_final: true });
    assert_eq!(porter.verdict(u64::MAX), None, "the other one may come");
    assert_eq!(lease_and_lose(&mut porter, "n2", Departure::Failed), Some(Redial::Never));
    assert!(porter.verdict(0).is_some());
    assert_eq!(porter.failures.len(), 2, "each is told of once");
}

#[test]
fn all_addresses_that_refuse_for_good_leave_nobody_to_wait_for() {
    let mut porter = porter(Some(2));
    let refused = Trouble::lasting("another key");
    Host::<NotedMeeting>::failed(&mut porter, "10.0.0.1:1", Some(0), &refused, 0);
    let silent = Trouble::passing("nobody is there");
    Host::<NotedMeeting>::failed(&mut porter, "10.0.0.1:2", Some(1), &silent, 0);
    assert_eq!(porter.verdict(u64::MAX), None, "the second one may come up");
    Host::<NotedMeeting>::failed(&mut porter, "10.0.0.1:2", Some(1), &refused, 0);
    let verdict = porter.verdict(0).expect("both have said no");
    assert!(verdict.contains("10.0.0.1:1: another key"), "{verdict}");
}

#[test]
fn who_only_knocks_leaves_one_trouble_a_host_until_a_node_comes_from_there() {
    let mut porter = porter(None);
    let gone = Trouble::passing("it has closed the connection");
    for port in 6000..6010 {
        let address = format!("10.0.0.1:{port}");
        Host::<NotedMeeting>::failed(&mut porter, &address, None, &gone, 0);
    }
    assert_eq!(porter.troubles, [("10.0.0.1:6009".to_owned(), gone.text.clone())]);
    lease_and_lose(&mut porter, "n1", Departure::Ended);
    assert!(!porter.troubles.iter().any(|(whom, _)| whom.starts_with("10.0.0.1")));
    for host in 0..2 * TROUBLES_MAX {
        let address = format!("[fd00::{host:x}]:1");
        Host::<NotedMeeting>::failed(&mut porter, &address, None, &gone, 0);
    }
    assert_eq!(porter.troubles.len(), TROUBLES_MAX);
}

#[test]
fn a_node_that_is_lost_may_come_again() {
    let mut porter = porter(Some(1));
    assert_eq!(lease_and_lose(&mut porter, "n1", Departure::Lost), Some(Redial::Anew));
    assert_eq!(porter.verdict(u64::MAX), None);
    assert_eq!(lease_and_lose(&mut porter, "n1", Departure::Lost), Some(Redial::Anew));
}

#[test]
fn whoever_comes_to_a_client_that_has_given_up_is_told_why() {
    let mut porter = porter(None);
    porter.close("no node runs tasks");
    let (_, said) = greet(&mut porter, &node("n1"));
    assert_eq!(said, Control::Refuse { text: "no node runs tasks".to_owned(), is_final: true });
    assert!(porter.failures.is_empty(), "nothing is wrong with that node");
}
