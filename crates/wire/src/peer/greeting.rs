//! The first messages between two engines: their identities, the lease they continue, and the client's request for a lease.

use super::{MessageKind, Reader, put_bytes, put_words, write_message};
use crate::{FrameError, WIRE_VERSION};

/// The first word of each connection.
const MAGIC: u64 = u64::from_le_bytes(*b"gristml\0");

/// The role of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// A program that submits.
    Client = 1,
    /// A node agent.
    Node = 2,
}

/// The first message of each connection, both ways. An engine reads nothing else before both sides agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The version of all layouts.
    pub wire_version: u32,
    /// The role of the sender.
    pub role: Role,
    /// The version of the interpreter, as in `3.11`: functions travel as its code.
    pub python: String,
    /// The version of the engine.
    pub engine: String,
    /// The name of the sender, for messages: host name and process.
    pub name: String,
    /// The lease that the connection continues; 0 means none yet. The client chooses the number.
    pub lease: u64,
    /// Chunks of that lease that the sender has received.
    pub received: u64,
    /// The offer of a node: workers that can run at the same time, bytes of memory, GPUs.
    pub offer: [u64; 3],
    /// The largest message that the sender takes in several chunks, bytes.
    pub message_max: u64,
    /// Labels that the node's owner gave it, and other facts, as `name=value` lines.
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
            put_words(out, [self.message_max]);
            for text in [&self.python, &self.engine, &self.name, &self.labels] {
                put_bytes(out, text.as_bytes());
            }
        })
    }

    /// Reads the message. If the version of the layouts differs, it reads only that version and the role.
    ///
    /// # Errors
    /// The message is not a greeting.
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
        let message_max = reader.word()?;
        let mut text = || reader.name();
        let (python, engine, name) = (text()?, text()?, text()?);
        let labels = reader.text()?;
        Ok(Self {
            wire_version,
            role,
            python,
            engine,
            name,
            lease,
            received,
            offer,
            message_max,
            labels,
        })
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
            message_max: 0,
            labels: unknown(),
        }
    }
}

/// A client's request for a lease: the right to use workers of a node until the lease is given back, or until the node has not
/// heard the client for `expiry_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The number that the client gives the lease; not 0.
    pub lease: u64,
    /// The number of workers; 0 means all that the node offers.
    pub workers: u32,
    /// The number of tasks after which a worker is replaced; 0 means never.
    pub tasks_per_worker: u32,
    /// The longest silence before the lease ends by itself, nanoseconds.
    pub expiry_ns: u64,
    /// The interval between the heartbeats of each side, nanoseconds.
    pub beat_ns: u64,
    /// The duration that the client wants, nanoseconds; `u64::MAX` means until it is given back.
    pub duration_ns: u64,
    /// Bytes of memory that its tasks may request together; 0 means its workers' part of the node's memory.
    pub memory: u64,
    /// The number of GPUs; `u32::MAX` means all that are free.
    pub gpus: u32,
    /// Bytes of unused blobs that the lease keeps in memory, and on disk; `u64::MAX` means the node's default.
    pub blob_limits: [u64; 2],
    /// The limit of the memory of all contexts, bytes; `u64::MAX` means the node's default. Above it, unused contexts are
    /// dropped.
    pub context_memory: u64,
    /// True if each worker starts as a new interpreter.
    pub spawns_fresh: bool,
    /// True if the client does not accept fewer workers or GPUs, or less memory.
    pub is_exact: bool,
    /// The interpreter of the workers; the layer above defines the format.
    pub program: Vec<u8>,
    /// The environment of the workers; the layer above defines the format.
    pub worker_environment: Vec<u8>,
}

impl LeaseRequest {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) -> usize {
        write_message(out, MessageKind::LeaseRequest, |out| {
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
            put_bytes(out, &self.worker_environment);
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
            worker_environment: reader.sized_bytes()?.to_vec(),
        })
    }
}

/// A granted lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The number of the lease.
    pub lease: u64,
    /// The number of workers.
    pub workers: u32,
    /// The time for which the workers can be used, nanoseconds; `u64::MAX` means until the lease is given back.
    pub ends_in_ns: u64,
    /// Bytes of memory that its tasks may request; `u64::MAX` means unknown.
    pub memory: u64,
    /// GPUs that its tasks may request, one bit each.
    pub gpus: u16,
}

impl LeaseGrant {
    /// A grant without workers, which a client gives its nodes.
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
    use super::super::reader::TEXT_SIZE_MAX;
    use super::*;
    use crate::NAME_SIZE_MAX;
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
            message_max: 1 << 27,
            labels: "rack=a".to_owned(),
        }
    }

    #[test]
    fn greetings_asks_and_grants_come_back() {
        let request = LeaseRequest {
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
            worker_environment: b"world".to_vec(),
        };
        let exact = LeaseRequest { spawns_fresh: false, is_exact: true, ..request.clone() };
        let grant = LeaseGrant { lease: 1, workers: 2, ends_in_ns: 3, memory: 4, gpus: 5 };
        let mut chunk = Vec::new();
        greeting().write(&mut chunk);
        request.write(&mut chunk);
        grant.write(&mut chunk);
        exact.write(&mut chunk);
        let bodies: Vec<_> = Messages::new(&chunk).map(|one| one.expect("whole").1).collect();
        assert_eq!(Greeting::read(bodies[0]), Ok(greeting()));
        assert_eq!(LeaseRequest::read(bodies[1]), Ok(request));
        assert_eq!(LeaseGrant::read(bodies[2]), Ok(grant));
        assert_eq!(LeaseRequest::read(bodies[3]), Ok(exact));
    }

    #[test]
    fn names_and_labels_without_end_are_cut() {
        let text = || "y".repeat(TEXT_SIZE_MAX + 1);
        let (name, python, engine, labels) = (text(), text(), text(), text());
        let mut chunk = Vec::new();
        Greeting { name, python, engine, labels, ..greeting() }.write(&mut chunk);
        let body = Messages::new(&chunk).next().expect("one").expect("whole").1;
        let read = Greeting::read(body).expect("a greeting");
        let sizes = [read.python, read.engine, read.name, read.labels].map(|text| text.len());
        assert_eq!(sizes, [NAME_SIZE_MAX, NAME_SIZE_MAX, NAME_SIZE_MAX, TEXT_SIZE_MAX]);
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
            let _ = (Greeting::read(&bytes), LeaseRequest::read(&bytes), LeaseGrant::read(&bytes));
        }
    }
}
