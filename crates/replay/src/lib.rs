//! Runs a recorded graph through the scheduler in virtual time: what would it take with other workers, or on a thousand
//! nodes?
//!
//! The state machines are those that decide in a running engine, [`gristmill_core::Core`]: that of the client, and one for
//! each node. What they decide about is simulated: workers that take as long as was recorded, threads that handle one
//! message after the other, links with a latency and a bandwidth. What each of these costs is said by [`Costs`].
//!
//! Guarantees: a replay is a function of its graph, its cluster, its costs and its seed; it ends, or says why it cannot;
//! it checks that each task ran once and after its parents.
//!
//! Not simulated: faults (the simulation in `crates/sim` has them), starts of processes, batches of calls, blobs that go
//! from node to node: whatever a node needs comes from the client, a large result once for each node.
#![forbid(unsafe_code)]

mod calendar;
mod client;
mod costs;
mod engine;
mod errands;
mod error;
mod forecast;
mod graph;
mod links;
mod node;
mod random;
mod replay;
mod watch;
mod workers;
mod world;

pub use costs::{Cluster, Costs};
pub use error::ReplayError;
pub use forecast::{Forecast, Wait};
pub use graph::{Graph, GraphError, Task};
pub use replay::Replay;
