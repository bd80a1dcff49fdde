//! Depots that give to each other over real connections, and givers that are none.

use std::time::Duration;

use gristmill_shm::ClientArena;
use gristmill_store::{BlobLimits, Store, Want, digest_of};
use gristmill_transport::{
    Accepted, Channel, ChunkHead, Fleet, Identity, Listener, Progress, Sleeper, TcpChannel,
};
use gristmill_wire::peer::{Piece, Shortfall};
use gristmill_wire::{BlobName, Digest};

use super::{Depot, News, Order};

const SIZE: usize = 3_000_000;

/// A node's store and its depot.
struct Node {
    store: Store,
    depot: Depot,
    sleeper: Sleeper,
}

fn node(identity: &Identity) -> Node {
    let sleeper = Sleeper::new().expect("there are descriptors");
    let arena = ClientArena::create(0).expect("an arena");
    let limits = BlobLimits { memory: u64::MAX, disk: 0, directory: std::env::temp_dir() };
    let store = Store::new(arena, limits);
    let depot =
        Depot::start(store.clone(), Some(identity), Some(sleeper.waker())).expect("a thread");
    Node { store, depot, sleeper }
}

impl Node {
    /// The next news; the watchdog of whoever runs the tests ends a wait that never ends.
    fn news(&self) -> News {
        loop {
            if let Some(news) = self.depot.take_news().pop() {
                return news;
            }
            let _ = self.sleeper.sleep(&mut Vec::new(), Some(Duration::from_secs(1)));
        }
    }

    fn want(&self) {
        assert!(matches!(self.store.want(name()), Ok(Want::Missing(_))));
    }

    fn append(&self, bytes: &[u8], offset: usize) {
        assert!(self.store.append(name().digest, offset as u64, bytes));
        self.depot.order(Order::Follow);
    }

    fn fetch(&self, port: u16) {
        self.depot.order(Order::Fetch(name(), format!("127.0.0.1:{port}")));
    }

    fn lacks(&self) -> (u64, Shortfall, String) {
        match self.news() {
            News::Lacks { received, shortfall, text, .. } => (received, shortfall, text),
            other => panic!("it lacks nothing: {other:?}"),
        }
    }

    fn fetched(&self) -> u64 {
        match self.news() {
            News::Here { digest, fetched } => {
                assert_eq!(digest, name().digest);
                fetched.expect("it was on no disk")
            }
            other => panic!("it is not here: {other:?}"),
        }
    }
}

fn identity() -> Identity {
    Identity::of_sibling(&Fleet::generate().expect("there is randomness").node)
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
    second.fetch(first.depot.port());
    third.want();
    third.fetch(second.depot.port());
    // A part of it has gone all the way before the rest is there.
    while third.store.progress(name().digest).expect("wanted").received < 1_000_000 {
        std::thread::yield_now();
    }
    first.append(&bytes[1_000_000..], 1_000_000);
    assert_eq!((first.fetched(), second.fetched(), third.fetched()), (0, SIZE as u64, SIZE as u64));
    let Ok(Want::Here(part)) = third.store.want(name()) else { panic!("it came") };
    assert_eq!(part.to_vec(), bytes);
}

#[test]
fn what_a_giver_does_not_have_or_has_no_more_comes_from_another_one() {
    let identity = identity();
    let [first, second, third] = [node(&identity), node(&identity), node(&identity)];
    third.want();
    third.fetch(second.depot.port());
    let (received, shortfall, text) = third.lacks();
    assert_eq!((received, shortfall), (0, Shortfall::Gone));
    assert!(text.contains("it is not here"), "{text}");

    let bytes = content();
    first.want();
    first.append(&bytes, 0);
    assert_eq!(first.fetched(), 0);
    second.want();
    second.append(&bytes[..1_000_000], 0);
    third.fetch(second.depot.port());
    while third.store.progress(name().digest).expect("wanted").received < 1_000_000 {
        std::thread::yield_now();
    }
    drop(second);
    let (received, shortfall, _) = third.lacks();
    assert_eq!((received, shortfall), (1_000_000, Shortfall::Gone));
    third.fetch(first.depot.port());
    assert_eq!(third.fetched(), SIZE as u64, "no byte twice");
}

#[test]
fn who_is_told_to_cease_says_what_it_has() {
    let identity = identity();
    let [first, second] = [node(&identity), node(&identity)];
    first.want();
    second.want();
    second.fetch(first.depot.port());
    second.depot.order(Order::Fetch(name(), String::new()));
    assert_eq!(second.lacks().1, Shortfall::None);
}

#[test]
fn nobody_gives_to_a_stranger_or_takes_from_one() {
    let [first, second] = [node(&identity()), node(&identity())];
    first.want();
    second.want();
    second.fetch(first.depot.port());
    let (received, shortfall, _) = second.lacks();
    assert_eq!((received, shortfall), (0, Shortfall::Gone));
    second.fetch(1);
    assert_eq!(second.lacks().1, Shortfall::Gone);
}

/// Takes one connection, and gives this as all of the blob, in pieces of as many bytes.
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
        // Until the other end has had enough.
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
        if let Progress::Done(channel) = handshake.progress(0).expect("the keys fit") {
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
    assert!(matches!(second.store.want(name()), Ok(Want::Coming(_))), "nobody gets it");
    second.fetch(first.depot.port());
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
    assert!(text.contains("it gave other bytes"), "{text}");
}

#[test]
fn nobody_is_called_for_a_blob_that_nobody_waits_for() {
    let node = node(&identity());
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    stranger.set_nonblocking(true).expect("a socket");
    node.fetch(stranger.local_addr().expect("it is bound").port());
    // What is ordered later is done later.
    node.want();
    node.depot.order(Order::Fetch(name(), String::new()));
    assert_eq!(node.lacks().1, Shortfall::None);
    assert!(stranger.accept().is_err(), "somebody was called");
}
