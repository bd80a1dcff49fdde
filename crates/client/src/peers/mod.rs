//! Links to engines on other nodes: tasks that are sent there, and tasks that come from there.
//!
//! The thread that completes tasks uses a link under the client's mutex: it reads links as part of draining, and writes them
//! before it returns control. When a link breaks, the engine keeps it for a while, together with everything that the other end
//! has not confirmed, so that the same lease can resume over another connection. If none comes in time, the peer is lost.

mod answers;
mod backlog;
#[cfg(test)]
mod breaches;
mod connection_manager;
mod contexts;
mod cutting;
mod definitions;
mod dials;
mod disagreement;
#[cfg(test)]
mod flood;
mod handshake;
mod handshake_failure;
mod handshake_server;
mod heartbeats;
mod home;
mod inbound;
mod inbound_messages;
mod inside;
mod intake;
#[cfg(test)]
mod last_words;
mod lease_negotiator;
mod link;
mod links;
mod maintenance;
mod names;
mod node_failures;
mod oversized;
mod peer_functions;
mod refusals;
mod sending;
mod service;
mod size_errors;
#[cfg(test)]
mod unsent;

pub use connection_manager::{
    ConnectionManager, ConnectionManagerOptions, DepartedNode, NodeEventCallback,
};
#[cfg(test)]
pub(crate) use contexts::CONTEXT_SIZE;
pub(crate) use contexts::size_of_context;
pub use contexts::{ContextTelling, setup_excess};
pub use dials::{Dials, Redial};
pub use disagreement::disagreement;
pub use handshake::{HandshakeChannel, PeerHandshake};
pub use handshake_failure::HandshakeFailure;
pub use handshake_server::{
    HandshakeNext, HandshakeServer, HandshakeServerError, Host, PendingHandshake,
};
pub use home::{EngineParts, LinkHome, LinkPort, PayloadStore};
pub use inbound::{InboundTasks, is_inbound};
pub use intake::{Departure, LinkWork, PeerEvent};
pub use lease_negotiator::{LeaseNegotiator, LeaseTerms, LinkOwner};
pub use link::{Link, LinkSizes};
pub use links::{Links, NewLink, PeerView};
pub use peer_functions::DEFINITIONS_MAX;
#[cfg(test)]
pub(crate) use peer_functions::ENTRY_SIZE;
pub(crate) use peer_functions::PeerFunctions;
pub(crate) use refusals::Refusals;
pub use sending::{Sending, peer_of_pseudo_slot};
pub(crate) use size_errors::CONTEXT_ADVICE;
