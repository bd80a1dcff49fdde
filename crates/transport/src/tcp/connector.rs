//! The side that connects.

use std::net::SocketAddr;

use super::address;
use super::handshake::Handshake;
use crate::error::ChannelError;
use crate::identity::Identity;

/// Opens connections to listeners.
#[derive(Debug, Clone)]
pub struct Connector {
    identity: Identity,
}

impl Connector {
    /// In the name of this identity.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// Begins to connect to one address (see [`crate::resolve`]). The handshake has to end before the deadline, a time of
    /// the caller's monotonic clock, ns. Which of several addresses is tried next is for whoever paces the attempts.
    ///
    /// # Errors
    /// There is no way to this address; another time there may be.
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
