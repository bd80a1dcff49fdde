//! Numbers chunks, keeps them until the other side has them, and repeats them on the next connection.
//!
//! Guarantees: what was submitted on one side is told as fresh on the other exactly once and in order, however many
//! connections it takes, as long as both sessions live; or an error says that the peer broke the protocol. At most
//! [`SessionOptions::unacknowledged_bytes_max`] are kept, and one chunk more.
//! Not here: connections, time, and what chunks mean. States and races: `README.md` beside this file.
//!
//! A new connection begins with each side telling what it has received ([`Session::received`]), in a chunk without a
//! number: every head says it. Then both [`Session::resume`] and send what [`Session::next_outgoing`] gives.

use std::collections::VecDeque;

use thiserror::Error;

use crate::chunk::ChunkHead;

/// How much a session keeps, and how long it waits before it acknowledges by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Above so many bytes of chunks that the peer has not acknowledged, no more are taken.
    pub unacknowledged_bytes_max: usize,
    /// Above so many chunks likewise.
    pub unacknowledged_chunks_max: usize,
    /// After so many bytes received an acknowledgement is due. Well below the peer's limit, or it comes to a standstill.
    pub acknowledge_bytes: usize,
    /// After so many chunks received likewise.
    pub acknowledge_chunks: usize,
}

impl Default for SessionOptions {
    /// 64 MiB kept: four of the largest chunks. Acknowledged after 1 MiB, so that a fast line never waits for it.
    fn default() -> Self {
        Self {
            unacknowledged_bytes_max: 64 << 20,
            unacknowledged_chunks_max: 16 << 10,
            acknowledge_bytes: 1 << 20,
            acknowledge_chunks: 256,
        }
    }
}

/// Why a peer's claims are refused: it is broken or hostile, or not the other end of this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Chunks are missing before this one.
    #[error("chunk {found} came where chunk {expected} belongs")]
    Gap {
        /// The number that came.
        found: u64,
        /// The next number.
        expected: u64,
    },
    /// The peer claims to have received what was not sent.
    #[error("the peer has chunk {claimed}, and {sent} was the last one sent")]
    NeverSent {
        /// The last number that the peer claims to have.
        claimed: u64,
        /// The last number that was sent.
        sent: u64,
    },
    /// The peer had acknowledged chunks that it now claims not to have; they are gone.
    #[error("the peer has chunk {claimed}, after it had acknowledged {acknowledged}")]
    Forgotten {
        /// The last number that the peer claims to have.
        claimed: u64,
        /// The last number that it had acknowledged.
        acknowledged: u64,
    },
}

impl SessionError {
    /// A name that stays the same.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Gap { .. } => "session-gap",
            Self::NeverSent { .. } => "session-never-sent",
            Self::Forgotten { .. } => "session-forgotten",
        }
    }

    /// Never: the session is at its end.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        false
    }
}

/// What became of a chunk that was to be sent.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission<B> {
    /// It is kept until the peer has it, under this number.
    Taken(u64),
    /// Too much is unacknowledged; here it is again.
    Full(B),
}

/// What a chunk that came is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Arrival {
    /// The next one.
    Fresh,
    /// It came before, on an earlier connection: to be dropped.
    Duplicate,
    /// One without a number, which is not repeated.
    Unnumbered,
}

/// A chunk to be put on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its head, which acknowledges what has been received so far.
    pub head: ChunkHead,
    /// Its body.
    pub body: &'a [u8],
}

#[derive(Debug)]
struct Kept<B> {
    kind: u8,
    body: B,
}

/// One side of a conversation that outlives its connections. `B` holds a body: `Vec<u8>`, `Arc<[u8]>`.
#[derive(Debug)]
pub struct Session<B> {
    options: SessionOptions,
    /// From the first one that is not acknowledged on.
    kept: VecDeque<Kept<B>>,
    kept_bytes: usize,
    /// How many of the kept ones this connection was given.
    given: usize,
    /// The last number that any connection was given.
    sent: u64,
    /// The last number that the peer has acknowledged.
    acknowledged: u64,
    /// The kind of that chunk.
    acknowledged_kind: Option<u8>,
    /// The last number that has been received.
    received: u64,
    /// What of that the peer has been told.
    told: u64,
    /// Bytes received since the peer was told.
    untold_bytes: usize,
}

impl<B: AsRef<[u8]>> Session<B> {
    /// A conversation that begins.
    #[must_use]
    pub fn new(options: SessionOptions) -> Self {
        Self {
            options,
            kept: VecDeque::new(),
            kept_bytes: 0,
            given: 0,
            sent: 0,
            acknowledged: 0,
            acknowledged_kind: None,
            received: 0,
            told: 0,
            untold_bytes: 0,
        }
    }

    /// Takes a chunk to be sent, connected or not. A single chunk is taken whatever its size.
    pub fn submit(&mut self, kind: u8, body: B) -> Admission<B> {
        let size = body.as_ref().len();
        let too_much = self.kept_bytes.saturating_add(size) > self.options.unacknowledged_bytes_max
            || self.kept.len() >= self.options.unacknowledged_chunks_max;
        if too_much && !self.kept.is_empty() {
            return Admission::Full(body);
        }
        self.kept_bytes += size;
        self.kept.push_back(Kept { kind, body });
        Admission::Taken(self.last_submitted())
    }

    /// The next chunk for the connection: one that it has not had. Given once for each connection.
    pub fn next_outgoing(&mut self) -> Option<Outgoing<'_>> {
        let kept = self.kept.get(self.given)?;
        self.given += 1;
        let sequence = self.acknowledged + self.given as u64;
        self.sent = self.sent.max(sequence);
        self.told = self.received;
        self.untold_bytes = 0;
        let head = ChunkHead { kind: kept.kind, sequence, acknowledged: self.received };
        Some(Outgoing { head, body: kept.body.as_ref() })
    }

    /// Whether [`Session::next_outgoing`] has one.
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        self.given < self.kept.len()
    }

    /// Takes in the head of a chunk that came, and the size of its body.
    ///
    /// # Errors
    /// The peer broke the protocol. Nothing has changed.
    pub fn accept(&mut self, head: &ChunkHead, size: usize) -> Result<Arrival, SessionError> {
        let expected = self.received + 1;
        if head.sequence > expected {
            return Err(SessionError::Gap { found: head.sequence, expected });
        }
        // An older count than the last one is no error: heads may be made in one order and sent in another.
        self.release(head.acknowledged)?;
        if head.sequence == 0 {
            return Ok(Arrival::Unnumbered);
        }
        if head.sequence < expected {
            return Ok(Arrival::Duplicate);
        }
        self.untold_bytes = self.untold_bytes.saturating_add(size);
        self.received = head.sequence;
        Ok(Arrival::Fresh)
    }

    /// Whether so much has come since the peer was last told that it should be told at once, and not with the next chunk.
    #[must_use]
    pub fn acknowledgement_is_due(&self) -> bool {
        let untold = self.received - self.told;
        self.untold_bytes >= self.options.acknowledge_bytes
            || untold >= self.options.acknowledge_chunks as u64
    }

    /// Whether anything has come that the peer has not been told of.
    #[must_use]
    pub fn owes_acknowledgement(&self) -> bool {
        self.received > self.told
    }

    /// The head of a chunk without a number that tells the peer what has come. Not kept and not repeated.
    pub fn unnumbered(&mut self, kind: u8) -> ChunkHead {
        self.told = self.received;
        self.untold_bytes = 0;
        ChunkHead { kind, sequence: 0, acknowledged: self.received }
    }

    /// Begins anew on another connection, whose peer says that it has received this much: says how many chunks
    /// [`Session::next_outgoing`] will give again, or for the first time.
    ///
    /// # Errors
    /// That cannot be, so that the peer is not the other end of this session. Nothing has changed.
    pub fn resume(&mut self, peer_received: u64) -> Result<usize, SessionError> {
        if peer_received < self.acknowledged {
            let (claimed, acknowledged) = (peer_received, self.acknowledged);
            return Err(SessionError::Forgotten { claimed, acknowledged });
        }
        self.release(peer_received)?;
        self.given = 0;
        Ok(self.kept.len())
    }

    /// The chunks that no connection was given, in order, each with its kind: the peer cannot have them.
    pub fn never_given(&self) -> impl Iterator<Item = (u8, &B)> {
        let given = usize::try_from(self.sent - self.acknowledged).unwrap_or(usize::MAX);
        self.kept.iter().skip(given).map(|kept| (kept.kind, &kept.body))
    }

    /// The last number that has been received: what the peer needs to resume.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The chunks that the peer has not acknowledged, in order, each with its kind: if it has said that it takes nothing more,
    /// it does not have them.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u8, &B)> {
        self.kept.iter().map(|kept| (kept.kind, &kept.body))
    }

    /// The kind of the last chunk that the peer has acknowledged.
    #[must_use]
    pub fn acknowledged_kind(&self) -> Option<u8> {
        self.acknowledged_kind
    }

    /// The last number that the peer has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The last number that was submitted.
    #[must_use]
    pub fn last_submitted(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    /// Bytes of bodies that are kept.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Chunks that are kept.
    #[must_use]
    pub fn unacknowledged_chunks(&self) -> usize {
        self.kept.len()
    }

    /// Drops what the peer has.
    fn release(&mut self, claimed: u64) -> Result<(), SessionError> {
        if claimed > self.sent {
            return Err(SessionError::NeverSent { claimed, sent: self.sent });
        }
        while self.acknowledged < claimed {
            let Some(kept) = self.kept.pop_front() else { break };
            self.kept_bytes -= kept.body.as_ref().len();
            self.acknowledged += 1;
            self.acknowledged_kind = Some(kept.kind);
            self.given = self.given.saturating_sub(1);
        }
        Ok(())
    }
}
