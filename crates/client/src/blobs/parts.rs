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
    /// its blob server. Returns `None` if the link has no IP address.
    fn blob_server_address(&self, peer: PeerId, port: u16) -> Option<String> {
        let channel = self.links().get(peer)?.channel()?;
        let mut address: SocketAddr = channel.peer().parse().ok()?;
        address.set_port(port);
        Some(address.to_string())
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
