//! Strangers, impostors and liars. No such peer gets a channel, and each error says what is wrong.

mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;

use gristmill_transport::{
    Accepted, AuthFailure, ChannelError, Connector, FleetKeys, HANDSHAKE_COUNT_MAX,
    HOST_HANDSHAKE_COUNT_MAX, Handshake, HandshakeProgress, Identity, Listener, NodeKey, Versions,
};
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, socket};
use support::hostile::{Manners, call, exchange, halves, host, key};
use support::{NEVER_NS, Outcome, accept, finish, listen, meet};

/// Returns the error with which a listener refuses this peer.
fn heard(listening: Identity, peer: impl FnOnce(SocketAddr) + Send + 'static) -> ChannelError {
    let listener = listen(listening);
    let address = listener.address();
    let peer = thread::spawn(move || peer(address));
    let outcome = finish(&mut accept(&listener, NEVER_NS));
    peer.join().expect("a peer is no test");
    refused(outcome)
}

/// Returns the error with which a connecting end refuses this listener.
fn answered(connecting: Identity, peer: impl FnOnce(TcpListener) + Send + 'static) -> ChannelError {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let peer = thread::spawn(move || peer(listener));
    let handshake = Connector::new(connecting).connect(address, NEVER_NS);
    let outcome = finish(&mut handshake.expect("there is a way"));
    peer.join().expect("a peer is no test");
    refused(outcome)
}

fn refused(outcome: Outcome) -> ChannelError {
    match outcome {
        Ok(_) => panic!("this peer must not have a channel"),
        Err(error) => {
            assert!(!error.is_retryable() || matches!(error, ChannelError::Lost { .. }), "{error}");
            error
        }
    }
}

#[track_caller]
fn assert_mistrust(error: &ChannelError, expected: AuthFailure) {
    let ChannelError::Unauthenticated { peer, mistrust } = error else { panic!("{error:?}") };
    assert_eq!((*mistrust, peer.starts_with("127.0.0.1:")), (expected, true), "{error}");
}

fn fleet() -> FleetKeys {
    FleetKeys::generate().expect("there is randomness")
}

fn client(fleet: &FleetKeys) -> Identity {
    Identity::of_client(&fleet.client)
}

fn node(fleet: &FleetKeys) -> Identity {
    Identity::of_node(&fleet.node)
}

fn sibling(fleet: &FleetKeys) -> Identity {
    Identity::of_sibling(&fleet.node)
}

/// Returns the behaviour of a peer that holds a node key and acts as a node by hand.
fn as_node(key_of: &NodeKey) -> Manners {
    Manners::good(key(&halves(key_of).0, None))
}

const STRANGER: [u8; 32] = [7; 32];

#[test]
fn nodes_of_one_fleet_accept_each_other_at_the_intended_address_and_no_others() {
    let (ours, theirs) = (fleet(), fleet());
    support::connect(sibling(&ours), sibling(&ours));
    for other in [client(&ours), node(&ours), sibling(&theirs), client(&theirs)] {
        for (one, two) in [(sibling(&ours), other.clone()), (other, sibling(&ours))] {
            let (one, two) = meet(one, two);
            assert!(one.is_err() || two.is_err(), "one of them refuses");
            for error in [one.err(), two.err()].into_iter().flatten() {
                let expected = matches!(
                    error,
                    ChannelError::Unauthenticated { .. } | ChannelError::Lost { .. }
                );
                assert!(expected, "{error}");
            }
        }
    }
}

#[test]
fn bytes_that_are_no_tls_are_garbage_on_both_sides() {
    let hello = b"GET / HTTP/1.1\r\nHost: gristmill\r\n\r\n";
    let records: [&[u8]; 4] = [hello, &[0; 600], &[0xff; 600], b"\x16\x03\x01\xff\xff\x01"];
    for bytes in records {
        let error = heard(node(&fleet()), |address| {
            exchange(TcpStream::connect(address).expect("it listens"), bytes);
        });
        assert!(matches!(error, ChannelError::Garbage { .. }), "{error}");
        assert!(error.to_string().contains("not of this protocol"), "{error}");
        let error = answered(client(&fleet()), |listener| {
            exchange(listener.accept().expect("it connects").0, bytes);
        });
        assert!(matches!(error, ChannelError::Garbage { .. }), "{error}");
    }
}

#[test]
fn an_older_tls_is_garbage() {
    // A hello of TLS 1.2: version, random, no session, one suite, no compression, no extension.
    let mut hello = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03".to_vec();
    hello.extend([9; 32]);
    hello.extend(b"\x00\x00\x02\xc0\x2f\x01\x00");
    let error = heard(node(&fleet()), move |address| {
        exchange(TcpStream::connect(address).expect("it listens"), &hello);
    });
    assert!(matches!(error, ChannelError::Garbage { .. }), "{error}");
}

#[test]
fn a_peer_that_leaves_in_the_middle_is_a_loss() {
    let error = heard(node(&fleet()), |address| {
        let mut socket = TcpStream::connect(address).expect("it listens");
        let _ = socket.write_all(b"\x16\x03\x01\x00\x2d\x01\x00");
    });
    assert!(matches!(error, ChannelError::Lost { .. }) && error.is_retryable(), "{error}");
}

#[test]
fn tls_without_a_key_is_refused() {
    for (has_raw_keys, key) in [(false, None), (true, None)] {
        let manners = Manners { key, has_raw_keys, asks: true };
        let error = heard(node(&fleet()), |address| exchange(call(address, manners), b"hello"));
        assert_mistrust(&error, AuthFailure::NoKey);
    }
    // Ordinary TLS, with certificates or without a request for a key, is another protocol.
    for (has_raw_keys, asks) in [(false, true), (true, false)] {
        let manners = Manners { key: Some(key(&STRANGER, None)), has_raw_keys, asks };
        let error =
            answered(client(&fleet()), |listener| exchange(host(&listener, manners), b"hello"));
        assert!(matches!(error, ChannelError::Garbage { .. }), "{error}");
    }
}

#[test]
fn the_key_of_a_stranger_is_refused_on_both_sides() {
    let manners = Manners::good(key(&STRANGER, None));
    let theirs = manners.clone();
    let error = heard(node(&fleet()), |address| exchange(call(address, theirs), b"hello"));
    assert_mistrust(&error, AuthFailure::OtherKey);
    let error =
        answered(node(&fleet()), move |listener| exchange(host(&listener, manners), b"hello"));
    assert_mistrust(&error, AuthFailure::OtherKey);
}

#[test]
fn another_fleet_is_refused_and_told() {
    let (one, other) = (fleet(), fleet());
    for (connecting, listening) in [(client(&one), node(&other)), (node(&one), client(&other))] {
        let (out, into) = meet(connecting, listening);
        assert_mistrust(&refused(out), AuthFailure::OtherKey);
        assert_mistrust(&refused(into), AuthFailure::OursRefused);
    }
}

#[test]
fn a_listener_that_refuses_says_so() {
    // The connecting peer accepts any key, and learns why its own is refused.
    let (one, other) = (fleet(), fleet());
    let listener = listen(client(&one));
    let manners = as_node(&other.node);
    let address = listener.address();
    let peer = thread::spawn(move || {
        let mut caller = call(address, manners);
        let mut word = [0; 16];
        std::io::Read::read_exact(&mut caller, &mut word).expect_err("it is refused").to_string()
    });
    let error = refused(finish(&mut accept(&listener, NEVER_NS)));
    assert_mistrust(&error, AuthFailure::OtherKey);
    let told = peer.join().expect("a peer is no test");
    assert!(told.contains("AccessDenied"), "{told}");
}

#[test]
fn a_node_is_no_client_and_a_client_no_node() {
    let fleet = fleet();
    // A node that connects to a node, and a client that connects to a client.
    for identity in [node(&fleet), client(&fleet)] {
        let (out, into) = meet(identity.clone(), identity);
        assert_mistrust(&refused(out), AuthFailure::OtherKey);
        assert_mistrust(&refused(into), AuthFailure::OursRefused);
    }
    // The same by hand: a holder of a node key connects to a node and poses as the client.
    let manners = as_node(&fleet.node);
    let theirs = manners.clone();
    let error = heard(node(&fleet), |address| exchange(call(address, theirs), b"hello"));
    assert_mistrust(&error, AuthFailure::OtherKey);
    let error =
        answered(node(&fleet), move |listener| exchange(host(&listener, manners), b"hello"));
    assert_mistrust(&error, AuthFailure::OtherKey);
}

#[test]
fn a_key_that_is_only_shown_proves_nothing() {
    let fleet = fleet();
    let (_, client_public) = halves(&fleet.node);
    let manners = Manners::good(key(&STRANGER, Some(&client_public)));
    let theirs = manners.clone();
    let error = heard(node(&fleet), |address| exchange(call(address, theirs), b"hello"));
    assert_mistrust(&error, AuthFailure::NoProof);
    let error =
        answered(node(&fleet), move |listener| exchange(host(&listener, manners), b"hello"));
    assert_mistrust(&error, AuthFailure::NoProof);
}

#[test]
fn another_version_is_refused_with_both_versions() {
    let fleet = fleet();
    let greeting = b"GRISTMIL\x09\0\0\0\x01\0\0\0";
    let manners = as_node(&fleet.node);
    let theirs = manners.clone();
    let mut errors =
        vec![heard(client(&fleet), |address| exchange(call(address, theirs), greeting))];
    errors.push(answered(client(&fleet), |listener| exchange(host(&listener, manners), greeting)));
    for error in errors {
        let expected = Versions { transport: 9, wire: 1 };
        let ChannelError::Version { ours, theirs, .. } = &error else { panic!("{error}") };
        assert_eq!((*ours, *theirs), (Versions::OURS, expected));
        assert!(error.to_string().contains("9.1"), "{error}");
    }
}

#[test]
fn a_known_peer_that_does_not_greet_is_garbage() {
    let fleet = fleet();
    let manners = as_node(&fleet.node);
    let error = heard(client(&fleet), |address| exchange(call(address, manners), &[0; 16]));
    assert!(matches!(error, ChannelError::Garbage { .. }), "{error}");
    assert!(error.to_string().contains("greeting"), "{error}");
}

#[test]
fn a_silent_peer_holds_nothing_beyond_the_deadline() {
    let listener = listen(node(&fleet()));
    let mut socket = TcpStream::connect(listener.address()).expect("it listens");
    let mut handshake = accept(&listener, 1000);
    assert_eq!((handshake.deadline_ns(), listener.handshake_count()), (1000, 1));
    // A peer that sends a byte now and then has no more time than a silent one.
    for byte in b"\x16\x03\x01" {
        socket.write_all(&[*byte]).expect("it is open");
        assert!(matches!(handshake.progress(999), Ok(HandshakeProgress::Pending)));
    }
    let error = handshake.progress(1000).expect_err("its time is up");
    assert!(matches!(error, ChannelError::Silent { .. }) && error.is_retryable(), "{error}");
    assert_eq!(listener.handshake_count(), 0);
}

#[test]
fn a_listener_that_does_not_answer_is_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let connector = Connector::new(client(&fleet()));
    let mut handshake = connector.connect(address, 10).expect("there is a way");
    let _accepted = listener.accept().expect("it connects");
    assert!(matches!(handshake.progress(0), Ok(HandshakeProgress::Pending)));
    let error = handshake.progress(10).expect_err("its time is up");
    assert!(matches!(error, ChannelError::Silent { .. }), "{error}");
}

#[test]
fn an_address_without_a_listener_is_unreachable() {
    // Bound, but without a listener: no other test gets this port meanwhile.
    let held = bind_from([127, 0, 0, 1]);
    let address = getsockname(&held).expect("it is bound").try_into().expect("it is IPv4");
    let connector = Connector::new(client(&fleet()));
    let handshake = connector.connect(address, NEVER_NS);
    let error = match handshake {
        Ok(mut handshake) => {
            finish(&mut handshake).map(drop).expect_err("no process listens there")
        }
        Err(error) => error,
    };
    assert!(matches!(error, ChannelError::Unreachable { .. }) && error.is_retryable(), "{error}");
}

/// Creates a socket with a free port of an address of this machine; it does not listen.
fn bind_from(host: [u8; 4]) -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor");
    bind(&socket, &SocketAddr::from((host, 0))).expect("the address is this machine's");
    socket
}

/// Connects from an address of this machine.
fn connect_from(host: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = bind_from(host);
    connect(&socket, &to).expect("it listens");
    socket.into()
}

/// Begins as many handshakes from a host as a listener accepts from one.
fn begin_handshakes(listener: &Listener, host: [u8; 4]) -> Vec<(TcpStream, Handshake)> {
    let begin = |_| (connect_from(host, listener.address()), accept(listener, 1));
    (0..HOST_HANDSHAKE_COUNT_MAX).map(begin).collect()
}

#[test]
fn handshakes_are_bounded() {
    let listener = listen(node(&fleet()));
    let mut held = begin_handshakes(&listener, [127, 0, 0, 1]);
    held.extend(begin_handshakes(&listener, [127, 0, 0, 2]));
    assert_eq!(held.len(), HANDSHAKE_COUNT_MAX);
    let _waits = connect_from([127, 0, 0, 3], listener.address());
    assert!(matches!(listener.accept(1), Ok(Accepted::Full)));
    held.pop();
    assert_eq!(accept(&listener, 1).deadline_ns(), 1);
}

#[test]
fn one_host_does_not_keep_others_out() {
    let listener = listen(node(&fleet()));
    let mut held = begin_handshakes(&listener, [127, 0, 0, 1]);
    let waits = connect_from([127, 0, 0, 1], listener.address());
    let _other = connect_from([127, 0, 0, 2], listener.address());
    let accepted = accept(&listener, 1);
    assert!(accepted.peer().starts_with("127.0.0.2:"), "{}", accepted.peer());
    held.pop();
    let next = accept(&listener, 1);
    assert_eq!(next.peer(), waits.local_addr().expect("it is connected").to_string());
}
