//! The node agent: gives clients of one fleet leases on the workers of its node.
//!
//! Guarantees: a worker belongs to one lease at a time; a lease ends when its client gives it back, when its time is over,
//! for which it drains before, or when its client was not heard for as long as they agreed on, and with it every process
//! that it had. Each lease is an engine of its own, whose tasks come over one link: what an engine promises of its tasks
//! holds here too.
//! Not here: which interpreter workers are, and what they find (the layer above), and who places agents on nodes.
#![forbid(unsafe_code)]

mod agent;
mod desk;
mod leases;
mod options;
mod orders;
mod places;
mod tenant;

pub use agent::{Agent, Ending};
pub use desk::{Desk, Facts, Housing, LeaseEngine};
pub use options::{AgentOptions, Capacity, Prepare};
pub use places::Places;
