//! Channels over TCP and TLS 1.3: the listener, the connector, the handshake, and the encrypted carrier.

mod address;
mod connector;
mod faults;
mod handshake;
mod listener;
mod opening;
mod secure;
mod socket;

pub use address::{numeric, resolve};
pub use connector::Connector;
pub use handshake::{Handshake, HandshakeProgress};
pub use listener::{Accepted, HANDSHAKE_COUNT_MAX, HOST_HANDSHAKE_COUNT_MAX, Listener};

/// A channel over TCP and TLS, to a peer that has proved its key.
pub type TcpChannel = crate::framed::Framed<secure::Secure>;
