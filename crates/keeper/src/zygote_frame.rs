//! The packets between a keeper and a zygote: fixed structures that Python packs with `struct`.
//!
//! A zygote has a `SOCK_SEQPACKET` socket at descriptor 3. Every packet in both directions has 24 bytes, little-endian,
//! in the format `"<IHHHHIiI"`:
//!
//! | field | type | meaning |
//! |---|---|---|
//! | magic | `u32` | `0x31595A47`, the bytes `GZY1` |
//! | version | `u16` | 1 |
//! | kind | `u16` | 1 READY, 2 FORK, 3 STARTED, 4 `FORK_FAILED` |
//! | slot | `u16` | of the worker; 0 in READY |
//! | reserved | `u16` | 0 |
//! | epoch | `u32` | of the worker; 0 in READY |
//! | value | `i32` | READY and STARTED: process id of the sender. `FORK_FAILED`: errno. FORK: 0 |
//! | reserved | `u32` | 0 |
//!
//! 1. When its imports are done the zygote sends READY. The keeper sends no FORK before that.
//! 2. The keeper sends FORK with descriptors: first the writing end of the worker's stderr pipe, then those that the
//!    client passed.
//! 3. The zygote forks an intermediate child, which forks the worker and exits. The zygote reaps the intermediate child
//!    and closes its copies of the descriptors. If a fork fails, the zygote or the intermediate child sends
//!    `FORK_FAILED`. The zygote may have forked the worker before FORK came ([`crate::Zygote`] does so); the keeper
//!    sees no difference.
//! 4. The worker moves its stderr pipe to descriptor 2, waits until it is the keeper's child, asks for SIGKILL at the
//!    keeper's death, calls `setsid` ([`crate::become_worker`] does these), sends STARTED, and closes the socket. If STARTED
//!    cannot be sent, the keeper has given the zygote up already, and the worker exits.
//! 5. An end of file on the socket tells the zygote to exit.
//!
//! The keeper compares the process id in STARTED with the credentials of the packet. If a packet violates this format, the
//! keeper kills the zygote but not its workers.

use crate::message::WorkerKey;

/// Size of each packet, bytes.
pub const ZYGOTE_FRAME_SIZE: usize = 24;
/// The descriptor at which a zygote finds its socket.
pub const ZYGOTE_DESCRIPTOR: i32 = 3;

const MAGIC: [u8; 4] = *b"GZY1";
const VERSION: u16 = 1;

/// A packet on a zygote's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZygoteFrame {
    /// From the zygote: it is ready to fork.
    Ready {
        /// The zygote's process id.
        pid: i32,
    },
    /// From the keeper: fork this worker.
    Fork(WorkerKey),
    /// From the worker: it has started.
    Started {
        /// The worker.
        worker: WorkerKey,
        /// The worker's process id.
        pid: i32,
    },
    /// From the zygote: the worker could not be forked.
    ForkFailed {
        /// The worker.
        worker: WorkerKey,
        /// The error number of the fork.
        errno: i32,
    },
}

impl ZygoteFrame {
    /// Returns the packet's bytes.
    #[must_use]
    pub fn encode(self) -> [u8; ZYGOTE_FRAME_SIZE] {
        let no_worker = WorkerKey::new(0, 0);
        let (kind, worker, value): (u16, _, i32) = match self {
            Self::Ready { pid } => (1, no_worker, pid),
            Self::Fork(worker) => (2, worker, 0),
            Self::Started { worker, pid } => (3, worker, pid),
            Self::ForkFailed { worker, errno } => (4, worker, errno),
        };
        let mut bytes = [0; ZYGOTE_FRAME_SIZE];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..10].copy_from_slice(&worker.slot.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&worker.epoch.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Decodes a packet. Returns `None` unless the bytes are exactly one packet. Reserved fields are ignored.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let bytes: &[u8; ZYGOTE_FRAME_SIZE] = packet.try_into().ok()?;
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if word(0) != MAGIC || short(4) != VERSION {
            return None;
        }
        let worker = WorkerKey::new(short(8), u32::from_le_bytes(word(12)));
        let value = i32::from_le_bytes(word(16));
        match short(6) {
            1 => Some(Self::Ready { pid: value }),
            2 => Some(Self::Fork(worker)),
            3 => Some(Self::Started { worker, pid: value }),
            4 => Some(Self::ForkFailed { worker, errno: value }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_pinned_to_the_byte() {
        let started = ZygoteFrame::Started { worker: WorkerKey::new(0x0102, 0x0304_0506), pid: 7 };
        let bytes = b"GZY1\x01\0\x03\0\x02\x01\0\0\x06\x05\x04\x03\x07\0\0\0\0\0\0\0";
        assert_eq!(&started.encode(), bytes);
        assert_eq!(u32::from_le_bytes(MAGIC), 0x3159_5A47);
    }

    #[test]
    fn packets_survive_the_wire_and_others_are_refused() {
        let worker = WorkerKey::new(u16::MAX, u32::MAX);
        for frame in [
            ZygoteFrame::Ready { pid: 1 },
            ZygoteFrame::Fork(worker),
            ZygoteFrame::Started { worker, pid: i32::MAX },
            ZygoteFrame::ForkFailed { worker, errno: 11 },
        ] {
            let bytes = frame.encode();
            assert_eq!(ZygoteFrame::decode(&bytes), Some(frame));
            assert_eq!(ZygoteFrame::decode(&bytes[..23]), None);
            for position in 0..8 {
                let mut altered = bytes;
                altered[position] ^= 0x80;
                assert_eq!(ZygoteFrame::decode(&altered), None);
            }
        }
        assert_eq!(ZygoteFrame::decode(&[]), None);
    }
}
