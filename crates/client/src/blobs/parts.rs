//! What an engine has for blobs, and what is asked of an engine that has them.
//!
//! The client's own engine is one. A simulated one, whose workers, connections and clock are what a test says, is another:
//! what is decided here is the same for both.

use std::net::SocketAddr;

use gristmill_shm::ClientArena;
use gristmill_wire::{PeerId, TaskId};

use super::giving::Giving;
use super::homing::Homing;
use super::taking::Taking;
use crate::bundle::Bundles;
use crate::peers::{LinkHome, LinkPort};

/// What an engine has for blobs.
#[derive(Debug)]
pub struct BlobParts<'a> {
    pub(crate) arena: &'a ClientArena,
    pub(crate) bundles: &'a mut Bundles,
    pub(crate) giving: &'a mut Giving,
    pub(crate) homing: &'a mut Homing,
    /// None: tasks of peers name no blobs here.
    pub(crate) taking: Option<&'a mut Taking>,
}

/// The same, to be looked at.
#[derive(Debug, Clone, Copy)]
pub struct BlobLook<'a> {
    pub(crate) bundles: &'a Bundles,
    pub(crate) giving: &'a Giving,
    pub(crate) homing: &'a Homing,
    pub(crate) taking: Option<&'a Taking>,
}

/// What a graph with links and blobs is called with.
pub trait BlobPort: LinkPort {
    /// What it has for blobs.
    fn blobs(&mut self) -> BlobParts<'_>;

    /// The same, to be looked at.
    fn blob_look(&self) -> BlobLook<'_>;
}

/// An engine that has links and blobs.
pub trait BlobHome: LinkHome<Port: BlobPort> {
    /// Whether somebody waits for a task's end.
    fn is_asked_for(&self, task: TaskId) -> bool;

    /// Where other nodes can fetch what a peer has, whose depot is at a port of its machine: at the address from which its
    /// link comes, as far as there is one.
    fn depot_address(&self, peer: PeerId, port: u16) -> Option<String> {
        let channel = self.links().get(peer)?.channel()?;
        let mut address: SocketAddr = channel.peer().parse().ok()?;
        address.set_port(port);
        Some(address.to_string())
    }

    /// What it has for blobs.
    fn blobs(&mut self) -> BlobParts<'_> {
        self.port_mut().blobs()
    }

    /// The same, to be looked at.
    fn blob_look(&self) -> BlobLook<'_> {
        self.port().blob_look()
    }
}
