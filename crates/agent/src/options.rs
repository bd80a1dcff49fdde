//! What an agent is made from.

use std::net::SocketAddr;
use std::time::Duration;

use gristmill_client::ClientOptions;
use gristmill_transport::NodeKey;
use gristmill_wire::peer::{Ask, Grant};

use crate::places::Places;

/// What a node has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Workers that can run at the same time.
    pub workers: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// GPUs.
    pub gpus: u32,
}

/// Makes the engine of a lease: its program and its world, for what is granted, and for the places of the node that its
/// workers have. An error is a sentence for the client.
pub type Prepare = Box<dyn FnMut(&Ask, &Grant, &[u16]) -> Result<ClientOptions, String> + Send>;

/// Everything that the layer above decides.
pub struct AgentOptions {
    /// The nodes' key of the fleet.
    pub key: NodeKey,
    /// Where clients reach this node; none: only those that it joins.
    pub listen: Option<SocketAddr>,
    /// Clients that it joins, as `host:port`.
    pub join: Vec<String>,
    /// This interpreter, as in `3.11`.
    pub python: String,
    /// This engine.
    pub engine: String,
    /// What this node is called.
    pub name: String,
    /// What it has to give.
    pub capacity: Capacity,
    /// What the worker of each place is bound to.
    pub places: Places,
    /// Labels, as `name=value` lines.
    pub labels: String,
    /// How long this node can be used; none: there is no limit.
    pub walltime: Option<Duration>,
    /// How long before the end of that, before the end of a lease (an eighth of its time at most), and after it was told to
    /// stop, tasks may finish: what has not started is given back at once.
    pub drain_time: Duration,
    /// How long it goes without a lease before it ends by itself; none: it does not.
    pub patience: Option<Duration>,
    /// Makes the engine of a lease.
    pub prepare: Prepare,
}
