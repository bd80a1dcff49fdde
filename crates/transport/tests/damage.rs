//! Faults after the keys are proved: a peer that breaks the protocol, and bytes that are altered on the way.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use gristmill_transport::{
    CHUNK_SIZE_MAX, Channel, ChannelError, ChunkHead, Connector, Envelope, FleetKeys, Identity,
    TcpChannel,
};
use gristmill_wire::WIRE_VERSION;
use support::hostile::{Caller, Manners, call, exchange, halves, key};
use support::{NEVER_NS, accept, end_of, finish, flush, head, listen, receive};

/// Returns the greeting of a peer with the versions of this build, encoded by hand.
fn greeting() -> [u8; 16] {
    let mut bytes = *b"GRISTMIL\x01\0\0\0\0\0\0\0";
    bytes[12..].copy_from_slice(&WIRE_VERSION.to_le_bytes());
    bytes
}

/// Connects a channel to a node that greets by the protocol. After the greeting, `node` drives the connection by hand.
fn channel_to(node: impl FnOnce(Caller) + Send + 'static) -> (TcpChannel, thread::JoinHandle<()>) {
    let fleet = FleetKeys::generate().expect("there is randomness");
    let manners = Manners::good(key(&halves(&fleet.node).0, None));
    let listener = listen(Identity::of_client(&fleet.client));
    let address = listener.address();
    let node = thread::spawn(move || {
        let mut caller = call(address, manners);
        let mut received = [0; 16];
        caller.read_exact(&mut received).expect("the client greets first");
        assert_eq!(received, greeting());
        caller.write_all(&greeting()).expect("the client listens");
        node(caller);
    });
    let channel = finish(&mut accept(&listener, NEVER_NS)).expect("the key is the right one");
    (channel, node)
}

fn envelope(size: usize) -> [u8; 24] {
    Envelope { head: head(1), size }.encode()
}

#[test]
fn chunks_by_hand_arrive_however_they_are_cut_into_records() {
    let (mut channel, node) = channel_to(|mut caller| {
        let bytes = [&envelope(3)[..], b"one", &envelope(0), &envelope(3), b"two"].concat();
        for byte in bytes {
            caller.write_all(&[byte]).expect("the client listens");
        }
        caller.conn.send_close_notify();
        caller.flush().expect("the client listens");
    });
    let bodies = [receive(&mut channel).1, receive(&mut channel).1, receive(&mut channel).1];
    assert_eq!(bodies, [b"one".to_vec(), Vec::new(), b"two".to_vec()]);
    assert!(matches!(end_of(&mut channel), ChannelError::Closed { .. }));
    node.join().expect("the node is done");
}

#[test]
fn chunks_that_come_with_the_greeting_are_not_lost() {
    let fleet = FleetKeys::generate().expect("there is randomness");
    let manners = Manners::good(key(&halves(&fleet.node).0, None));
    let listener = listen(Identity::of_client(&fleet.client));
    let address = listener.address();
    let node = thread::spawn(move || {
        let words = [&greeting()[..], &envelope(5), b"early"].concat();
        exchange(call(address, manners), &words);
    });
    let mut channel = finish(&mut accept(&listener, NEVER_NS)).expect("the key is the right one");
    assert_eq!(receive(&mut channel).1, b"early");
    drop(channel);
    node.join().expect("the node is done");
}

#[test]
fn an_envelope_that_announces_too_much_is_refused_and_nothing_behind_it_is_read() {
    let (mut channel, node) = channel_to(|caller| {
        let words = [&envelope(2)[..], b"ok", &[0xff, 0xff, 0xff, 0xff], &[0; 20], &envelope(0)];
        exchange(caller, &words.concat());
    });
    assert_eq!(receive(&mut channel).1, b"ok");
    for _ in 0..2 {
        let error = end_of(&mut channel);
        let ChannelError::TooLarge { size, limit } = error else { panic!("{error}") };
        assert_eq!((size, limit), (u32::MAX as usize, CHUNK_SIZE_MAX));
    }
    drop(channel);
    node.join().expect("the node is done");
}

#[test]
fn what_is_no_envelope_is_garbage() {
    let (mut channel, node) = channel_to(|caller| exchange(caller, b"GET / HTTP/1.1 and so on"));
    let error = end_of(&mut channel);
    // The first four bytes are a size that is too large as well, but the zeros are checked first.
    assert!(matches!(error, ChannelError::Garbage { .. }) && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains("must be zero"), "{error}");
    drop(channel);
    node.join().expect("the node is done");
}

#[test]
fn closing_within_a_chunk_is_a_loss() {
    let (mut channel, node) = channel_to(|mut caller| {
        caller.write_all(&envelope(100)).expect("the client listens");
        caller.conn.send_close_notify();
        caller.flush().expect("the client listens");
    });
    let error = end_of(&mut channel);
    assert!(matches!(error, ChannelError::Lost { .. }), "{error}");
    node.join().expect("the node is done");
}

#[test]
fn an_end_without_closing_is_a_loss_even_between_chunks() {
    let (mut channel, node) = channel_to(|mut caller| {
        caller.write_all(&envelope(0)).expect("the client listens");
        caller.flush().expect("the client listens");
        caller.sock.shutdown(Shutdown::Both).expect("it is open");
    });
    assert_eq!(receive(&mut channel).1, b"");
    assert!(matches!(end_of(&mut channel), ChannelError::Lost { .. }));
    node.join().expect("the node is done");
}

#[test]
fn a_record_that_is_cut_off_or_no_record_is_a_loss() {
    let words: [&[u8]; 3] = [b"\x17\x03\x03\x00\x40 a part", b"no record at all", &[0; 100]];
    for bytes in words {
        let (mut channel, node) = channel_to(move |mut caller| {
            caller.read_exact(&mut [0; 24]).expect("the client is ready");
            caller.sock.write_all(bytes).expect("the client listens");
            caller.sock.shutdown(Shutdown::Write).expect("it is open");
        });
        channel.send(head(1), b"").expect("the node listens");
        flush(&mut channel);
        let error = end_of(&mut channel);
        assert!(matches!(error, ChannelError::Lost { .. }) && error.is_retryable(), "{error}");
        node.join().expect("the node is done");
    }
}

#[test]
fn the_keys_of_a_connection_can_change_while_it_is_used() {
    let (mut channel, node) = channel_to(|mut caller| {
        for _ in 0..20 {
            caller.conn.refresh_traffic_keys().expect("it is open");
            caller.write_all(&envelope(0)).expect("the client listens");
            let mut answer = [0; 24];
            caller.read_exact(&mut answer).expect("the client answers");
        }
    });
    for _ in 0..20 {
        assert_eq!(receive(&mut channel).1, b"");
        channel.send(head(1), b"").expect("the node listens");
        flush(&mut channel);
    }
    node.join().expect("the node is done");
}

/// The treatment of the bytes that one side sends.
#[derive(Debug, Clone, Copy)]
enum Meddling {
    Nothing,
    /// The byte at this position is altered.
    Alter(usize),
    /// The connection ends before the byte at this position.
    Cut(usize),
}

/// Passes bytes on in one direction; returns their number.
fn relay(mut from: TcpStream, mut to: TcpStream, meddling: Meddling) -> usize {
    let (mut buffer, mut passed) = ([0; 4096], 0);
    while let Ok(mut count @ 1..) = from.read(&mut buffer) {
        let piece = passed..passed + count;
        match meddling {
            Meddling::Alter(place) if piece.contains(&place) => buffer[place - passed] ^= 1,
            Meddling::Cut(place) if piece.contains(&place) => count = place - passed,
            _ => {}
        }
        passed += count;
        if to.write_all(&buffer[..count]).is_err() || passed < piece.end {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    passed
}

/// Creates a listener in front of another one. It alters or cuts what the connecting side sends.
fn meddle(behind: SocketAddr, meddling: Meddling) -> (SocketAddr, thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let meddler = thread::spawn(move || {
        let (one, _) = listener.accept().expect("the client connects");
        let other = TcpStream::connect(behind).expect("the node listens");
        let back = (other.try_clone().expect("it is open"), one.try_clone().expect("it is open"));
        let back = thread::spawn(move || relay(back.0, back.1, Meddling::Nothing));
        let passed = relay(one, other, meddling);
        back.join().expect("it passes on");
        passed
    });
    (address, meddler)
}

/// The result of such a conversation on the listening side.
struct Meddled {
    found: Vec<ChunkHead>,
    outcome: Result<(), ChannelError>,
    /// Bytes that the relay passed on.
    passed: usize,
}

fn converse(meddling: Meddling) -> Meddled {
    let fleet = FleetKeys::generate().expect("there is randomness");
    let listener = listen(Identity::of_client(&fleet.client));
    let (address, meddler) = meddle(listener.address(), meddling);
    let node = thread::spawn(move || {
        let connector = Connector::new(Identity::of_node(&fleet.node));
        let mut handshake = connector.connect(address, NEVER_NS).expect("there is a way");
        let Ok(mut channel) = finish(&mut handshake) else { return };
        for sequence in 1..=3 {
            let _ = channel.send(head(sequence), &[7; 100]).and_then(|()| channel.flush());
        }
        end_of(&mut channel);
    });
    let mut found = Vec::new();
    let outcome = finish(&mut accept(&listener, NEVER_NS))
        .and_then(|mut channel| receive_three(&mut channel, &mut found));
    node.join().expect("the node is done");
    let passed = meddler.join().expect("it passes on");
    let expected: Vec<_> = (1..).map(head).take(found.len()).collect();
    assert_eq!(found, expected, "a prefix of the sent bytes");
    Meddled { found, outcome, passed }
}

fn receive_three(channel: &mut TcpChannel, found: &mut Vec<ChunkHead>) -> Result<(), ChannelError> {
    let mut body = Vec::new();
    while found.len() < 3 {
        if let Some(head) = channel.receive(&mut body)? {
            assert_eq!(body, [7; 100]);
            found.push(head);
        }
    }
    Ok(())
}

#[test]
fn a_byte_that_is_altered_anywhere_ends_the_connection_and_is_never_delivered() {
    let whole = converse(Meddling::Nothing);
    assert!(whole.outcome.is_ok() && whole.found.len() == 3);
    // Every 37th byte of the hello, the proof, the greeting and the chunks. Bytes 1 and 2 are a version that TLS 1.3 ignores.
    for place in (0..whole.passed).step_by(37) {
        let altered = converse(Meddling::Alter(place));
        assert!(altered.outcome.is_err(), "byte {place} was altered, and everything arrived");
    }
}

#[test]
fn a_connection_that_is_cut_anywhere_is_a_loss_on_both_sides() {
    let whole = converse(Meddling::Nothing);
    for place in (0..whole.passed).step_by(31) {
        let cut = converse(Meddling::Cut(place));
        let error = cut.outcome.expect_err("the last chunk was cut");
        assert!(matches!(error, ChannelError::Lost { .. }), "cut before {place}: {error}");
        assert_eq!(cut.passed, place);
    }
}
