//! Tests of blob servers that give blobs to each other over real connections, and of sources that send wrong bytes.

use std::time::Duration;

use gristmill_shm::ClientArena;
use gristmill_store::{BlobAvailability, BlobLimits, Store, digest_of};
use gristmill_transport::{
    Accepted, Channel, ChunkHead, FleetKeys, HandshakeProgress, Identity, Listener, Sleeper,
    TcpChannel,
};
use gristmill_wire::peer::{Piece, Shortfall};
use gristmill_wire::{BlobName, Digest};

use super::{BlobServerCommand, BlobServerEvent, BlobServerHandle};

const SIZE: usize = 3_000_000;

/// Store and blob server of a node.
struct Node {
    store: Store,
    handle: BlobServerHandle,
    sleeper: Sleeper,
}

fn node(identity: &Identity) -> Node {
    let sleeper = Sleeper::new().expect("there are descriptors");
    let arena = ClientArena::create(0).expect("an arena");
    let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
    let store = Store::new(arena, limits);
    let handle = BlobServerHandle::start(store.clone(), Some(identity), Some(sleeper.waker()))
        .expect("a thread");
    Node { store, handle, sleeper }
}

impl Node {
    /// Returns the next event. The watchdog of the test runner ends a wait that never ends.
    fn event(&self) -> BlobServerEvent {
        loop {
            if let Some(event) = self.handle.take_events().pop() {
                return event;
            }
            let _ = self.sleeper.sleep(&mut Vec::new(), Some(Duration::from_secs(1)));
        }
    }

    fn want(&self) {
        assert!(matches!(self.store.want(name()), Ok(BlobAvailability::Missing(_))));
    }

    fn append(&self, bytes: &[u8], offset: usize) {
        assert!(self.store.append(name().digest, offset as u64, bytes));
        self.handle.send(BlobServerCommand::Follow);
    }

    fn fetch(&self, port: u16) {
        self.handle.send(BlobServerCommand::Fetch(name(), format!("127.0.0.1:{port}")));
    }

    fn lacks(&self) -> (u64, Shortfall, String) {
        match self.event() {
            BlobServerEvent::Lacks { received, shortfall, text, .. } => (received, shortfall, text),
            other => panic!("it lacks nothing: {other:?}"),
        }
    }

    fn fetched(&self) -> u64 {
        match self.event() {
            BlobServerEvent::Here { digest, fetched } => {
                assert_eq!(digest, name().digest);
                fetched.expect("it was on no disk")
            }
            other => panic!("it is not here: {other:?}"),
        }
    }
}

fn identity() -> Identity {
    Identity::of_sibling(&FleetKeys::generate().expect("there is randomness").node)
}

fn content() -> Vec<u8> {
    (0..SIZE).map(|place| (place / 7).to_le_bytes()[0]).collect()
}

fn name() -> BlobName {
    let arena = ClientArena::create(0).expect("an arena");
    let digest: Digest = digest_of(&arena.store(&content()).expect("a block"));
    BlobName { digest, size: SIZE as u64 }
}

#[test]
fn what_comes_is_given_on_and_whole_in_the_end() {
    let identity = identity();
    let [first, second, third] = [node(&identity), node(&identity), node(&identity)];
    let bytes = content();
    first.want();
    first.append(&bytes[..1_000_000], 0);
    second.want();
    second.fetch(first.handle.port());
    third.want();
    third.fetch(second.handle.port());
    // The first bytes reach the third node before the rest is there.
    while third.store.progress(name().digest).expect("wanted").received < 1_000_000 {
        std::thread::yield_now();
    }
    first.append(&bytes[1_000_000..], 1_000_000);
    assert_eq!((first.fetched(), second.fetched(), third.fetched()), (0, SIZE as u64, SIZE as u64));
    let Ok(BlobAvailability::Here(part)) = third.store.want(name()) else { panic!("it came") };
    assert_eq!(part.to_vec(), bytes);
}

#[test]
fn what_a_giver_does_not_have_or_has_no_more_comes_from_another_one() {
    let identity = identity();
    let [first, second, third] = [node(&identity), node(&identity), node(&identity)];
    third.want();
    third.fetch(second.handle.port());
    let (received, shortfall, text) = third.lacks();
    assert_eq!((received, shortfall), (0, Shortfall::Gone));
    assert!(text.contains("this node does not have it"), "{text}");

    let bytes = content();
    first.want();
    first.append(&bytes, 0);
    assert_eq!(first.fetched(), 0);
    second.want();
    second.append(&bytes[..1_000_000], 0);
    third.fetch(second.handle.port());
    while third.store.progress(name().digest).expect("wanted").received < 1_000_000 {
        std::thread::yield_now();
    }
    drop(second);
    let (received, shortfall, _) = third.lacks();
    assert_eq!((received, shortfall), (1_000_000, Shortfall::Gone));
    third.fetch(first.handle.port());
    assert_eq!(third.fetched(), SIZE as u64, "no byte twice");
}

#[test]
fn who_is_told_to_cease_says_what_it_has() {
    let identity = identity();
    let [first, second] = [node(&identity), node(&identity)];
    first.want();
    second.want();
    second.fetch(first.handle.port());
    second.handle.send(BlobServerCommand::Fetch(name(), String::new()));
    assert_eq!(second.lacks().1, Shortfall::None);
}

#[test]
fn no_server_sends_to_a_stranger_or_receives_from_one() {
    let [first, second] = [node(&identity()), node(&identity())];
    first.want();
    second.want();
    second.fetch(first.handle.port());
    let (received, shortfall, _) = second.lacks();
    assert_eq!((received, shortfall), (0, Shortfall::Gone));
    second.fetch(1);
    assert_eq!(second.lacks().1, Shortfall::Gone);
}

/// Sends `bytes` over one connection as the blob's bytes from `offset` on, 100,000 bytes a piece. Returns the port.
fn give(identity: Identity, bytes: Vec<u8>, offset: u64) -> u16 {
    let any = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind(any, identity).expect("a port is free");
    let port = listener.address().port();
    std::thread::spawn(move || {
        let mut channel = accept(&listener);
        let mut chunk = Vec::new();
        while channel.receive(&mut chunk).expect("it asks").is_none() {
            std::thread::yield_now();
        }
        for (number, piece) in (0..).zip(bytes.chunks(100_000)) {
            let mut message = Vec::new();
            let place = (name().digest, offset + number * 100_000);
            Piece::write(&mut message, place, piece.len(), |space| space.copy_from_slice(piece));
            channel.send(ChunkHead::default(), &message).expect("it listens");
        }
        // The loop ends when the other end closes the connection.
        while channel.flush().is_ok() && channel.receive(&mut chunk).is_ok() {
            std::thread::yield_now();
        }
    });
    port
}

fn accept(listener: &Listener) -> TcpChannel {
    let mut handshake = loop {
        if let Accepted::Peer(handshake) = listener.accept(u64::MAX).expect("it can be accepted") {
            break handshake;
        }
        std::thread::yield_now();
    };
    loop {
        if let HandshakeProgress::Done(channel) = handshake.progress(0).expect("the keys fit") {
            return channel;
        }
        std::thread::yield_now();
    }
}

#[test]
fn wrong_bytes_are_found_and_begun_anew() {
    let identity = identity();
    let [first, second] = [node(&identity), node(&identity)];
    let mut bytes = content();
    first.want();
    first.append(&bytes, 0);
    assert_eq!(first.fetched(), 0);
    bytes[SIZE - 1] ^= 1;
    second.want();
    second.fetch(give(identity.clone(), bytes, 0));
    let (received, shortfall, text) = second.lacks();
    assert_eq!((received, shortfall), (0, Shortfall::Wrong));
    assert!(text.contains("do not hash to"), "{text}");
    assert!(
        matches!(second.store.want(name()), Ok(BlobAvailability::Coming(_))),
        "no sink gets it"
    );
    second.fetch(first.handle.port());
    assert_eq!(second.fetched(), 2 * SIZE as u64, "what came twice is counted twice");
}

#[test]
fn who_gives_what_was_not_asked_for_is_left() {
    let identity = identity();
    let second = node(&identity);
    second.want();
    second.fetch(give(identity, content(), 5));
    let (received, shortfall, text) = second.lacks();
    assert_eq!((received, shortfall), (0, Shortfall::Gone));
    assert!(text.contains("it sent bytes that were not requested"), "{text}");
}

#[test]
fn no_waker_is_called_for_a_blob_without_a_waiter() {
    let node = node(&identity());
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    stranger.set_nonblocking(true).expect("a socket");
    node.fetch(stranger.local_addr().expect("it is bound").port());
    // The server carries out commands in order, so it has handled the fetch once it reports this one.
    node.want();
    node.handle.send(BlobServerCommand::Fetch(name(), String::new()));
    assert_eq!(node.lacks().1, Shortfall::None);
    assert!(stranger.accept().is_err(), "the waker was called");
}
