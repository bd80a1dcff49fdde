//! Messages between client and keeper: one `SOCK_SEQPACKET` packet each, with descriptors by `SCM_RIGHTS`.
//!
//! A packet starts with a header of 16 bytes, all numbers little-endian: magic `u32`, version `u16`, kind `u16`, length
//! of the body `u32`, flags `u32`. Flag 1 means that the body lies in a memory file, the first descriptor of the
//! packet: packets are bounded by the socket's send buffer, and an environment may be larger. Decoding checks every
//! field and allocates at most a small multiple of the bytes it was given.

mod command;
mod event;
mod field;

pub use command::{Command, Output, Program, Stopped, WorkerKey};
pub use event::{Exit, KeeperEvent, WorkerStart, ZygoteEnd};

use thiserror::Error;

/// The version of these messages. Keeper and client come from one installation and refuse any other version.
pub const CONTROL_VERSION: u16 = 1;
/// Size of the header before each body, bytes.
pub const HEADER_SIZE: usize = 16;
/// Largest body, bytes. Linux limits the arguments and the environment of a program to 6 MiB together.
pub const BODY_LIMIT: usize = 16 << 20;
/// Largest body inside a packet, bytes. Larger bodies travel in a memory file. The limit is well below the smallest
/// usual send buffer (208 KiB) and small enough for the kernel to allocate a packet easily.
pub(crate) const INLINE_LIMIT: usize = 32 << 10;
/// Maximum number of descriptors in one packet. `SCM_MAX_FD` of Linux is 253; no message needs as many.
pub const DESCRIPTOR_LIMIT: usize = 32;

const MAGIC: u32 = u32::from_le_bytes(*b"GKPR");
const FLAG_BODY_IN_FILE: u32 = 1;

/// The reason why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The packet ends before a field ends.
    #[error("a message of the keeper protocol needs {needed} more bytes, and {found} are left")]
    Truncated {
        /// Bytes that the next field needs.
        needed: usize,
        /// Bytes left.
        found: usize,
    },
    /// Bytes follow the last field.
    #[error("a message has {0} bytes too many")]
    Trailing(usize),
    /// The packet does not start with the magic number.
    #[error("a message starts with {0:#010x}, which begins no message of the keeper protocol")]
    BadMagic(u32),
    /// Keeper and client come from different installations.
    #[error("a message has version {found} of the keeper protocol, not {CONTROL_VERSION}")]
    BadVersion {
        /// The version in the packet.
        found: u16,
    },
    /// The kind is unknown in this direction.
    #[error("a message has the unknown kind {0}")]
    UnknownKind(u16),
    /// A field has an impossible value.
    #[error("a message's field {field} cannot be {value}")]
    BadField {
        /// The field's name.
        field: &'static str,
        /// The field's value.
        value: i64,
    },
    /// The body is too large.
    #[error("the body of a message has {size} bytes, and the limit is {BODY_LIMIT}")]
    TooLarge {
        /// The size of the body, bytes.
        size: usize,
    },
    /// A byte string holds a zero byte, which no argument, variable or path can hold.
    #[error("a message's {field} holds a zero byte")]
    ZeroByte {
        /// The field's name.
        field: &'static str,
    },
    /// The packet has fewer or more descriptors than the message needs.
    #[error("a message came with {found} descriptors, not {needed}")]
    Descriptors {
        /// Descriptors that the message needs.
        needed: usize,
        /// Descriptors that came.
        found: usize,
    },
}

/// The header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Number of the message; its meaning depends on the direction.
    pub kind: u16,
    /// Size of the body, bytes.
    pub length: u32,
    /// True if the body lies in the first descriptor.
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

    /// Reads the header of a packet. Returns it with the bytes after it.
    ///
    /// # Errors
    /// The packet is too short, of another protocol or version, or differs from its stated length.
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
