//! A worker: claims the records of its task ring, calls the function of each, and answers each one.
//!
//! Guarantees: every task record gets exactly one answer. An answer's bytes are in the result ring before the next call
//! begins, so no finished task is lost with the worker. A revoked task is never run. A [`Callee`] defines what a call
//! is; this crate does not know who is at the other end of the rings.
#![forbid(unsafe_code)]

mod answer;
mod batch;
mod callee;
mod end;
pub mod fuzzing;
mod idle;
mod nested;
mod pace;
mod places;
mod read;
mod run;
mod running;
mod stamps;
mod tickets;

pub use callee::{Callee, Dropped, ParentList, REPLY_MAX, Reply, TaskCall};
pub use end::WorkerEnd;
pub use gristmill_shm::Window;
pub use nested::{WaitEnd, WaitMode};
pub use run::{Worker, WorkerOptions};
pub use running::CurrentTask;
pub use tickets::NestedTaskOutcome;
