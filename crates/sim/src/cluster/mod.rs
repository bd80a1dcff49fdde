//! A client and its nodes: real graphs, links, connection managers and lease servers over a simulated network, with simulated
//! clocks and processes.
//!
//! A seed draws a program, nodes and faults: connections that are cut with only part of the data in flight delivered, and of
//! which one end may not learn; nodes that are apart for less or more time than a lease lasts; agents that freeze while their
//! workers continue, are killed, lose power, or are drained; leases that drain because their time is nearly over, and are
//! extended or not; a client that freezes or dies; clocks that disagree. At every step the simulation checks: each task gets
//! one final state, and one that has a cause; a placement begins once, where it was sent, and not after the client had it back;
//! nothing begins beyond its budgets; no lease outlives its client's silence; no node gives more than it has; nothing goes to a
//! lease that drains, and a lease that has drained has nothing left, so that its end costs nothing. When all faults are over,
//! it checks: nothing is kept of tasks whose futures are gone, on either side; results are those of runs that happened, and
//! dependants saw the same. At the end, it checks: no task is without a final state, and no lease and no process is left.
//!
//! A quarter of the seeds has large parts of payloads: several tasks take the same ones, and results have some that are fetched
//! by the client, stay at their node, go to disk, are arguments elsewhere, and are made again when their node is lost. Parts
//! move in pieces, from the client, from node to node and to the client, some with wrong bytes; disks fail. Additional checks:
//! nothing begins before the right bytes are where it runs; results that the program sees have the right bytes; a source has no
//! more sinks than allowed; the byte counts that nodes report add up; no store, table or block holds anything for tasks that
//! are over.
//!
//! Half of the seeds have contexts, which the program and tasks on nodes name: each engine numbers them for itself, and forgets
//! them with their last task. Additional check: no task of a context waits at the client while a node that takes tasks has none
//! of this context to run.
//!
//! In a quarter of the seeds the cluster has no faults, and its tasks have priorities. Additional check: shortly after a task
//! was sent, nothing of a lower priority begins on any node until this task has begun.
//!
//! Not simulated: peers that lie ([`crate::Siege`] does that), damaged bytes on links (fuzzing does that), memory that runs
//! out, threads that interleave within a step.

mod blob_plan;
mod blob_server;
mod blobs;
mod breaks;
mod channel;
mod client;
mod clock;
mod connections;
mod contexts;
mod engine;
mod engine_factory;
mod faults;
mod handle;
mod lease;
mod network;
mod node;
mod plan;
mod port;
mod precedence;
mod program;
mod run;
mod shared;
mod shares;
mod sim_port;
mod threads;
mod turns;
mod waiting;
mod watch;
mod wire;
mod wires;

pub use run::{ClusterReport, SimCluster};
