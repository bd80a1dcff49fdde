//! The side that is connected to.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::handshake::Handshake;
use crate::error::ChannelError;
use crate::identity::Identity;

/// Handshakes of one listener at a time: so many strangers can make it hold something, at most about 80 KiB each. More
/// wait in the kernel's queue.
pub const HANDSHAKE_COUNT_MAX: usize = 256;

/// Connections that wait in the kernel, as far as the system's own limit goes: all nodes of a large job may come at once.
const QUEUE_COUNT_MAX: i32 = 4096;

/// Takes connections at an address.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    identity: Identity,
    /// Each handshake in progress holds a clone.
    permit: Arc<()>,
}

/// What became of a look at the listener's queue.
#[derive(Debug)]
#[must_use]
pub enum Accepted {
    /// Somebody connected, and has to prove a key now.
    Peer(Handshake),
    /// Nobody waits.
    Nobody,
    /// [`HANDSHAKE_COUNT_MAX`] handshakes are in progress. The descriptor may be readable all the time: it should not be
    /// watched before one of them has ended.
    Full,
}

impl Listener {
    /// Listens at an address; port 0 is any free one. `[::]` takes IPv4 as well.
    ///
    /// # Errors
    /// The address is not one of this machine, or in use (it may be free later).
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Self, ChannelError> {
        let deaf = |source| ChannelError::Deaf { address: address.to_string(), source };
        let socket = TcpListener::bind(address).map_err(deaf)?;
        socket.set_nonblocking(true).map_err(deaf)?;
        // Once more, since the standard library keeps the queue short.
        rustix::net::listen(&socket, QUEUE_COUNT_MAX).map_err(|error| deaf(error.into()))?;
        let address = socket.local_addr().map_err(deaf)?;
        Ok(Self { socket, address, identity, permit: Arc::new(()) })
    }

    /// Where it listens, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to watch for readability.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Handshakes in progress.
    #[must_use]
    pub fn handshake_count(&self) -> usize {
        Arc::strong_count(&self.permit) - 1
    }

    /// Takes the next connection. Its handshake has to end before the deadline, a time of the caller's monotonic clock, ns.
    ///
    /// # Errors
    /// [`ChannelError::Deaf`]: the system refuses, as when there are too many descriptors; the same may succeed later.
    /// Any other: of this one connection.
    pub fn accept(&self, deadline_ns: u64) -> Result<Accepted, ChannelError> {
        if self.handshake_count() >= HANDSHAKE_COUNT_MAX {
            return Ok(Accepted::Full);
        }
        match self.next() {
            Ok(connection) => {
                let limits = (Arc::clone(&self.permit), deadline_ns);
                Ok(Accepted::Peer(Handshake::accepted(&self.identity, connection, limits)?))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Accepted::Nobody),
            Err(source) => Err(ChannelError::Deaf { address: self.address.to_string(), source }),
        }
    }

    /// Passes over who has gone again while it waited.
    fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            match self.socket.accept() {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                accepted => return accepted,
            }
        }
    }
}
