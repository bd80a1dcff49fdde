//! Blobs: large parts of arguments and results. A blob travels by name, at most once to a node, and also from node to node.
//!
//! The program's client names blobs, holds each while an unfinished task names it, and plans which node gets it from where. A
//! lease's engine accepts tasks that name blobs it lacks, makes these tasks wait, and requests the blobs. It names its own
//! large results and sends them. `README.md` beside this file describes the states and the races.

mod awaited;
mod deferred;
#[cfg(test)]
mod dropped;
mod facade;
mod hash_verifier;
mod inbound_results;
mod naming;
mod options;
mod outbound;
mod parts;
mod placing;
#[cfg(test)]
mod poisoned;
mod provider;
mod receiver;
#[cfg(test)]
mod renamed;
mod requested;
mod retained;
mod retention;
mod server;
mod source;
mod tables;
mod telling;
mod traffic;
mod work;

pub use facade::BlobWork;
pub use inbound_results::RemoteCompletion;
pub use options::{BlobOptions, BlobSizes};
pub use outbound::OutboundBlobs;
pub use parts::{BlobHome, BlobParts, BlobPartsRef, BlobPort};
pub use tables::BlobTables;
pub use traffic::BlobTraffic;

pub use server::{BlobConnection, BlobServer, BlobTransport, LoopStatus};

pub(crate) use inbound_results::InboundResults;
pub(crate) use naming::names_of;
pub(crate) use placing::with_names;
pub(crate) use provider::BlobProvider;
pub(crate) use receiver::BlobReceiver;
#[cfg(test)]
pub(crate) use server::BlobServerCommand;
pub(crate) use work::BlobReceiverWork;
