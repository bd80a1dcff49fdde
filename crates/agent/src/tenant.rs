//! The engines of leases on this machine: clients with processes of their own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gristmill_client::{Client, LinkOwner, NewLink, PeerNews};
use gristmill_transport::{Channel, Waker};
use gristmill_wire::PeerId;
use gristmill_wire::peer::{Ask, Grant};

use crate::Prepare;
use crate::desk::{Housing, LeaseEngine};

/// How long the processes of a lease that is over may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Starts engines.
pub(crate) struct Processes {
    pub prepare: Prepare,
    /// Woken with what becomes of their links.
    pub waker: Waker,
}

impl Housing for Processes {
    type Engine = Tenant;

    fn start(&mut self, ask: &Ask, grant: &Grant) -> Result<Tenant, String> {
        let options = (self.prepare)(ask, grant)?;
        let client = Client::start(options).map_err(|error| error.to_string())?;
        client.set_door(self.waker.clone());
        Ok(Tenant(client))
    }
}

/// The engine of one lease.
pub(crate) struct Tenant(Arc<Client>);

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

    fn tell_duration(&self, peer: PeerId, duration_ns: u64) {
        self.0.tell_duration(peer, duration_ns);
    }

    fn end_links(&self, text: &str) {
        self.0.end_links(text);
    }

    fn end(self, reason: &str) {
        self.0.abort(reason);
        self.0.wait_for_end(END_LIMIT);
    }
}
