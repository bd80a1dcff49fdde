//! The engine of a lease on this machine: a `gristmill_client::Client` with its own keeper and workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_client::{BlobLimits, Client, LinkOwner, NewLink, PeerEvent};
use gristmill_transport::{Channel, Identity, Waker};
use gristmill_wire::PeerId;
use gristmill_wire::peer::{LeaseGrant, LeaseRequest};

use crate::ClientOptionsFactory;
use crate::lease_server::{EngineFactory, LeaseEngine};

/// Time that the processes of all leases have to end when the agent ends.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A starter of engines with processes on this machine.
pub(crate) struct Processes {
    pub prepare: ClientOptionsFactory,
    /// Waker of the agent's thread; the engines wake it for events of their links.
    pub waker: Waker,
    /// Identity by which the engines authenticate to other nodes.
    pub sibling: Identity,
    /// Memory of the node, bytes.
    pub memory: u64,
}

/// Each lease keeps unused blobs in at most 1/8 of the node's memory, unless the client says otherwise.
const MEMORY_SHARE: u64 = 8;

impl Processes {
    /// Returns the limits for kept blobs: those that the client requests, or the defaults for this node.
    fn blob_limits(&self, request: &LeaseRequest) -> BlobLimits {
        let [memory, disk] = request.blob_limits;
        let memory = if memory == u64::MAX { self.memory / MEMORY_SHARE } else { memory };
        let disk = if disk == u64::MAX { memory } else { disk };
        BlobLimits { memory, disk, directory: std::env::temp_dir() }
    }
}

impl EngineFactory for Processes {
    type Engine = LeaseSession;

    fn start(
        &mut self,
        request: &LeaseRequest,
        grant: &LeaseGrant,
        cpu_slots: &[u16],
    ) -> Result<LeaseSession, String> {
        let mut options = (self.prepare)(request, grant, cpu_slots)?;
        options.blobs.limits = Some(self.blob_limits(request));
        options.blobs.sibling = Some(self.sibling.clone());
        let client = Client::start(options).map_err(|error| error.to_string())?;
        client.set_connection_manager(self.waker.clone());
        Ok(LeaseSession(client))
    }
}

/// The engine of one lease.
pub(crate) struct LeaseSession(Arc<Client>);

/// Waits until the processes of engines that end are gone, for `END_LIMIT` in all at most.
pub(crate) fn wait_for_all(engines: &[LeaseSession]) {
    let begin = Instant::now();
    for engine in engines {
        engine.0.wait_for_end(END_LIMIT.saturating_sub(begin.elapsed()));
    }
}

impl LinkOwner for LeaseSession {
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

impl LeaseEngine for LeaseSession {
    fn take_events(&self) -> VecDeque<PeerEvent> {
        self.0.take_events()
    }

    fn drain(&self, text: &str) {
        self.0.drain_inbound(text);
    }

    fn is_drained(&self) -> bool {
        self.0.has_no_inbound()
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
