//! The node agent: grants clients of one fleet leases on the workers of its node.
//!
//! Guarantees: a worker belongs to one lease at a time. A lease ends when its client gives it back, when its time is over (the
//! lease drains before that), or when the client was silent for the expiry time that both agreed on. Every process of the lease
//! ends with it. Each lease is an engine of its own, whose tasks come over one link: the guarantees of an engine for its tasks
//! hold here too. Not here: the choice of the workers' interpreter and of the worker environment (the layer above), and the
//! placement of agents on nodes.
#![forbid(unsafe_code)]

mod affinity;
mod agent;
mod lease_server;
mod lease_session;
mod leases;
mod options;
mod start_failures;

pub use affinity::CpuSlotAffinity;
pub use agent::{Agent, AgentExit};
pub use lease_server::{EngineFactory, LeaseEngine, LeaseServer, NodeDescription};
pub use options::{AgentOptions, Capacity, ClientOptionsFactory};
