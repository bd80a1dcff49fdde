//! How two engines begin to talk: who they are, which lease they talk about, what the client wants run.

use super::{MessageKind, Reader, put_bytes, put_words, write_message};
use crate::{FrameError, WIRE_VERSION};

/// The first word of each connection.
const MAGIC: u64 = u64::from_le_bytes(*b"gristml\0");

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// A program that submits.
    Client = 1,
    /// A node agent.
    Node = 2,
}

/// The first message of each connection, both ways. Nothing of the rest is read before both agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The version of all layouts.
    pub wire_version: u32,
    /// Who speaks.
    pub role: Role,
    /// The interpreter, as in `3.11`: functions travel as its code.
    pub python: String,
    /// The engine.
    pub engine: String,
    /// What the speaker is called, for messages: host name and process.
    pub name: String,
    /// The lease that is talked about already; 0 is none yet. The client chooses the number.
    pub lease: u64,
    /// Chunks of it that came in.
    pub received: u64,
    /// What a node offers: workers that can run at the same time, bytes of memory, GPUs.
    pub offer: [u64; 3],
    /// Labels that its owner gave it, and other facts, as `name=value` lines.
    pub labels: String,
}

impl Greeting {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Greeting, |out| {
            put_words(
                out,
                [
                    MAGIC,
                    u64::from(self.wire_version) | ((self.role as u64) << 32),
                    self.lease,
                    self.received,
                ],
            );
            put_words(out, self.offer);
            for text in [&self.python, &self.engine, &self.name, &self.labels] {
                put_bytes(out, text.as_bytes());
            }
        })
    }

    /// Reads the message. Of another version of the layouts only the version is read.
    ///
    /// # Errors
    /// It is none.
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let [magic, word] = reader.words()?;
        if magic != MAGIC {
            return Err(FrameError::UnknownKind(magic as u8));
        }
        let wire_version = word as u32;
        let role = match (word >> 32) as u8 {
            1 => Role::Client,
            2 => Role::Node,
            other => return Err(FrameError::UnknownKind(other)),
        };
        if wire_version != WIRE_VERSION {
            return Ok(Self::of_another_version(wire_version, role));
        }
        let [lease, received] = reader.words()?;
        let offer = reader.words()?;
        let mut text = || reader.text();
        let (python, engine, name, labels) = (text()?, text()?, text()?, text()?);
        Ok(Self { wire_version, role, python, engine, name, lease, received, offer, labels })
    }

    fn of_another_version(wire_version: u32, role: Role) -> Self {
        let unknown = String::new;
        Self {
            wire_version,
            role,
            python: unknown(),
            engine: unknown(),
            name: unknown(),
            lease: 0,
            received: 0,
            offer: [0; 3],
            labels: unknown(),
        }
    }
}

/// A client asks for a lease: the right to use workers of a node until it is given back, or until the client was not
/// heard for `expiry_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The number that the client gives it; not 0.
    pub lease: u64,
    /// How many workers; 0 is all that the node offers.
    pub workers: u32,
    /// A worker is replaced after this many tasks; 0 is never.
    pub tasks_per_worker: u32,
    /// Longest silence before the lease ends by itself, nanoseconds.
    pub expiry_ns: u64,
    /// How often each side gives a sign of life, nanoseconds.
    pub beat_ns: u64,
    /// How long the lease is wanted, nanoseconds; `u64::MAX` is until it is given back.
    pub duration_ns: u64,
    /// Bytes of memory that its tasks may ask for together; 0 is its workers' part of what the node has.
    pub memory: u64,
    /// GPUs; `u32::MAX` is all that are free.
    pub gpus: u32,
    /// Bytes of blobs that it keeps in memory without need, and on disk; `u64::MAX` is what the node thinks right.
    pub blob_limits: [u64; 2],
    /// Bytes that contexts may take which nobody uses, with those that are used; `u64::MAX` is what the node thinks right.
    pub context_memory: u64,
    /// Each worker is an interpreter of its own.
    pub spawns_fresh: bool,
    /// Less workers, memory or GPUs will not do.
    pub is_exact: bool,
    /// The interpreter that workers are, for the layer above.
    pub program: Vec<u8>,
    /// The world that they find, for the layer above.
    pub world: Vec<u8>,
}

impl Ask {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Ask, |out| {
            put_words(
                out,
                [
                    self.lease,
                    u64::from(self.workers) | (u64::from(self.tasks_per_worker) << 32),
                    self.expiry_ns,
                    self.beat_ns,
                    self.duration_ns,
                    self.memory,
                    u64::from(self.gpus)
                        | (u64::from(self.spawns_fresh) << 32)
                        | (u64::from(self.is_exact) << 33),
                ],
            );
            put_words(out, self.blob_limits);
            put_words(out, [self.context_memory]);
            put_bytes(out, &self.program);
            put_bytes(out, &self.world);
        })
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body);
        let [lease, counts, expiry_ns, beat_ns, duration_ns, memory, extras] = reader.words()?;
        Ok(Self {
            lease,
            workers: counts as u32,
            tasks_per_worker: (counts >> 32) as u32,
            expiry_ns,
            beat_ns,
            duration_ns,
            memory,
            gpus: extras as u32,
            spawns_fresh: extras & (1 << 32) != 0,
            is_exact: extras & (1 << 33) != 0,
            blob_limits: reader.words()?,
            context_memory: reader.word()?,
            program: reader.sized_bytes()?.to_vec(),
            world: reader.sized_bytes()?.to_vec(),
        })
    }
}

/// A lease is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Its number.
    pub lease: u64,
    /// How many workers it has.
    pub workers: u32,
    /// How long they can be used, nanoseconds; `u64::MAX` is until it is given back.
    pub ends_in_ns: u64,
    /// Bytes of memory that its tasks may ask for; `u64::MAX` is not known.
    pub memory: u64,
    /// GPUs that its tasks may ask for, a bit each.
    pub gpus: u16,
}

impl Grant {
    /// No worker: what a client gives its nodes.
    pub const NOTHING: Self =
        Self { lease: 0, workers: 0, ends_in_ns: u64::MAX, memory: 0, gpus: 0 };

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::Grant, |out| {
            let counts = u64::from(self.workers) | (u64::from(self.gpus) << 32);
            put_words(out, [self.lease, counts, self.ends_in_ns, self.memory]);
        })
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`FrameError::Truncated`].
    #[expect(clippy::cast_possible_truncation, reason = "fields of packed words")]
    pub fn read(body: &[u8]) -> Result<Self, FrameError> {
        let [lease, counts, ends_in_ns, memory] = Reader::new(body).words()?;
        let (workers, gpus) = (counts as u32, (counts >> 32) as u16);
        Ok(Self { lease, workers, ends_in_ns, memory, gpus })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Messages;
    use super::*;
    use proptest::prelude::*;

    fn greeting() -> Greeting {
        Greeting {
            wire_version: WIRE_VERSION,
            role: Role::Node,
            python: "3.11".to_owned(),
            engine: "0.1.0".to_owned(),
            name: "n1:42".to_owned(),
            lease: 7,
            received: 8,
            offer: [2, 1 << 30, 0],
            labels: "rack=a".to_owned(),
        }
    }

    #[test]
    fn greetings_asks_and_grants_come_back() {
        let ask = Ask {
            lease: 1,
            workers: 2,
            tasks_per_worker: 3,
            expiry_ns: 4,
            beat_ns: 5,
            duration_ns: 6,
            memory: 7,
            gpus: 8,
            blob_limits: [9, 10],
            context_memory: 11,
            spawns_fresh: true,
            is_exact: false,
            program: b"program".to_vec(),
            world: b"world".to_vec(),
        };
        let exact = Ask { spawns_fresh: false, is_exact: true, ..ask.clone() };
        let grant = Grant { lease: 1, workers: 2, ends_in_ns: 3, memory: 4, gpus: 5 };
        let mut chunk = Vec::new();
        greeting().write(&mut chunk);
        ask.write(&mut chunk);
        grant.write(&mut chunk);
        exact.write(&mut chunk);
        let bodies: Vec<_> = Messages::new(&chunk).map(|one| one.expect("whole").1).collect();
        assert_eq!(Greeting::read(bodies[0]), Ok(greeting()));
        assert_eq!(Ask::read(bodies[1]), Ok(ask));
        assert_eq!(Grant::read(bodies[2]), Ok(grant));
        assert_eq!(Ask::read(bodies[3]), Ok(exact));
    }

    #[test]
    fn of_another_version_only_the_version_is_read() {
        let mut chunk = Vec::new();
        Greeting { wire_version: WIRE_VERSION + 1, ..greeting() }.write(&mut chunk);
        let read = Greeting::read(&chunk[8..32]).expect("the version is readable");
        assert_eq!((read.wire_version, read.name.as_str()), (WIRE_VERSION + 1, ""));
    }

    proptest! {
        #[test]
        fn any_body_decodes_or_is_refused(bytes: Vec<u8>) {
            let _ = (Greeting::read(&bytes), Ask::read(&bytes), Grant::read(&bytes));
        }
    }
}
