//! The side that connects.

use std::net::SocketAddr;

use super::address;
use super::handshake::Handshake;
use crate::error::ChannelError;
use crate::identity::Identity;

/// A factory of connections to listeners, under one identity.
#[derive(Debug, Clone)]
pub struct Connector {
    identity: Identity,
}

impl Connector {
    /// Creates a connector that uses this identity.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// Begins to connect to one address (see [`crate::resolve`]). The handshake must end before the deadline, a time of the
    /// caller's monotonic clock, ns. The caller chooses the next address to try.
    ///
    /// # Errors
    /// The address cannot be reached; a later attempt may succeed.
    pub fn connect(
        &self,
        address: SocketAddr,
        deadline_ns: u64,
    ) -> Result<Handshake, ChannelError> {
        let unreachable =
            |source| ChannelError::Unreachable { address: address.to_string(), source };
        let socket = address::begin(address).map_err(unreachable)?;
        Ok(Handshake::connecting(self.identity.clone(), (socket, address), deadline_ns))
    }
}
