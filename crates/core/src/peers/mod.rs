//! Peers: engines at the other end of a link that run tasks for this one, each with many workers of its own.
//!
//! A task that was sent to a peer is *away*. A peer answers in any order, and only it knows which of its tasks have
//! started: tasks come back unstarted by its word alone. When a peer is lost, what was sent and not answered may have
//! started, and is charged as if it had.
//!
//! The choice of a peer costs the same whatever their number: peers are kept in lists by how much room they have, and the
//! first of the best list is taken, the one where the function is at home, or one that has a task's large arguments.

mod answers;
mod balance;
mod follow;
mod holders;
mod homes;
mod levels;
mod loss;
mod place;
mod stay;
mod table;
mod trust;

pub use answers::{PeerAnswer, PeerEnd};
pub use holders::Holders;
pub use place::{Errand, ErrandParents};
pub use table::{PeerOffer, PeerStats};

pub(crate) use levels::Level;
pub(crate) use table::Peers;
