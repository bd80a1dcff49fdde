//! Blob tables of an engine, and the traits that give access to them.
//!
//! The client's engine implements these traits. So does a simulated engine, whose workers, connections and clock a test
//! controls. The decisions in this module are the same for both.

use std::net::SocketAddr;

use gristmill_shm::ClientArena;
use gristmill_wire::{PeerId, TaskId};

use super::inbound_results::InboundResults;
use super::provider::BlobProvider;
use super::receiver::BlobReceiver;
use crate::bundle::Bundles;
use crate::peers::{LinkHome, LinkPort};

/// Blob tables of an engine.
#[derive(Debug)]
pub struct BlobParts<'a> {
    pub(crate) arena: &'a ClientArena,
    pub(crate) bundles: &'a mut Bundles,
    pub(crate) provider: &'a mut BlobProvider,
    pub(crate) inbound_results: &'a mut InboundResults,
    /// Receiving side; `None` if tasks of peers name no blobs here.
    pub(crate) receiver: Option<&'a mut BlobReceiver>,
}

/// Read-only view of [`BlobParts`].
#[derive(Debug, Clone, Copy)]
pub struct BlobPartsRef<'a> {
    pub(crate) bundles: &'a Bundles,
    pub(crate) provider: &'a BlobProvider,
    pub(crate) inbound_results: &'a InboundResults,
    pub(crate) receiver: Option<&'a BlobReceiver>,
}

/// Port of a task graph with links and blobs.
pub trait BlobPort: LinkPort {
    /// Returns the blob tables.
    fn blobs(&mut self) -> BlobParts<'_>;

    /// Returns a read-only view of the blob tables.
    fn blob_look(&self) -> BlobPartsRef<'_>;
}

/// Engine that has links and blobs.
pub trait BlobHome: LinkHome<Port: BlobPort> {
    /// Returns true if a caller waits for the end of a task.
    fn is_asked_for(&self, task: TaskId) -> bool;

    /// Returns the address where other nodes can fetch a peer's blobs: the IP address of the peer's link, with the port of
    /// its blob server. Returns `None` if the link has no IP address that means the same on other nodes.
    fn blob_server_address(&self, peer: PeerId, port: u16) -> Option<String> {
        address_for_others(self.links().get(peer)?.channel()?.peer(), port)
    }

    /// Returns the blob tables.
    fn blobs(&mut self) -> BlobParts<'_> {
        self.port_mut().blobs()
    }

    /// Returns a read-only view of the blob tables.
    fn blob_look(&self) -> BlobPartsRef<'_> {
        self.port().blob_look()
    }
}

/// Returns a peer's address with another port, or `None` if it is no address, or one of IPv6 that is valid on one link only,
/// because its scope is an interface of this machine.
fn address_for_others(peer: &str, port: u16) -> Option<String> {
    let mut address: SocketAddr = peer.parse().ok()?;
    if let SocketAddr::V6(of_link) = &address
        && of_link.ip().is_unicast_link_local()
    {
        return None;
    }
    address.set_port(port);
    Some(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_addresses_that_mean_the_same_everywhere() {
        let told = |peer| address_for_others(peer, 7);
        assert_eq!(told("10.0.0.1:5000").as_deref(), Some("10.0.0.1:7"));
        assert_eq!(told("[fd00::1]:5000").as_deref(), Some("[fd00::1]:7"));
        assert_eq!(told("[fe80::1%2]:5000"), None);
        assert_eq!(told("a pipe"), None);
    }
}
