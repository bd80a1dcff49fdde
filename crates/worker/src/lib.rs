//! A worker: claims the records of its task ring, has them called, and answers each one.
//!
//! Guarantees: every task record gets exactly one answer; an answer's bytes are in the result ring before the next call
//! begins, so that nothing that ended is lost with the worker; nothing revoked is run. What a call is, a [`Callee`] says;
//! where the rings lead, nobody here knows.
#![forbid(unsafe_code)]

mod answer;
mod batch;
mod callee;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod idle;
mod nested;
mod places;
mod read;
mod run;
mod running;
mod stamps;
mod tickets;

pub use callee::{Call, Callee, Dropped, ParentList, REPLY_MAX, Reply};
pub use gristmill_shm::Window;
pub use nested::{WaitEnd, WaitMode};
pub use run::{Worker, WorkerEnd, WorkerOptions};
pub use running::Running;
pub use tickets::Outcome;
