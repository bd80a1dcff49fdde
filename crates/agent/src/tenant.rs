//! The engines of leases on this machine: clients with processes of their own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_client::{BlobLimits, Client, LinkOwner, NewLink, PeerNews};
use gristmill_transport::{Channel, Identity, Waker};
use gristmill_wire::PeerId;
use gristmill_wire::peer::{Ask, Grant};

use crate::Prepare;
use crate::desk::{Housing, LeaseEngine};

/// How long the processes of all leases may take to be gone when the agent ends.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Starts engines.
pub(crate) struct Processes {
    pub prepare: Prepare,
    /// Woken with what becomes of their links.
    pub waker: Waker,
    /// What they prove to other nodes.
    pub sibling: Identity,
    /// The node's memory, bytes.
    pub memory: u64,
}

/// The part of a node's memory that is kept for blobs which nobody uses, unless the client says otherwise.
const MEMORY_SHARE: u64 = 8;

impl Processes {
    /// How much is kept of blobs: what the client asks for, or what is right for this node.
    fn blob_limits(&self, ask: &Ask) -> BlobLimits {
        let [memory, disk] = ask.blob_limits;
        let memory = if memory == u64::MAX { self.memory / MEMORY_SHARE } else { memory };
        let disk = if disk == u64::MAX { memory } else { disk };
        BlobLimits { memory, disk, directory: std::env::temp_dir() }
    }
}

impl Housing for Processes {
    type Engine = Tenant;

    fn start(&mut self, ask: &Ask, grant: &Grant, places: &[u16]) -> Result<Tenant, String> {
        let mut options = (self.prepare)(ask, grant, places)?;
        options.blobs.limits = Some(self.blob_limits(ask));
        options.blobs.sibling = Some(self.sibling.clone());
        let client = Client::start(options).map_err(|error| error.to_string())?;
        client.set_door(self.waker.clone());
        Ok(Tenant(client))
    }
}

/// The engine of one lease.
pub(crate) struct Tenant(Arc<Client>);

/// Waits until the processes of engines that end are gone.
pub(crate) fn wait_for_all(engines: &[Tenant]) {
    let begin = Instant::now();
    for engine in engines {
        engine.0.wait_for_end(END_LIMIT.saturating_sub(begin.elapsed()));
    }
}

impl LinkOwner for Tenant {
    fn attach(&self, new: NewLink) -> PeerId {
        self.0.attach(new)
    }

    fn reattach(&self, peer: PeerId, channel: Box<dyn Channel + Send>, received: u64) -> bool {
        self.0.reattach(peer, channel, received)
    }

    fn received(&self, peer: PeerId) -> Option<u64> {
        self.0.received(peer)
    }
}

impl LeaseEngine for Tenant {
    fn take_news(&self) -> VecDeque<PeerNews> {
        self.0.take_news()
    }

    fn drain(&self, text: &str) {
        self.0.drain_guests(text);
    }

    fn is_drained(&self) -> bool {
        self.0.has_no_guests()
    }

    fn last(&self, peer: PeerId, duration_ns: u64) {
        self.0.last(peer, duration_ns);
    }

    fn end_links(&self, text: &str) {
        self.0.end_links(text);
    }

    fn begin_end(&self, reason: &str) {
        self.0.abort(reason);
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}
