//! A transport of *chunks* between a client and its nodes: byte strings of up to 16 MiB, in order, to an authenticated peer.
//!
//! Guarantees: no call blocks, except the resolution of names. Bytes that a peer sends before it has proved its key do not
//! reach the layer above. The chunks that arrive on a [`Channel`] are a prefix of those sent on its other end, in order. With a
//! [`Session`] on top, each chunk arrives exactly once, however often the connection is lost. Memory is bounded, and no bytes
//! of a peer cause a panic.
//! Not here: the content of a chunk (several messages of the layer above), tasks, heartbeats, and the pace of reconnecting.
//!
//! | part | purpose |
//! |---|---|
//! | [`FleetKeys`], [`ClientKey`], [`NodeKey`], [`Identity`] | keys: the peers that a process accepts |
//! | [`Listener`], [`Connector`], [`Handshake`] | from an address to a channel, over TCP and TLS 1.3 |
//! | [`Channel`] | chunks on one connection; [`TcpChannel`], [`InprocChannel`] |
//! | [`Session`] | numbers, keeps and repeats chunks, so that they survive their connection. Pure: no clock, no socket |
//! | [`Sleeper`] | sleeps until a channel has something to do, or another thread wakes it |
//!
//! States, races, and the reasons why nothing is lost or delivered twice: `README.md` beside this file.
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
pub use decoder::{ChunkDecoder, DecodeProgress};
pub use error::{AuthFailure, ChannelError};
pub use framed::Framed;
pub use greeting::{TRANSPORT_VERSION, Versions};
pub use identity::Identity;
pub use inproc::{InprocChannel, pair};
pub use keys::{ClientKey, FleetKeys, KeyError, NodeKey};
pub use session::{
    EnqueueOutcome, OutboundChunk, ReceiveStatus, Session, SessionError, SessionOptions,
};
pub use sleeper::{Interest, Ready, Sleeper, WakeReason, Waker};
pub use tcp::{
    Accepted, Connector, HANDSHAKE_COUNT_MAX, HOST_HANDSHAKE_COUNT_MAX, Handshake,
    HandshakeProgress, Listener, TcpChannel, numeric, resolve,
};
