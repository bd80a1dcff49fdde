//! What can go wrong between two ends.

use std::error::Error;
use std::fmt;
use std::io;

use crate::chunk::EnvelopeError;
use crate::greeting::Versions;

/// Why a channel could not be made, or came to its end. Every variant but [`ChannelError::TooLarge`] from a `send` is the
/// end: the connection is good for nothing more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The peer closed in order: everything that it sent before has been received.
    #[error("{peer} closed the connection")]
    Closed {
        /// Its address.
        peer: String,
    },
    /// The connection broke, or its bytes were altered on the way; chunks may be lost in both directions.
    #[error("the connection to {peer} was lost: {source}")]
    Lost {
        /// Its address.
        peer: String,
        /// What the system, or the record layer, said.
        source: io::Error,
    },
    /// One of the two keys is not the one that the other side expects.
    #[error("{peer} and this process do not trust each other: {mistrust}")]
    Unauthenticated {
        /// Its address.
        peer: String,
        /// Who doubts what.
        mistrust: Mistrust,
    },
    /// The peer proved its key and speaks another version.
    #[error("{peer} speaks version {theirs} of the protocol, and this process {ours}")]
    Version {
        /// Its address.
        peer: String,
        /// What is spoken here.
        ours: Versions,
        /// What is spoken there.
        theirs: Versions,
    },
    /// Bytes that are not of this protocol: no TLS of the kind used here, or no envelope.
    #[error("{peer} sent what is not of this protocol: {source}")]
    Garbage {
        /// Its address.
        peer: String,
        /// What was wrong with them.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A chunk beyond the limit: refused before it is sent, or announced by the peer.
    #[error("a chunk of {size} bytes is too large: at most {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The most that there may be.
        limit: usize,
    },
    /// The deadline passed before the peer had proved its key.
    #[error("{peer} did not finish the handshake in time")]
    Silent {
        /// Its address.
        peer: String,
    },
    /// No connection came about, or a name leads to no address.
    #[error("cannot reach {address}: {source}")]
    Unreachable {
        /// What was tried.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// No connection can be taken at an address.
    #[error("cannot listen at {address}: {source}")]
    Deaf {
        /// Which address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

impl ChannelError {
    /// A name that stays the same.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "channel-closed",
            Self::Lost { .. } => "channel-lost",
            Self::Unauthenticated { .. } => "channel-unauthenticated",
            Self::Version { .. } => "channel-version",
            Self::Garbage { .. } => "channel-garbage",
            Self::TooLarge { .. } => "channel-too-large",
            Self::Silent { .. } => "channel-silent",
            Self::Unreachable { .. } => "channel-unreachable",
            Self::Deaf { .. } => "channel-deaf",
        }
    }

    /// Whether another attempt may do better: the reason lies between the two ends, or in the moment.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. } | Self::Silent { .. } | Self::Unreachable { .. } | Self::Deaf { .. }
        )
    }
}

/// What was wrong with the keys of two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistrust {
    /// The peer showed a key that is not the expected one: of another fleet, or of the other role.
    OtherKey,
    /// The peer showed no key.
    NoKey,
    /// The peer showed the expected key and could not prove that it has the private half.
    NoProof,
    /// The peer did not accept the key of this process.
    OursRefused,
}

impl fmt::Display for Mistrust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OtherKey => "its key is of another fleet, or of the other role",
            Self::NoKey => "it showed no key",
            Self::NoProof => "it could not prove that its key is its own",
            Self::OursRefused => "it did not accept the key of this process",
        })
    }
}

/// The peer's bytes are no envelope, or announce too much.
pub(crate) fn bad_envelope(peer: &str, error: EnvelopeError) -> ChannelError {
    match error {
        EnvelopeError::TooLarge { size, limit } => ChannelError::TooLarge { size, limit },
        other => ChannelError::Garbage { peer: peer.to_owned(), source: Box::new(other) },
    }
}

/// Names the peer that an operating error belongs to.
pub(crate) fn lost(peer: &str) -> impl FnOnce(io::Error) -> ChannelError {
    move |source| ChannelError::Lost { peer: peer.to_owned(), source }
}
