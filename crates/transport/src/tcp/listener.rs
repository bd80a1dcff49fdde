//! The listening side.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::address;
use super::handshake::Handshake;
use crate::error::ChannelError;
use crate::identity::Identity;

/// The largest number of handshakes in progress at one listener. It bounds the memory that unauthenticated peers can make the
/// listener use: at most about 80 KiB each. Further connections wait in the kernel's queue.
pub const HANDSHAKE_COUNT_MAX: usize = 256;
/// The largest number of these with one host, so that it cannot keep all others out. Further connections of the host wait: all
/// nodes of a cluster may have one address, or addresses of one network.
pub const HOST_HANDSHAKE_COUNT_MAX: usize = HANDSHAKE_COUNT_MAX / 2;
/// The largest number of connections that wait because their hosts have that many handshakes. Each takes a descriptor. Further
/// ones are closed, and their agents try again later.
const WAITING_COUNT_MAX: usize = 1024;

/// The length of the kernel's queue of connections, which the system may reduce: all nodes of a large job may connect at once.
const QUEUE_COUNT_MAX: i32 = 4096;

/// A socket that accepts connections at an address.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    identity: Identity,
    /// The host of each handshake in progress, and the permit that the handshake holds.
    permits: Mutex<Vec<(IpAddr, Weak<()>)>>,
    /// Connections that wait for a handshake of their host to end, the oldest first.
    waiting: Mutex<VecDeque<(TcpStream, SocketAddr)>>,
    waiting_max: usize,
}

/// The result of a check of the listener's queue.
#[derive(Debug)]
#[must_use]
pub enum Accepted {
    /// A peer has connected and must now prove its key.
    Peer(Handshake),
    /// No connection waits.
    Nothing,
    /// [`HANDSHAKE_COUNT_MAX`] handshakes are in progress. The descriptor may stay readable, so the caller should not watch it
    /// until one of them has ended.
    Full,
}

impl Listener {
    /// Listens at an address; port 0 means any free port. `[::]` is any address of the machine: it accepts IPv4 as well, and is
    /// `0.0.0.0` on a machine without IPv6.
    ///
    /// # Errors
    /// The address is not one of this machine, or is in use (it may be free later).
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Self, ChannelError> {
        let deaf = |source| ChannelError::Deaf { address: address.to_string(), source };
        let socket = address::listen(address, QUEUE_COUNT_MAX).map_err(deaf)?;
        let address = socket.local_addr().map_err(deaf)?;
        let (permits, waiting) = (Mutex::default(), Mutex::default());
        Ok(Self { socket, address, identity, permits, waiting, waiting_max: WAITING_COUNT_MAX })
    }

    /// Listens at the first of these addresses of a host that is one of this machine and free.
    ///
    /// # Errors
    /// There is none; the error is that of the last one.
    pub fn bind_first(addresses: &[SocketAddr], identity: &Identity) -> Result<Self, ChannelError> {
        let mut error = io::ErrorKind::InvalidInput.into();
        let mut tried = String::new();
        for &address in addresses {
            match Self::bind(address, identity.clone()) {
                Ok(listener) => return Ok(listener),
                Err(ChannelError::Deaf { address, source }) => (tried, error) = (address, source),
                Err(other) => return Err(other),
            }
        }
        Err(ChannelError::Deaf { address: tried, source: error })
    }

    /// Returns the listening address, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the descriptor to watch for readability.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the number of handshakes in progress.
    #[must_use]
    pub fn handshake_count(&self) -> usize {
        self.held_permits().len()
    }

    /// Returns the permits of the handshakes in progress.
    fn held_permits(&self) -> MutexGuard<'_, Vec<(IpAddr, Weak<()>)>> {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        permits.retain(|(_, permit)| permit.strong_count() > 0);
        permits
    }

    /// Accepts the next connection. Its handshake must end before the deadline, a time of the caller's monotonic clock, ns.
    ///
    /// # Errors
    /// [`ChannelError::Deaf`]: the system refuses, for example because too many descriptors are open; a later call may succeed.
    /// Any other error concerns only this connection.
    pub fn accept(&self, deadline_ns: u64) -> Result<Accepted, ChannelError> {
        let mut permits = self.held_permits();
        if permits.len() >= HANDSHAKE_COUNT_MAX {
            return Ok(Accepted::Full);
        }
        let crowded = crowded_hosts(&permits);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let next = waiting.iter().position(|(_, peer)| !crowded.contains(&host_of(peer.ip())));
        if let Some(connection) = next.and_then(|place| waiting.remove(place)) {
            return self.begin(connection, &mut permits, deadline_ns);
        }
        // As many as can wait: a host that connects again and again must not keep the caller here.
        for _ in 0..QUEUE_COUNT_MAX {
            let connection = match self.next() {
                Ok(connection) => connection,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(source) => {
                    return Err(ChannelError::Deaf { address: self.address.to_string(), source });
                }
            };
            if !crowded.contains(&host_of(connection.1.ip())) {
                return self.begin(connection, &mut permits, deadline_ns);
            }
            if waiting.len() < self.waiting_max {
                waiting.push_back(connection);
            }
        }
        Ok(Accepted::Nothing)
    }

    /// Begins the handshake of a connection.
    fn begin(
        &self,
        connection: (TcpStream, SocketAddr),
        permits: &mut Vec<(IpAddr, Weak<()>)>,
        deadline_ns: u64,
    ) -> Result<Accepted, ChannelError> {
        let permit = Arc::new(());
        permits.push((host_of(connection.1.ip()), Arc::downgrade(&permit)));
        let limits = (permit, deadline_ns);
        Ok(Accepted::Peer(Handshake::accepted(&self.identity, connection, limits)?))
    }

    /// Accepts the next connection, and skips those whose peers left while they waited.
    fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            match self.socket.accept() {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                // A socket for both families shows IPv4 peers with IPv4-mapped addresses.
                accepted => {
                    return accepted.map(|(socket, peer)| (socket, address::canonical(peer)));
                }
            }
        }
    }
}

/// Returns the hosts that have as many handshakes in progress as one may have.
fn crowded_hosts(permits: &[(IpAddr, Weak<()>)]) -> Vec<IpAddr> {
    let mut counts = HashMap::new();
    for (host, _) in permits {
        *counts.entry(*host).or_insert(0) += 1;
    }
    counts.retain(|_, count: &mut usize| *count >= HOST_HANDSHAKE_COUNT_MAX);
    counts.into_keys().collect()
}

/// Returns the address that stands for all addresses of a host: of IPv6, hosts have whole networks of 64 bits.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::keys::FleetKeys;

    fn identity() -> Identity {
        Identity::of_client(&FleetKeys::generate().expect("random numbers").client)
    }

    #[test]
    fn a_peer_of_ipv4_has_an_address_of_ipv4_at_a_socket_for_both_families() {
        let any = "[::]:0".parse().expect("an address");
        let listener = Listener::bind(any, identity()).expect("a port");
        let there = format!("127.0.0.1:{}", listener.address().port());
        let peer = TcpStream::connect(there).expect("it listens");
        let accepted = loop {
            match listener.accept(u64::MAX).expect("it may accept") {
                Accepted::Peer(handshake) => break handshake,
                Accepted::Nothing | Accepted::Full => std::thread::yield_now(),
            }
        };
        assert_eq!(accepted.peer(), peer.local_addr().expect("it is connected").to_string());
    }

    #[test]
    fn the_first_address_that_is_of_this_machine_is_listened_at() {
        // An address of the documentation network (RFC 5737), which no machine has.
        let [elsewhere, here] = ["192.0.2.1:0", "127.0.0.1:0"].map(|text| text.parse().unwrap());
        let listener = Listener::bind_first(&[elsewhere, here], &identity()).expect("a port");
        assert!(listener.address().ip().is_loopback());
        let error = Listener::bind_first(&[elsewhere], &identity()).expect_err("it is elsewhere");
        assert!(error.to_string().starts_with("cannot listen at 192.0.2.1:0: "), "{error}");
    }

    #[test]
    fn no_more_connections_wait_than_may() {
        let here = "127.0.0.1:0".parse().expect("an address");
        let mut listener = Listener::bind(here, identity()).expect("a port");
        listener.waiting_max = 1;
        let connect = || TcpStream::connect(listener.address()).expect("it listens");
        let mut held: Vec<_> = (0..HOST_HANDSHAKE_COUNT_MAX)
            .map(|_| (connect(), listener.accept(u64::MAX).expect("it may accept")))
            .collect();
        let (waits, mut closed) = (connect(), connect());
        assert!(matches!(listener.accept(u64::MAX), Ok(Accepted::Nothing)));
        assert_eq!(closed.read(&mut [0]).expect("it is closed in order"), 0);
        held.pop();
        let Ok(Accepted::Peer(next)) = listener.accept(u64::MAX) else { panic!("one waits") };
        assert_eq!(next.peer(), waits.local_addr().expect("it is connected").to_string());
    }

    #[test]
    fn all_addresses_of_a_network_stand_for_one_host() {
        let host = |text: &str| host_of(text.parse().expect("an address"));
        assert_eq!(host("::ffff:10.0.0.1"), host("10.0.0.1"));
        assert_ne!(host("10.0.0.2"), host("10.0.0.1"));
        assert_eq!(host("2001:db8::1"), host("2001:db8::ffff:0:0:9"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
    }
}
