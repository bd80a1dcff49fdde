//! Moves *chunks* between a client and its nodes: byte strings of up to 16 MiB, in order, to a peer that is known.
//!
//! Guarantees: no call blocks, but the resolving of names. Nothing that a peer sends before it has proved its key reaches
//! the layer above. What arrives on a [`Channel`] is a beginning of what was sent on its other end, in order; with a
//! [`Session`] on top, everything arrives exactly once, however often the connection is lost. Memory is bounded, and
//! whatever a peer sends, nothing here panics.
//! Not here: what a chunk holds (several messages of the layer above), tasks, heartbeats, and the pace of reconnecting.
//!
//! | part | what it is |
//! |---|---|
//! | [`Fleet`], [`ClientKey`], [`NodeKey`], [`Identity`] | who may talk to whom |
//! | [`Listener`], [`Connector`], [`Handshake`] | from an address to a channel, over TCP and TLS 1.3 |
//! | [`Channel`] | chunks on one connection; [`TcpChannel`], [`InprocChannel`] |
//! | [`Session`] | numbers, keeps and repeats chunks, so that they survive their connection. Pure: no clock, no socket |
//! | [`Sleeper`] | sleeps until a channel has something to do, or somebody calls |
//!
//! States, races, and why nothing is lost or delivered twice: `README.md` beside this file.
#![forbid(unsafe_code)]

mod channel;
mod chunk;
mod decoder;
mod error;
mod framed;
mod greeting;
mod identity;
mod inproc;
mod keys;
mod outbox;
mod session;
mod sleeper;
mod tcp;

pub use channel::{Channel, Flushed};
pub use chunk::{CHUNK_SIZE_MAX, ChunkHead, ENVELOPE_SIZE, Envelope, EnvelopeError};
pub use decoder::{Decoder, Taken};
pub use error::{ChannelError, Mistrust};
pub use framed::Framed;
pub use greeting::{TRANSPORT_VERSION, Versions};
pub use identity::Identity;
pub use inproc::{InprocChannel, pair};
pub use keys::{ClientKey, Fleet, KeyError, NodeKey};
pub use session::{Admission, Arrival, Outgoing, Session, SessionError, SessionOptions};
pub use sleeper::{Interest, Ready, Rest, Sleeper, Waker};
pub use tcp::{
    Accepted, Connector, HANDSHAKE_COUNT_MAX, Handshake, Listener, Progress, TcpChannel, resolve,
};
