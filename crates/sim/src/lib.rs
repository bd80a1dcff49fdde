//! Deterministic simulation of an engine's decisions against simulated workers, networks, clocks and processes, in orders that
//! a seed draws. There are three kinds of simulation.
//!
//! The *engine* is one state machine and its workers. A seed draws a program (chains, fans, diamonds, tasks that submit tasks,
//! tasks that need several CPU slots, memory or GPUs, contexts that are defined and forgotten and whose starts take long or
//! fail), an engine (workers, limits, budgets) and faults (exceptions, exits, kills at any step, the death of the keeper and of
//! all workers with it, failing starts, cancels, timeouts, deadlines, shut-down), then interleaves single steps of the program,
//! the client and the workers under a virtual clock. Checked at every step: each task gets one final state, and one that has a
//! cause; no task starts beyond its budgets, twice at a time, before its parents or after its end; running tasks use no more
//! resources than there are, and each runs in a worker that has its context. A worker that dies costs one task. It costs
//! several only if they were nested, a child in the wait of its parent: because no other worker could run the child, or because
//! the child's function had earned this by many clean runs. No worker idles for long if other tasks could use its CPU slot, and
//! tasks that wait for a worker get one in time. Checked at the end: no task is without a final state, and no record and no
//! process is left. If nothing can happen while a task is outstanding, the engine hangs, which is a failure.
//!
//! The *cluster* is a client and its nodes, each with engines of their own: see [`SimCluster`].
//!
//! The *siege* is one engine with an honest peer and hostile ones. [`Siege`] has an engine without blobs, of a program or of a
//! lease. [`DataSiege`] has a program's engine with blobs, [`LeaseSiege`] a lease's. In [`AskerSiege`], workers make arbitrary
//! requests instead.
//!
//! Not simulated: memory orders (the loom models of the ring check them), lost messages of a ring (it loses none).
#![forbid(unsafe_code)]

mod batches;
mod capacity;
mod cluster;
mod contents;
mod context_changes;
mod contexts;
mod drive;
mod fairness;
mod grants;
mod hostile;
mod inner;
mod memory;
mod observed;
mod plan;
mod precedence;
mod random;
mod run;
mod steps;
mod values;
mod worker;
mod world;

pub use cluster::{ClusterReport, SimCluster};
pub use hostile::{AskerReport, AskerSiege, Choices, DataSiege, LeaseSiege, Siege, SiegeReport};
pub use random::SeededRandom;
pub use run::{Report, Simulation};
