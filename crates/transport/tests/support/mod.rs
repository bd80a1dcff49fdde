//! Pairs of connected ends, of every kind of channel.
#![expect(dead_code, reason = "each test file uses a part of it")]

pub mod hostile;

use gristmill_transport::{
    Accepted, Channel, ChannelError, ChunkHead, Connector, FleetKeys, Flushed, Handshake,
    HandshakeProgress, Identity, InprocChannel, Listener, TcpChannel, pair,
};

/// A deadline that no test reaches, because the clock of the tests stays at 0.
pub const NEVER_NS: u64 = u64::MAX;

/// A kind of channel.
pub trait Kind {
    /// One end of the channel.
    type End: Channel + Send + 'static;
    /// Connects a client's end and a node's end.
    fn pair() -> (Self::End, Self::End);
}

/// TCP, where the client connects to a node that listens.
pub struct NodeListens;
/// TCP, where a node connects to the client that listens.
pub struct ClientListens;
/// Both ends within one process.
pub struct Inproc;

impl Kind for NodeListens {
    type End = TcpChannel;
    fn pair() -> (TcpChannel, TcpChannel) {
        let (client, node) = identities();
        connect(client, node)
    }
}

impl Kind for ClientListens {
    type End = TcpChannel;
    fn pair() -> (TcpChannel, TcpChannel) {
        let (client, node) = identities();
        let (node, client) = connect(node, client);
        (client, node)
    }
}

impl Kind for Inproc {
    type End = InprocChannel;
    fn pair() -> (InprocChannel, InprocChannel) {
        pair().expect("there are descriptors")
    }
}

/// Returns the identities of the client and of a node of a new fleet.
pub fn identities() -> (Identity, Identity) {
    let fleet = FleetKeys::generate().expect("there is randomness");
    (Identity::of_client(&fleet.client), Identity::of_node(&fleet.node))
}

/// Creates a listener on a free port of this machine.
pub fn listen(identity: Identity) -> Listener {
    let address = "127.0.0.1:0".parse().expect("an address");
    Listener::bind(address, identity).expect("a port is free")
}

/// Waits for the next connection of a listener.
pub fn accept(listener: &Listener, deadline_ns: u64) -> Handshake {
    loop {
        match listener.accept(deadline_ns).expect("it can be accepted") {
            Accepted::Peer(handshake) => return handshake,
            Accepted::Nothing => std::thread::yield_now(),
            Accepted::Full => panic!("too many handshakes"),
        }
    }
}

/// The outcome of one end's handshake.
pub type Outcome = Result<TcpChannel, ChannelError>;

/// Drives both ends of a connection until each has ended.
pub fn meet(connecting: Identity, listening: Identity) -> (Outcome, Outcome) {
    let listener = listen(listening);
    let connector = Connector::new(connecting);
    let mut out = connector.connect(listener.address(), NEVER_NS).expect("there is a way");
    let mut into = accept(&listener, NEVER_NS);
    let (mut one, mut other) = (None, None);
    while one.is_none() || other.is_none() {
        if one.is_none() {
            one = step(&mut out);
        }
        if other.is_none() {
            other = step(&mut into);
        }
    }
    (one.expect("it has ended"), other.expect("it has ended"))
}

/// Drives a handshake until it has ended.
pub fn finish(handshake: &mut Handshake) -> Outcome {
    loop {
        if let Some(outcome) = step(handshake) {
            return outcome;
        }
        std::thread::yield_now();
    }
}

fn step(handshake: &mut Handshake) -> Option<Outcome> {
    match handshake.progress(0) {
        Ok(HandshakeProgress::Pending) => None,
        Ok(HandshakeProgress::Done(channel)) => Some(Ok(channel)),
        Err(error) => Some(Err(error)),
    }
}

/// Connects two ends that trust each other: the connecting one, the listening one.
pub fn connect(connecting: Identity, listening: Identity) -> (TcpChannel, TcpChannel) {
    let (one, other) = meet(connecting, listening);
    (one.expect("the keys fit"), other.expect("the keys fit"))
}

/// Returns a head with a number.
pub fn head(sequence: u64) -> ChunkHead {
    ChunkHead { kind: 1, sequence, acknowledged: 0 }
}

/// Flushes until the system has taken everything, while the other end reads nothing.
pub fn flush(channel: &mut impl Channel) {
    while channel.flush().expect("the connection lives") == Flushed::Some {}
}

/// Polls until a chunk has come.
pub fn receive(channel: &mut impl Channel) -> (ChunkHead, Vec<u8>) {
    let mut body = Vec::new();
    loop {
        if let Some(head) = channel.receive(&mut body).expect("the connection lives") {
            return (head, body);
        }
    }
}

/// Polls until the connection has ended, and drops all chunks that come before.
pub fn end_of(channel: &mut impl Channel) -> ChannelError {
    let mut body = Vec::new();
    loop {
        if let Err(error) = channel.receive(&mut body) {
            return error;
        }
    }
}
