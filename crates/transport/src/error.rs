//! Errors of channels.

use std::error::Error;
use std::fmt;
use std::io;

use crate::chunk::EnvelopeError;
use crate::greeting::Versions;

/// The reason why a channel could not be made, or has ended. Every variant ends the connection, except
/// [`ChannelError::TooLarge`] from a `send`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The peer closed in order: everything that it sent before has been received.
    #[error("{peer} closed the connection")]
    Closed {
        /// The peer's address.
        peer: String,
    },
    /// The connection broke, or bytes were altered on the way. Chunks may be lost in both directions.
    #[error("the connection to {peer} was lost: {source}")]
    Lost {
        /// The peer's address.
        peer: String,
        /// The error of the system or of the TLS record layer.
        source: io::Error,
    },
    /// One of the two keys is not the one that the other side expects.
    #[error("{peer} and this process do not trust each other: {mistrust}")]
    Unauthenticated {
        /// The peer's address.
        peer: String,
        /// The check that failed.
        mistrust: AuthFailure,
    },
    /// The peer proved its key but speaks another version.
    #[error("{peer} uses version {theirs} of the protocol, and this process uses version {ours}")]
    Version {
        /// The peer's address.
        peer: String,
        /// The versions of this process.
        ours: Versions,
        /// The versions of the peer.
        theirs: Versions,
    },
    /// The bytes do not belong to this protocol: they are not TLS of the kind used here, or not an envelope.
    #[error("{peer} sent bytes that are not of this protocol: {source}")]
    Garbage {
        /// The peer's address.
        peer: String,
        /// The fault of the bytes.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The chunk exceeds the limit. It was refused before it was sent, or the peer announced it.
    #[error("a chunk of {size} bytes is too large: the limit is {limit}")]
    TooLarge {
        /// The size of the chunk, bytes.
        size: usize,
        /// The largest allowed size, bytes.
        limit: usize,
    },
    /// The deadline passed before the peer had proved its key.
    #[error("{peer} did not finish the handshake in time")]
    Silent {
        /// The peer's address.
        peer: String,
    },
    /// The connection could not be established, or the name has no address.
    #[error("cannot reach {address}: {source}")]
    Unreachable {
        /// The address that was tried.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// This process cannot listen at an address.
    #[error("cannot listen at {address}: {source}")]
    Deaf {
        /// The address.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl ChannelError {
    /// Returns true if another attempt may succeed, because the cause is the network or temporary.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. } | Self::Silent { .. } | Self::Unreachable { .. } | Self::Deaf { .. }
        )
    }
}

/// The check of a key that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFailure {
    /// The peer showed a key of another fleet, or of the other role.
    OtherKey,
    /// The peer showed no key.
    NoKey,
    /// The peer showed the expected key but could not prove that it has the private half.
    NoProof,
    /// The peer did not accept the key of this process.
    OursRefused,
}

impl fmt::Display for AuthFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OtherKey => "the key of the peer is of another fleet, or of the other role",
            Self::NoKey => "the peer showed no key",
            Self::NoProof => "the peer could not prove that it owns its key",
            Self::OursRefused => "the peer did not accept the key of this process",
        })
    }
}

/// Returns the channel error for received bytes that are not an envelope, or for a chunk that is too large: one that the peer
/// announces, or one that this process is about to send.
pub(crate) fn bad_envelope(peer: &str, error: EnvelopeError) -> ChannelError {
    match error {
        EnvelopeError::TooLarge { size, limit } => ChannelError::TooLarge { size, limit },
        other => ChannelError::Garbage { peer: peer.to_owned(), source: Box::new(other) },
    }
}

/// Adds the peer's address to an error of the system.
pub(crate) fn lost(peer: &str) -> impl FnOnce(io::Error) -> ChannelError {
    move |source| ChannelError::Lost { peer: peer.to_owned(), source }
}
