//! Tests of peers that leave: the engine reads their last message although the connection ends directly after it.

use gristmill_client::{LinkWork, Links, NewLink};
use gristmill_transport::{Channel, Flushed, pair};
use gristmill_wire::PeerId;
use gristmill_wire::peer::{Control, LeaseGrant};

use super::engine::Engine;
use super::wire::wire;

/// Time longer than a test, nanoseconds.
const EXPIRY_NS: u64 = 1_000_000_000;

fn new_link(name: &str, channel: impl Channel + Send + 'static) -> NewLink {
    NewLink {
        name: name.to_owned(),
        channel: Box::new(channel),
        beat_ns: EXPIRY_NS,
        expiry_ns: EXPIRY_NS,
        grant: LeaseGrant::NOTHING,
        labels: String::new(),
        own_name: String::new(),
        message_max: u64::MAX,
    }
}

/// Creates a lease's engine, and the client's end of its link.
fn lease() -> (Engine, Links) {
    let (here, there) = wire();
    let mut engine = Engine::new(true);
    engine.attach(new_link("client", here));
    let mut client = Links::new(None, false);
    client.insert(new_link("lease", there), 0);
    (engine, client)
}

#[test]
fn a_last_word_is_heard_although_nothing_can_be_said_to_its_sender_any_more() {
    let (mut engine, mut client) = lease();
    let link = client.get_mut(PeerId(0)).expect("it was just taken in");
    Control::End { text: "the client has finished".to_owned() }.write(&mut link.out);
    let _ = link.flush();
    drop(client);
    // The engine sends something before it reads what has come.
    engine.drain_inbound("the node is over");
    engine.turn();
    assert_eq!(engine.endings, ["the client has finished"]);
}

#[test]
fn a_peer_that_was_lost_without_a_word_may_come_again() {
    let (mut engine, client) = lease();
    drop(client);
    engine.drain_inbound("the node is over");
    engine.turn();
    assert!(engine.endings.is_empty());
    let link = engine.port.links.get(PeerId(0)).expect("it is kept");
    assert!(!link.is_connected(), "another connection may come");
}

#[test]
fn an_engine_that_ends_waits_for_a_peer_to_close_its_end() {
    let (mut engine, client) = lease();
    engine.end_links("the node is over");
    assert!(engine.port.links.is_leaving(engine.port.now));
    drop(client);
    engine.turn();
    assert!(!engine.port.links.is_leaving(engine.port.now));
    assert!(engine.endings.is_empty(), "it has left itself");
}

#[test]
fn a_lease_ends_with_a_connection_that_its_client_closes_in_order() {
    let (here, mut there) = pair().expect("descriptors");
    let mut engine = Engine::new(true);
    engine.attach(new_link("client", here));
    there.close();
    assert_eq!(there.flush().expect("it is open"), Flushed::All);
    engine.turn();
    assert_eq!(engine.endings.len(), 1, "no other connection is waited for");
}
