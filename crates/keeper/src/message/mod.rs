//! Messages between client and keeper: one `SOCK_SEQPACKET` packet each, descriptors beside it by
//! `SCM_RIGHTS`.
//!
//! A packet starts with a header of 16 bytes, all numbers little-endian: magic `u32`, version
//! `u16`, kind `u16`, length of the body `u32`, flags `u32`. Flag 1 says that the body lies in a
//! memory file, the first descriptor of the packet: packets are bounded by the socket's send buffer
//! and an environment may be larger. Decoding checks every field and allocates no more than a small
//! multiple of the bytes it was given.

mod command;
mod event;
mod field;

pub use command::{Command, Output, Program, WorkerKey};
pub use event::{Birth, Event, Exit, ZygoteEnd};

use thiserror::Error;

/// The version of these messages. Keeper and client come from one installation and refuse any other
/// version.
pub const CONTROL_VERSION: u16 = 1;
/// Size of the header before each body, bytes.
pub const HEADER_SIZE: usize = 16;
/// Largest body, bytes: Linux lets arguments and environment of one program together have no more
/// than 6 MiB.
pub const BODY_LIMIT: usize = 16 << 20;
/// Bodies above this travel in a memory file, bytes: well below the smallest usual send buffer (208
/// KiB) and within what the kernel allocates for a packet without strain.
pub(crate) const INLINE_LIMIT: usize = 32 << 10;
/// Most descriptors that one packet carries: `SCM_MAX_FD` of Linux is 253, nobody needs as many
/// here.
pub const DESCRIPTOR_LIMIT: usize = 32;

const MAGIC: u32 = u32::from_le_bytes(*b"GKPR");
const FLAG_BODY_IN_FILE: u32 = 1;

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The packet ends before a field does.
    #[error("a message needs {needed} more bytes where {found} are left")]
    Truncated {
        /// Bytes that the next field needs.
        needed: usize,
        /// Bytes left.
        found: usize,
    },
    /// Bytes are left behind the last field.
    #[error("a message has {0} bytes too many")]
    Trailing(usize),
    /// The packet does not start with the magic number.
    #[error("a message starts with {0:#010x}, which is no message of a keeper")]
    BadMagic(u32),
    /// Keeper and client are of different installations.
    #[error("a message has version {found}, where version {CONTROL_VERSION} is spoken")]
    BadVersion {
        /// The version that the packet states.
        found: u16,
    },
    /// The kind names no message in this direction.
    #[error("a message has the unknown kind {0}")]
    UnknownKind(u16),
    /// A field holds a value that it cannot have.
    #[error("a message's field {field} cannot be {value}")]
    BadField {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: i64,
    },
    /// The body is too large.
    #[error("a message's body has {size} bytes, where {BODY_LIMIT} are the limit")]
    TooLarge {
        /// The size of the body, bytes.
        size: usize,
    },
    /// A byte string holds a zero byte, which no argument, variable or path can.
    #[error("a message's {field} holds a zero byte")]
    ZeroByte {
        /// Which field.
        field: &'static str,
    },
    /// Fewer or more descriptors came along than the message says.
    #[error("a message came with {found} descriptors, where {needed} belong to it")]
    Descriptors {
        /// Descriptors that the message needs.
        needed: usize,
        /// Descriptors that came.
        found: usize,
    },
}

impl MessageError {
    /// A stable name for logs, tests and the Python face.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "keeper_message_truncated",
            Self::Trailing(_) => "keeper_message_trailing",
            Self::BadMagic(_) => "keeper_message_magic",
            Self::BadVersion { .. } => "keeper_message_version",
            Self::UnknownKind(_) => "keeper_message_kind",
            Self::BadField { .. } => "keeper_message_field",
            Self::TooLarge { .. } => "keeper_message_size",
            Self::ZeroByte { .. } => "keeper_message_zero_byte",
            Self::Descriptors { .. } => "keeper_message_descriptors",
        }
    }
}

/// What the header of a packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which message this is; the direction decides what a number means.
    pub kind: u16,
    /// Size of the body, bytes.
    pub length: u32,
    /// Whether the body lies in the first descriptor.
    pub body_in_file: bool,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&CONTROL_VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        let flags = if self.body_in_file { FLAG_BODY_IN_FILE } else { 0 };
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    /// Reads the header of a packet and returns it with the bytes behind it.
    ///
    /// # Errors
    /// The packet is too short, of another protocol or version, or disagrees with its own length.
    pub fn decode(packet: &[u8]) -> Result<(Self, &[u8]), MessageError> {
        let (head, inline) = packet
            .split_at_checked(HEADER_SIZE)
            .ok_or(MessageError::Truncated { needed: HEADER_SIZE, found: packet.len() })?;
        let mut fields = field::Reader::new(head);
        let magic = fields.u32()?;
        if magic != MAGIC {
            return Err(MessageError::BadMagic(magic));
        }
        let version = fields.u16()?;
        if version != CONTROL_VERSION {
            return Err(MessageError::BadVersion { found: version });
        }
        let kind = fields.u16()?;
        let length = fields.u32()?;
        let flags = fields.u32()?;
        if flags & !FLAG_BODY_IN_FILE != 0 {
            return Err(MessageError::BadField { field: "flags", value: flags.into() });
        }
        let body_in_file = flags & FLAG_BODY_IN_FILE != 0;
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if size > BODY_LIMIT {
            return Err(MessageError::TooLarge { size });
        }
        let expected = if body_in_file { 0 } else { size };
        if inline.len() < expected {
            return Err(MessageError::Truncated { needed: expected, found: inline.len() });
        }
        if inline.len() > expected {
            return Err(MessageError::Trailing(inline.len() - expected));
        }
        Ok((Self { kind, length, body_in_file }, inline))
    }
}

#[cfg(test)]
mod tests;
