//! Establishment of connections: a listening address at which others join, addresses that are dialled, and the handshakes under
//! way.
//!
//! The server sleeps, accepts, dials and advances handshakes; its host decides what is said in them. It dials an address again,
//! with growing pauses, until a handshake there has succeeded or never can.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use gristmill_transport::{
    Accepted, ChannelError, Connector, HANDSHAKE_COUNT_MAX, Handshake, Identity, Interest,
    Listener, Sleeper, Waker,
};
use gristmill_wire::peer::{Greeting, MessageKind};

use super::dials::Dials;
use super::handshake::{HandshakeChannel, HandshakeEvent, PeerHandshake};
use super::handshake_failure::HandshakeFailure;
use super::names::{Names, NextAddress};

/// Time limit of a handshake, from the first packet to the lease, nanoseconds.
const MEETING_NS: u64 = 10_000_000_000;
/// Maximum number of connections of others that have no lease yet, with those that have proved their identity. Each may hold a
/// part of a message.
const JOINING_MAX: usize = HANDSHAKE_COUNT_MAX;
/// Longest sleep, nanoseconds.
const SLEEP_MAX_NS: u64 = 1_000_000_000;
/// Token of the listener; handshakes have numbers that count from 0.
const LISTENER: u64 = u64::MAX - 1;

/// A handshake, and what the other end has said in it.
#[derive(Debug)]
pub struct PendingHandshake<M = PeerHandshake> {
    /// The connection.
    pub handshake: M,
    /// Index of the address that was dialled; `None` if the other end dialled.
    pub dial: Option<usize>,
    /// The lease that is requested or resumed; 0 if there is none yet.
    pub lease: u64,
    /// Greeting of the other end.
    pub theirs: Option<Greeting>,
}

impl<M: HandshakeChannel> PendingHandshake<M> {
    /// Returns the other end's name, or its address if it has not said a name.
    #[must_use]
    pub fn name(&self) -> &str {
        let said = self.theirs.as_ref().map(|theirs| theirs.name.as_str());
        said.filter(|name| !name.is_empty()).unwrap_or_else(|| self.handshake.peer())
    }
}

/// Next step of a handshake.
#[derive(Debug)]
pub enum HandshakeNext<M = PeerHandshake> {
    /// The handshake goes on.
    On(Box<PendingHandshake<M>>),
    /// The handshake is complete, and its connection belongs to its new owner.
    Done,
    /// The handshake has failed.
    Failed(Box<PendingHandshake<M>>, HandshakeFailure),
}

/// Owner of handshakes, which decides what is said in them.
pub trait Host<M = PeerHandshake> {
    /// Handles an end that has proved its identity.
    fn open(&mut self, pending: &mut PendingHandshake<M>);

    /// Handles a message of the other end that came at `now`.
    fn said(
        &mut self,
        pending: PendingHandshake<M>,
        said: (MessageKind, &[u8]),
        now: u64,
    ) -> HandshakeNext<M>;

    /// Handles the end of the failures at a host that was dialled, which has answered; `whom` is its first address.
    fn answered(&mut self, _whom: &str) {}

    /// Handles the failure of a handshake, or of an attempt to start one. `whom` is the name of the other end, or the first
    /// address of the host if it was dialled, else its address; `dial` is the index of the host if it was dialled.
    fn failed(&mut self, whom: &str, dial: Option<usize>, failure: &HandshakeFailure, now: u64);
}

/// Server that establishes connections.
#[derive(Debug)]
pub struct HandshakeServer {
    connector: Connector,
    listener: Option<Listener>,
    sleeper: Sleeper,
    handshakes: HashMap<u64, PendingHandshake>,
    next_token: u64,
    /// The hosts that are dialled.
    pub dials: Dials,
    names: Names,
    /// True if as many connections have no lease yet as may have none.
    is_full: bool,
    /// Maximum number of these.
    joining_max: usize,
}

impl HandshakeServer {
    /// Creates a server that listens at the first possible address of `listen`, if there are any, and dials the hosts in
    /// `dial`, each of which has one or more texts `host:port`.
    ///
    /// # Errors
    /// Returns an error if no address can be listened at, or if the system has no descriptors left.
    pub fn new(
        identity: Identity,
        listen: &[SocketAddr],
        dial: &[Vec<String>],
    ) -> Result<Self, HandshakeServerError> {
        let listener = match listen {
            [] => None,
            addresses => Some(Listener::bind_first(addresses, &identity)?),
        };
        let sleeper = Sleeper::new()?;
        if let Some(listener) = &listener {
            sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable)?;
        }
        Ok(Self {
            connector: Connector::new(identity),
            listener,
            names: Names::new(dial, sleeper.waker()),
            sleeper,
            handshakes: HashMap::new(),
            next_token: 0,
            dials: Dials::new(dial),
            is_full: false,
            joining_max: JOINING_MAX,
        })
    }

    /// Returns the address at which others join, or `None` if they cannot.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    /// Returns the waker that ends a sleep.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    /// Accepts, dials and advances handshakes as much as possible without waiting.
    pub fn attend(&mut self, host: &mut impl Host, now: u64) {
        self.accept(host, now);
        self.dial(host, now);
        self.advance_handshakes(host, now);
    }

    /// Sleeps until there is something to do, but at most until `wake`.
    pub fn sleep(&self, now: u64, wake: u64) {
        let handshakes = self.handshakes.values().map(|pending| pending.handshake.deadline_ns());
        let wake = handshakes.min().unwrap_or(u64::MAX).min(self.dials.next_at()).min(wake);
        let limit = wake.clamp(now, now + SLEEP_MAX_NS) - now;
        // The next [`Self::attend`] checks everything and so finds what is ready.
        let _ = self.sleeper.sleep(&mut Vec::new(), Some(Duration::from_nanos(limit)));
    }

    /// Ends all handshakes and tells the other ends.
    pub fn close(&mut self) {
        self.handshakes.drain().for_each(|(_, pending)| pending.handshake.close());
    }

    fn accept(&mut self, host: &mut impl Host, now: u64) {
        if self.is_full {
            self.hear_listener(true);
        }
        while let Some(listener) = &self.listener {
            if self.joining_count() >= self.joining_max {
                return self.hear_listener(false);
            }
            match listener.accept(now + MEETING_NS) {
                Ok(Accepted::Peer(handshake)) => self.enter(handshake, None, 0, now),
                Ok(Accepted::Nothing) => return,
                // Until one of the handshakes is over, no further connection can be accepted.
                Ok(Accepted::Full) => return self.hear_listener(false),
                Err(error @ ChannelError::Deaf { .. }) => {
                    let failure = HandshakeFailure::passing(error.to_string());
                    return host.failed("the address at which agents join", None, &failure, now);
                }
                Err(error) => {
                    host.failed(
                        "an agent that joins",
                        None,
                        &HandshakeFailure::passing(error.to_string()),
                        now,
                    );
                }
            }
        }
    }

    /// Returns the number of connections that others made and that have no lease yet.
    fn joining_count(&self) -> usize {
        self.handshakes.values().filter(|pending| pending.dial.is_none()).count()
    }

    /// Starts or stops watching the address at which others join.
    fn hear_listener(&mut self, hears: bool) {
        let Some(listener) = &self.listener else { return };
        self.is_full = !hears;
        // An address that cannot be watched is checked with everything else, a second later at most.
        let _ = if hears {
            self.sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable)
        } else {
            self.sleeper.unwatch(listener.descriptor())
        };
    }

    fn dial(&mut self, host: &mut impl Host, now: u64) {
        for (dial, found) in self.names.results() {
            match found {
                Ok(()) => self.dials.try_now(dial, now),
                Err(error) => self.dial_failed(dial, &error, host, now),
            }
        }
        while let Some((dial, lease)) = self.dials.next_due(now) {
            let address = self.names.next(dial);
            // The dial goes on when the name was looked up.
            let Some(address) = address else { continue };
            match self.connector.connect(address, now + MEETING_NS) {
                Ok(handshake) => self.enter(handshake, Some(dial), lease, now),
                Err(error) => self.dial_failed(dial, &error, host, now),
            }
        }
    }

    fn dial_failed(&mut self, dial: usize, error: &ChannelError, host: &mut impl Host, now: u64) {
        let failure = HandshakeFailure::of_channel(error, true);
        let failure = self.failed_at(dial, &failure, now);
        host.failed(self.dials.address(dial), Some(dial), &failure, now);
    }

    /// Handles a failure at an address: another address of the host is dialled at once, if there is one. A failure is final
    /// only if no address of the host is left, and there is no next dial then. Returns the failure of the host.
    fn failed_at(&mut self, dial: usize, failure: &HandshakeFailure, now: u64) -> HandshakeFailure {
        match self.names.failed(dial, failure) {
            NextAddress::Another(text) => {
                self.dials.try_now(dial, now);
                HandshakeFailure::passing(text)
            }
            NextAddress::Exhausted(failure) => {
                self.dials.failed(dial, &failure, now);
                failure
            }
        }
    }

    fn enter(&mut self, handshake: Handshake, dial: Option<usize>, lease: u64, now: u64) {
        let handshake = PeerHandshake::new(handshake, dial.is_some(), now + MEETING_NS);
        let pending = PendingHandshake { handshake, dial, lease, theirs: None };
        let token = self.next_token;
        self.next_token += 1;
        self.watch(token, &pending.handshake);
        self.handshakes.insert(token, pending);
    }

    fn watch(&self, token: u64, handshake: &PeerHandshake) {
        if let Some(descriptor) = handshake.descriptor() {
            // A connection that cannot be watched ends at its deadline.
            let _ = self.sleeper.watch(descriptor, token, handshake.interest());
        }
    }

    fn advance_handshakes(&mut self, host: &mut impl Host, now: u64) {
        let tokens: Vec<u64> = self.handshakes.keys().copied().collect();
        for token in tokens {
            let Some(pending) = self.handshakes.remove(&token) else { continue };
            if let Some(pending) = self.go_on(pending, host, now) {
                self.watch(token, &pending.handshake);
                self.handshakes.insert(token, pending);
            }
        }
    }

    /// Advances one handshake; returns it while it waits.
    fn go_on(
        &mut self,
        mut pending: PendingHandshake,
        host: &mut impl Host,
        now: u64,
    ) -> Option<PendingHandshake> {
        let dial = pending.dial;
        loop {
            let next = match pending.handshake.progress(now) {
                HandshakeEvent::Waiting => return Some(pending),
                HandshakeEvent::Open => {
                    host.open(&mut pending);
                    continue;
                }
                HandshakeEvent::Said(kind, body) => {
                    self.unwatch(&pending.handshake);
                    host.said(pending, (kind, &body), now)
                }
                HandshakeEvent::Failed(failure) => {
                    HandshakeNext::Failed(Box::new(pending), failure)
                }
            };
            match next {
                HandshakeNext::On(going_on) => pending = *going_on,
                HandshakeNext::Done => {
                    self.dials.met(dial);
                    if let Some(dial) = dial {
                        self.names.met(dial);
                        host.answered(self.dials.address(dial));
                    }
                    return None;
                }
                HandshakeNext::Failed(pending, failure) => {
                    self.note_failed(&pending, &failure, host, now);
                    return None;
                }
            }
        }
    }

    /// Handles a handshake that has failed.
    fn note_failed(
        &mut self,
        pending: &PendingHandshake,
        failure: &HandshakeFailure,
        host: &mut impl Host,
        now: u64,
    ) {
        let Some(dial) = pending.dial else {
            return host.failed(pending.name(), None, failure, now);
        };
        if pending.theirs.is_some() || (failure.is_final && pending.handshake.is_known()) {
            // It is the right host, and its other addresses lead to the same program.
            self.dials.failed(dial, failure, now);
            return host.failed(pending.name(), Some(dial), failure, now);
        }
        let failure = self.failed_at(dial, failure, now);
        host.failed(self.dials.address(dial), Some(dial), &failure, now);
    }

    /// Stops watching a handshake's connection: the owner of the link watches a connection that becomes one.
    fn unwatch(&self, handshake: &PeerHandshake) {
        if let Some(descriptor) = handshake.descriptor() {
            let _ = self.sleeper.unwatch(descriptor);
        }
    }
}

/// Failure to start a handshake server or its thread.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeServerError {
    /// The address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ChannelError),
    /// The worker environment is too large for a request.
    #[error(
        "nodes take no request of {size} bytes, and the limit is {limit}: the environment of the workers is too large; let the \
         initializer read large data from files, not from its arguments or from variables that it captures"
    )]
    LargeEnvironment {
        /// Size of the request, bytes.
        size: usize,
        /// Maximum size, bytes.
        limit: usize,
    },
    /// The system has no random numbers, descriptors or threads left.
    #[error("the thread or the descriptors for connections cannot be created: {0}")]
    System(#[from] std::io::Error),
}

impl HandshakeServerError {
    /// Returns the code that the exception in Python has.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Listen(_) => "listen_failed",
            Self::LargeEnvironment { .. } => "environment_too_large",
            Self::System(_) => "connections_failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
    use std::sync::Arc;

    use gristmill_transport::{Channel as _, ChunkHead, FleetKeys, HandshakeProgress, Listener};
    use gristmill_wire::peer::Control;

    use super::*;

    /// A host to which no node comes, or which says nothing to those that come and counts them.
    #[derive(Default)]
    struct NoHost {
        opened: usize,
        /// True if it never wants a node that says something.
        is_final: bool,
    }

    impl Host for NoHost {
        fn open(&mut self, _: &mut PendingHandshake) {
            self.opened += 1;
        }

        fn said(
            &mut self,
            pending: PendingHandshake,
            _: (MessageKind, &[u8]),
            _: u64,
        ) -> HandshakeNext {
            let failure = HandshakeFailure { text: String::new(), is_final: self.is_final };
            HandshakeNext::Failed(Box::new(pending), failure)
        }

        fn failed(&mut self, _: &str, _: Option<usize>, _: &HandshakeFailure, _: u64) {}
    }

    /// Returns a server that dials one host, whose name leads to these addresses.
    fn server(addresses: &[SocketAddr]) -> HandshakeServer {
        server_of(&FleetKeys::generate().expect("random numbers"), addresses)
    }

    fn server_of(fleet: &FleetKeys, addresses: &[SocketAddr]) -> HandshakeServer {
        let identity = Identity::of_client(&fleet.client);
        let dial = [vec!["node:1".to_owned()]];
        let mut server = HandshakeServer::new(identity, &[], &dial).expect("descriptors");
        let (waker, addresses) = (server.sleeper.waker(), addresses.to_vec());
        server.names = Names::with(&dial, waker, Arc::new(move |_: &str| Ok(addresses.clone())));
        server
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it can be");
        let address = listener.local_addr().expect("it is bound");
        (listener, address)
    }

    /// Lets the server work until a connection comes.
    fn wait_for(listener: &TcpListener, server: &mut HandshakeServer) -> TcpStream {
        let mut now = 1;
        loop {
            if let Ok((connection, _)) = listener.accept() {
                return connection;
            }
            server.attend(&mut NoHost::default(), now);
            now = server.dials.next_at().clamp(now, now + SLEEP_MAX_NS);
            server.sleep(now, now + 1_000_000);
        }
    }

    #[test]
    fn a_name_is_dialled_where_a_process_listens() {
        let (listener, there) = listener();
        let deaf = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), there.port());
        let _ = wait_for(&listener, &mut server(&[deaf, there]));
    }

    #[test]
    fn another_address_is_dialled_after_one_where_another_program_listens() {
        let ((stranger, first), (listener, second)) = (listener(), listener());
        let mut server = server(&[first, second]);
        let mut connection = wait_for(&stranger, &mut server);
        connection.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").expect("it is open");
        let _ = wait_for(&listener, &mut server);
        assert_eq!(server.dials.next_at(), u64::MAX, "without a pause");
    }

    #[test]
    fn a_host_that_has_proved_its_key_is_given_up_without_a_try_of_its_other_addresses() {
        let fleet = FleetKeys::generate().expect("random numbers");
        let here = "127.0.0.1:0".parse().expect("an address");
        let node = Listener::bind(here, Identity::of_node(&fleet.node)).expect("a port");
        let (other, second) = listener();
        let mut server = server_of(&fleet, &[node.address(), second]);
        let mut host = NoHost { is_final: true, ..NoHost::default() };
        let (mut handshake, mut channel) = (None, None);
        while !server.dials.are_given_up() {
            server.attend(&mut host, 1);
            if let Ok(Accepted::Peer(accepted)) = node.accept(u64::MAX) {
                handshake = Some(accepted);
            }
            let progress = handshake.as_mut().map(|one| one.progress(1).expect("it is its client"));
            if let Some(HandshakeProgress::Done(open)) = progress {
                handshake = None;
                let said = channel.insert(open);
                let mut message = Vec::new();
                Control::Recalled.write(&mut message);
                said.send(ChunkHead::default(), &message).expect("it is open");
                let _ = said.flush().expect("it is open");
            }
            assert!(other.accept().is_err(), "the other address is not dialled");
            server.sleep(1, 1_000_000);
        }
        assert_eq!(host.opened, 1);
    }

    #[test]
    fn proved_connections_without_a_lease_are_bounded() {
        let fleet = FleetKeys::generate().expect("random numbers");
        let listen = "127.0.0.1:0".parse().expect("an address");
        let mut server = HandshakeServer::new(Identity::of_client(&fleet.client), &[listen], &[])
            .expect("a port");
        server.joining_max = 2;
        let address = server.address().expect("it listens");
        let connector = Connector::new(Identity::of_node(&fleet.node));
        let mut host = NoHost::default();
        let mut nodes: Vec<_> =
            (0..3).map(|_| connector.connect(address, u64::MAX).expect("a way")).collect();
        let mut channels = Vec::new();
        // Runs until so many nodes have proved their identity. They hear nothing and wait.
        let mut run = |server: &mut HandshakeServer, count, now| {
            while host.opened < count {
                server.attend(&mut host, now);
                let mut place = 0;
                while place < nodes.len() {
                    match nodes[place].progress(0).expect("the server waits") {
                        HandshakeProgress::Pending => place += 1,
                        HandshakeProgress::Done(channel) => {
                            nodes.remove(place);
                            channels.push(channel);
                        }
                    }
                }
                server.sleep(now, now + 1_000_000);
            }
            server.attend(&mut host, now);
            host.opened
        };
        assert_eq!((run(&mut server, 2, 1), server.joining_count()), (2, 2), "the third waits");
        assert_eq!(
            run(&mut server, 3, 1 + MEETING_NS),
            3,
            "it is accepted once the others are over"
        );
        assert_eq!(server.joining_count(), 1);
    }
}
