//! The options of an agent.

use std::net::SocketAddr;
use std::time::Duration;

use gristmill_client::ClientOptions;
use gristmill_transport::NodeKey;
use gristmill_wire::peer::{LeaseGrant, LeaseRequest};

use crate::affinity::CpuSlotAffinity;

/// The resources of a node that an agent can grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Workers that can run at the same time.
    pub workers: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// GPUs.
    pub gpus: u32,
}

/// Function that makes the options of a lease's engine (its program and its worker environment) for a granted request. The last
/// argument is the node's CPU slots that the lease's workers have. An error is a sentence for the client.
pub type ClientOptionsFactory =
    Box<dyn FnMut(&LeaseRequest, &LeaseGrant, &[u16]) -> Result<ClientOptions, String> + Send>;

/// The options of an agent; the layer above decides all of them.
pub struct AgentOptions {
    /// The key with which the nodes of the fleet authenticate.
    pub key: NodeKey,
    /// Addresses at which clients reach this node, of which the first possible one is used; none: the node has only the client
    /// that it joins.
    pub listen: Vec<SocketAddr>,
    /// Addresses of the client that the node joins, as `host:port`, in the order in which they are tried; none: it joins none.
    pub join: Vec<String>,
    /// Version of this interpreter, as in `3.11`.
    pub python: String,
    /// Version of this engine.
    pub engine: String,
    /// Name of this node.
    pub name: String,
    /// Resources that the agent can grant.
    pub capacity: Capacity,
    /// NUMA nodes and GPUs that the worker of each CPU slot is bound to.
    pub affinity: CpuSlotAffinity,
    /// Labels, as `name=value` lines.
    pub labels: String,
    /// Time for which this node can be used; none: there is no limit.
    pub walltime: Option<Duration>,
    /// Time that tasks have to finish before the walltime is over, before a lease ends (at most an eighth of the lease's time),
    /// and after the agent was told to stop. Tasks that have not started are given back at once.
    pub drain_time: Duration,
    /// Time without a lease after which the agent ends by itself; none: it never does.
    pub patience: Option<Duration>,
    /// Function that makes the options of a lease's engine.
    pub prepare: ClientOptionsFactory,
}
