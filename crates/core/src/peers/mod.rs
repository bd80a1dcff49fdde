//! Peers: engines at the other end of a link that run tasks for this one, each with many workers of its own.
//!
//! A task that was sent to a peer is *delegated*. A peer answers in any order, and only the peer knows which of its tasks
//! have started: a task comes back unstarted only if the peer says so. When a peer is lost, a task that was sent and not
//! answered may have started, and is charged as if it had.
//!
//! The choice of a peer costs the same whatever the number of peers. Peers are kept in lists by available room. The
//! engine takes the first peer of the best list, the home of the task's function, or a peer that has the task's large
//! arguments.

mod answers;
mod balance;
mod floors;
mod follow;
mod function_affinity;
mod health;
mod holders;
mod levels;
mod loss;
mod place;
mod precedence;
mod shares;
mod stay;
mod table;
mod vacancies;

pub use answers::{PeerAnswer, PeerEnd};
pub use place::{RemoteDispatch, RemoteParents};
pub use table::{PeerOffer, PeerStats};

pub(crate) use table::Peers;
