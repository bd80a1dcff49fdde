//! Links to engines on other nodes: tasks that go there, and tasks that come from there.
//!
//! A link is used under the client's mutex, by whoever completes tasks: reading it is part of draining, writing it part of
//! giving control back. A link that breaks is kept for a while, with all that the other end has not confirmed, so that the
//! same lease can go on over another connection. When that does not happen in time the peer is lost.

mod answers;
mod arrivals;
mod backlog;
mod beats;
#[cfg(test)]
mod breaches;
mod contexts;
mod cutting;
mod definitions;
mod dials;
mod disagreement;
mod door;
#[cfg(test)]
mod flood;
mod guests;
mod home;
mod inside;
mod intake;
#[cfg(test)]
mod last_words;
mod link;
mod links;
mod meeting;
mod names;
mod porter;
mod prospects;
mod reception;
mod sending;
mod service;
mod trouble;
mod upkeep;

pub use contexts::{CONTEXT_SIZE, ContextTelling};
pub use definitions::DEFINITIONS_MAX;
pub use dials::{Dials, Redial};
pub use disagreement::disagreement;
pub use door::{DepartedNode, Door, DoorOptions, Told};
pub use guests::{Guests, is_guest};
pub use home::{LinkHome, LinkPort, Parts, PayloadStore};
pub use intake::{Departure, LinkWork, PeerNews};
pub use link::{Link, LinkSizes};
pub use links::{Links, NewLink, PeerView};
pub use meeting::{Conversation, Meeting};
pub use porter::{LinkOwner, Porter, Terms};
pub use reception::{Host, Reception, ReceptionError, Talk, Turn};
pub use sending::Sending;
pub use trouble::Trouble;
