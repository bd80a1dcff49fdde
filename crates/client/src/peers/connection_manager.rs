//! Connection manager, which brings nodes to a client.
//!
//! Its own thread performs handshakes with the nodes that connect to its listening address and with those that it dials. The
//! lease negotiator decides what is said to them. The client receives the agreed links, which the connection manager does not
//! touch. When no more nodes can come, the connection manager tells the client that nothing will run.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_sync::clock::monotonic_ns;
use gristmill_sync::random::Random;
use gristmill_transport::{CHUNK_SIZE_MAX, ClientKey, Identity, Waker};

use gristmill_wire::peer::LeaseRequest;

use super::handshake_server::{HandshakeServer, HandshakeServerError};
use super::intake::{Departure, PeerEvent};
use super::lease_negotiator::{LeaseNegotiator, LeaseTerms};
use super::link::LinkSizes;
use crate::client::Client;

/// Callback for a node's events, which receives the node's name and a text. The connection manager's thread calls it.
pub type NodeEventCallback = Box<dyn Fn(&str, &str) + Send>;

/// Options of a connection manager.
pub struct ConnectionManagerOptions {
    /// The client's key of its fleet.
    pub key: ClientKey,
    /// Addresses at which nodes may join, of which the first possible one is used; port 0 is any. Empty if nodes do not join.
    pub listen: Vec<SocketAddr>,
    /// Addresses of nodes that listen themselves, as `host:port`.
    pub dial: Vec<String>,
    /// Lease request that every node receives; the lease's number is filled in.
    pub request: LeaseRequest,
    /// Version of this interpreter, as in `3.11`.
    pub python: String,
    /// Version of this engine.
    pub engine: String,
    /// Name of this program, for messages.
    pub name: String,
    /// Time after which no node is wanted any more, monotonic nanoseconds; `u64::MAX` if it is not known.
    pub ends_at_ns: u64,
    /// Maximum number of nodes; `None` if it is not known.
    pub nodes_max: Option<usize>,
    /// Callback for each node that has failed for good, which receives the node's name and the reason.
    pub on_event: NodeEventCallback,
}

/// A node that is gone for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepartedNode {
    /// Name of the node.
    pub name: String,
    /// Reason why it is gone.
    pub text: String,
    /// True if the node said that it ends; false if it was lost.
    pub has_ended: bool,
}

impl DepartedNode {
    const fn size(&self) -> usize {
        self.name.len() + self.text.len()
    }
}

/// Number of departures that are kept for queries, and bytes of their names and reasons; older ones are forgotten.
const DEPARTURES_MAX: usize = 1000;
const DEPARTURES_SIZE_MAX: usize = 1 << 20;

/// Maximum size of a lease request, bytes. The rest of the chunk is for what is sent with it.
const REQUEST_MAX: usize = CHUNK_SIZE_MAX - (1 << 20);

/// State that the connection manager's thread shares with other threads.
#[derive(Debug)]
struct SharedState {
    /// Last failure of each address or name.
    last_failures: Vec<(String, String)>,
    departures: VecDeque<DepartedNode>,
    /// Bytes of their names and reasons.
    departures_size: usize,
    /// Number of departures before these.
    forgotten: usize,
    is_closing: bool,
    /// Time after which no node is wanted any more, monotonic nanoseconds.
    ends_at_ns: u64,
}

/// Handle to a client's connection manager, whose thread runs until the handle is closed or dropped.
#[derive(Debug)]
pub struct ConnectionManager {
    /// Address at which nodes join; `None` if they cannot.
    pub address: Option<SocketAddr>,
    shared: Arc<Mutex<SharedState>>,
    waker: Waker,
}

impl SharedState {
    fn note(&mut self, event: &PeerEvent) {
        let PeerEvent::Gone { name, text, how, .. } = event else { return };
        let (name, text) = (name.to_string(), text.clone());
        let has_ended = *how != Departure::Lost;
        let departed = DepartedNode { name, text, has_ended };
        self.departures_size += departed.size();
        self.departures.push_back(departed);
        while self.departures.len() > DEPARTURES_MAX || self.departures_size > DEPARTURES_SIZE_MAX {
            let Some(oldest) = self.departures.pop_front() else { return };
            self.departures_size -= oldest.size();
            self.forgotten += 1;
        }
    }
}

fn lock(shared: &Mutex<SharedState>) -> MutexGuard<'_, SharedState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that a request fits into the one chunk that it is sent in, with the greeting.
fn check_request(request: &LeaseRequest) -> Result<(), HandshakeServerError> {
    let (size, limit) = (request.program.len() + request.worker_environment.len(), REQUEST_MAX);
    if size > limit {
        return Err(HandshakeServerError::LargeEnvironment { size, limit });
    }
    Ok(())
}

impl ConnectionManager {
    /// Starts the connection manager of a client that has [`crate::LinkUse::Outwards`].
    ///
    /// # Errors
    /// Returns [`HandshakeServerError`] if the address cannot be listened at, if the worker environment is too large for a
    /// request, or if the system has no random numbers, descriptors or threads.
    pub fn open(
        client: &Arc<Client>,
        options: ConnectionManagerOptions,
    ) -> Result<Self, HandshakeServerError> {
        check_request(&options.request)?;
        let identity = Identity::of_client(&options.key);
        let dial: Vec<_> = options.dial.iter().map(|address| vec![address.clone()]).collect();
        let server = HandshakeServer::new(identity, &options.listen, &dial)?;
        let ends_at_ns = options.ends_at_ns;
        let shared = SharedState {
            last_failures: Vec::new(),
            departures: VecDeque::new(),
            departures_size: 0,
            forgotten: 0,
            is_closing: false,
            ends_at_ns,
        };
        let shared = Arc::new(Mutex::new(shared));
        let manager =
            Self { address: server.address(), shared: Arc::clone(&shared), waker: server.waker() };
        client.set_connection_manager(server.waker());
        let ConnectionManagerOptions { request, python, engine, name, nodes_max, on_event, .. } =
            options;
        let message_max = LinkSizes::of_machine().message as u64;
        let terms =
            LeaseTerms { request, python, engine, name, ends_at_ns, nodes_max, message_max };
        let negotiator = LeaseNegotiator::new(Arc::clone(client), terms, Random::from_system()?);
        let client = Arc::clone(client);
        let builder = std::thread::Builder::new().name("gristmill-nodes".to_owned());
        builder.spawn(move || serve((negotiator, server), &client, &shared, &on_event))?;
        Ok(manager)
    }

    /// Returns the last failure of each node that is not connected.
    #[must_use]
    pub fn last_failures(&self) -> Vec<(String, String)> {
        lock(&self.shared).last_failures.clone()
    }

    /// Returns the number of nodes that have gone for good so far, and the departures after the first `known` ones.
    #[must_use]
    pub fn departures(&self, known: usize) -> (usize, Vec<DepartedNode>) {
        let shared = lock(&self.shared);
        let SharedState { departures, forgotten, .. } = &*shared;
        let new = departures.iter().skip(known.saturating_sub(*forgotten)).cloned().collect();
        (forgotten + departures.len(), new)
    }

    /// Sets the time until which nodes that come from now on are wanted, monotonic nanoseconds.
    pub fn set_end(&self, ends_at_ns: u64) {
        lock(&self.shared).ends_at_ns = ends_at_ns;
    }

    /// Stops admitting nodes and ends the connection manager's thread.
    pub fn close(&self) {
        lock(&self.shared).is_closing = true;
        self.waker.wake();
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        self.close();
    }
}

/// Runs the lease negotiator until the connection manager is closed or the client is over.
fn serve(
    (mut negotiator, mut server): (LeaseNegotiator<Arc<Client>>, HandshakeServer),
    client: &Arc<Client>,
    shared: &Mutex<SharedState>,
    on_event: &NodeEventCallback,
) {
    gristmill_sync::signals::block_all();
    while !lock(shared).is_closing && !client.is_over() {
        let now = monotonic_ns();
        negotiator.set_end(lock(shared).ends_at_ns);
        server.attend(&mut negotiator, now);
        for (dial, lease) in std::mem::take(&mut negotiator.kept) {
            server.dials.keep(dial, lease);
            // The end may have become known, or may have been moved, after the node was asked for the lease.
            let ends_at_ns = lock(shared).ends_at_ns;
            if let Some(peer) = negotiator.peer_of(lease).filter(|_| ends_at_ns != u64::MAX) {
                client.extend_peer(peer, ends_at_ns.saturating_sub(now));
            }
        }
        for event in client.take_events() {
            lock(shared).note(&event);
            if let Some((lease, redial)) = negotiator.hear(event, now) {
                server.dials.redial(lease, redial, now);
            }
        }
        negotiator.failures.drain(..).for_each(|(name, text)| on_event(&name, &text));
        if let Some(reason) = negotiator.verdict(now) {
            client.give_up_nodes(&reason);
        }
        if let Some(text) = client.failure() {
            // Nodes that come are told so, and need not try again.
            negotiator.close(&text);
            server.dials.give_all_up();
        }
        lock(shared).last_failures.clone_from(&negotiator.last_failures);
        server.sleep(now, u64::MAX);
    }
    // The last node may have left just now, which has ended the client.
    client.take_events().iter().for_each(|event| lock(shared).note(event));
    // A node that was asked for a lease may have granted it by now.
    server.close();
}

#[cfg(test)]
mod tests {
    use gristmill_wire::PeerId;

    use super::*;

    fn state() -> SharedState {
        SharedState {
            last_failures: Vec::new(),
            departures: VecDeque::new(),
            departures_size: 0,
            forgotten: 0,
            is_closing: false,
            ends_at_ns: u64::MAX,
        }
    }

    fn gone(name: &str, text: &str) -> PeerEvent {
        PeerEvent::Gone {
            peer: PeerId(0),
            name: name.into(),
            text: text.to_owned(),
            how: Departure::Lost,
            had_workers: true,
        }
    }

    #[test]
    fn departed_nodes_are_bounded_in_number_and_in_bytes() {
        let mut shared = state();
        for number in 0..3 * DEPARTURES_MAX {
            shared.note(&gone(&number.to_string(), "lost"));
        }
        assert_eq!(
            (shared.departures.len(), shared.forgotten),
            (DEPARTURES_MAX, 2 * DEPARTURES_MAX)
        );
        let text = "y".repeat(DEPARTURES_SIZE_MAX / 4);
        for _ in 0..10 {
            shared.note(&gone("one", &text));
        }
        assert_eq!(shared.departures.len(), 3, "a fourth one would be too much with its name");
        assert!(shared.departures_size <= DEPARTURES_SIZE_MAX);
        assert_eq!(shared.forgotten + shared.departures.len(), 3 * DEPARTURES_MAX + 10);
    }
}
