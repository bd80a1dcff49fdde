//! The first bytes on an encrypted connection, with which both ends state their versions.
//!
//! | bytes | type | content |
//! |---|---|---|
//! | 0..8 | | `GRISTMIL` |
//! | 8..12 | `u32` | [`TRANSPORT_VERSION`], little endian |
//! | 12..16 | `u32` | [`gristmill_wire::WIRE_VERSION`], little endian |
//!
//! The listening end greets first, after the other end has proved its key; the connecting end then answers. So when the
//! connecting end sees the greeting, it knows that its key was accepted.

use std::fmt;

use gristmill_wire::WIRE_VERSION;
use thiserror::Error;

/// The version of everything that this crate puts on the wire. Both ends come from one installation, so each refuses other
/// versions.
pub const TRANSPORT_VERSION: u32 = 1;
/// The size of a greeting, bytes.
pub const GREETING_SIZE: usize = 16;

const MAGIC: [u8; 8] = *b"GRISTMIL";

/// The versions that one end speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The version of envelopes and of the greeting.
    pub transport: u32,
    /// The version of the content of chunks.
    pub wire: u32,
}

impl Versions {
    /// The versions of this program.
    pub const OURS: Self = Self { transport: TRANSPORT_VERSION, wire: WIRE_VERSION };
}

impl fmt::Display for Versions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.transport, self.wire)
    }
}

/// The peer proved its key, but its first bytes are not a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the connection began with {found:02x?} instead of a greeting")]
pub struct NoGreeting {
    /// The peer's first bytes.
    pub found: [u8; 8],
}

/// Returns the greeting that states these versions.
pub fn encode(versions: Versions) -> [u8; GREETING_SIZE] {
    let mut bytes = [0; GREETING_SIZE];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&versions.transport.to_le_bytes());
    bytes[12..16].copy_from_slice(&versions.wire.to_le_bytes());
    bytes
}

/// Reads the versions from the peer's greeting.
pub fn decode(bytes: [u8; GREETING_SIZE]) -> Result<Versions, NoGreeting> {
    let [m0, m1, m2, m3, m4, m5, m6, m7, t0, t1, t2, t3, w0, w1, w2, w3] = bytes;
    let found = [m0, m1, m2, m3, m4, m5, m6, m7];
    if found != MAGIC {
        return Err(NoGreeting { found });
    }
    let transport = u32::from_le_bytes([t0, t1, t2, t3]);
    Ok(Versions { transport, wire: u32::from_le_bytes([w0, w1, w2, w3]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_pinned_to_the_byte() {
        let versions = Versions { transport: 0x0102, wire: 0x0304 };
        let bytes = encode(versions);
        assert_eq!(&bytes, b"GRISTMIL\x02\x01\0\0\x04\x03\0\0");
        assert_eq!(decode(bytes), Ok(versions));
        assert_eq!(versions.to_string(), "258.772");
    }

    #[test]
    fn other_bytes_are_no_greeting() {
        assert_eq!(decode(*b"GET / HTTP/1.1\r\n"), Err(NoGreeting { found: *b"GET / HT" }));
    }
}
