//! A client and its nodes: real graphs, links, doors and desks over a simulated network, with simulated clocks and processes.
//!
//! A seed draws a program, nodes and what befalls them: connections that are cut with a part of what was under way, of
//! which one end may not hear; nodes that are apart for less or more than a lease lasts; agents that stand still while
//! their workers go on, are killed, lose power, are drained; leases that drain because their time is nearly over, and are
//! extended or not; a client that stands still or dies; clocks that do not agree.
//! Checked at every step: each task gets one final state, and one that has a cause; a placement begins once, where it was
//! sent, and not after the client had it back; nothing begins beyond its budgets; no lease outlives its client's silence;
//! no node gives more than it has; nothing goes to a lease that drains, and none that has drained has anything left, so
//! that its end costs nothing. Checked when all is well again: nothing is kept of tasks whose futures are gone, on either
//! side; results are those of runs that happened, and dependants saw the same. Checked at the end: no task without a final
//! state, no lease, no process.
//!
//! A quarter of the seeds has large parts of payloads: several tasks take the same ones, and results have some that come home,
//! stay at their node, go to disk, are arguments elsewhere, and are made again when their node is lost. They move in pieces,
//! from the client, from node to node and home, some with wrong bytes; disks fail. Checked besides: nothing begins before
//! the right bytes are where it runs, results that the program sees have theirs, a giver has no more takers than it may,
//! what nodes say of bytes adds up, and no store, table or block has anything left for tasks that are over.
//!
//! Half of the seeds have contexts, which the program and tasks on nodes name: each engine has numbers of its own for them,
//! and forgets them with their last task.
//!
//! Not simulated: peers that lie ([`crate::Siege`] does), bytes on links that are damaged (fuzzing does that), memory that runs out,
//! threads that interleave within a step.

mod blobs;
mod breaks;
mod channel;
mod client;
mod clock;
mod contexts;
mod doorway;
mod engine;
mod faults;
mod handle;
mod housing;
mod lanes;
mod lease;
mod network;
mod node;
mod plan;
mod port;
mod program;
mod run;
mod shared;
mod threads;
mod turns;
mod watch;
mod wires;

pub use run::{Cluster, ClusterReport};
