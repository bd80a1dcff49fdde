//! One lease while it lives: the engine that runs its tasks, and the link that they come over.

use std::sync::Arc;
use std::time::Duration;

use gristmill_client::{Client, NewLink};
use gristmill_transport::Channel;
use gristmill_wire::PeerId;
use gristmill_wire::peer::Ask;

/// How long the processes of a lease that is over may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Tenant {
    pub client: Arc<Client>,
    pub peer: PeerId,
    /// What the client is called.
    pub name: String,
}

impl Tenant {
    /// Takes the link to an engine that has started; its workers come up while the first tasks are on their way.
    pub fn new(
        client: Arc<Client>,
        ask: &Ask,
        name: String,
        channel: Box<dyn Channel + Send>,
    ) -> Self {
        let Ask { beat_ns, expiry_ns, .. } = *ask;
        let link = NewLink {
            name: name.clone(),
            channel,
            beat_ns,
            expiry_ns,
            workers: 0,
            ends_in_ns: u64::MAX,
        };
        let peer = client.attach(link);
        Self { client, peer, name }
    }

    /// Ends the lease, and every process that it has.
    pub fn end(self, reason: &str) {
        self.client.abort(reason);
        self.client.wait_for_end(END_LIMIT);
    }
}
