//! Runs a recorded task graph through the scheduler in virtual time, to predict its run with other workers or on a thousand
//! nodes.
//!
//! The scheduler is the real one: the state machine [`gristmill_core::Core`], once for the client and once for each node.
//! Everything else is simulated: workers that run as long as was recorded, threads that handle one message after the other,
//! links with a latency and a bandwidth. [`Costs`] has the cost of each step.
//!
//! Guarantees: a replay is a function of its graph, its cluster, its costs and its seed. It ends, or returns the reason why
//! it cannot. It checks that each task runs once and after its parents.
//!
//! Not simulated: faults (`crates/sim` does that), starts of processes, batches of calls, and blobs that go from node to
//! node. All data that a node needs comes from the client, a large result once for each node.
#![forbid(unsafe_code)]

mod calendar;
mod client;
mod costs;
mod engine;
mod engine_model;
mod error;
mod forecast;
mod graph;
mod links;
mod messages;
mod node;
mod random;
mod replay;
mod watch;
mod workers;

pub use costs::{ClusterSpec, Costs};
pub use error::ReplayError;
pub use forecast::{Forecast, Wait};
pub use graph::{Graph, GraphError, RecordedTask};
pub use replay::Replay;
