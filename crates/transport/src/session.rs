//! A session that numbers chunks, keeps them until the other side has them, and repeats them on the next connection.
//!
//! Guarantees: each chunk submitted on one side is reported as fresh on the other side exactly once and in order, however
//! many connections this takes, while both sessions live. If the peer breaks this protocol, [`Session::accept`] or
//! [`Session::resume`] fails. A session keeps at most [`SessionOptions::unacknowledged_bytes_max`] bytes of chunks, or one
//! larger chunk.
//! Not here: connections, time, and the meaning of chunks. States and races: `README.md` beside this file.
//!
//! On a new connection, each side first states what it has received ([`Session::received`]), in a chunk without a number: every
//! head contains this count. Then both call [`Session::resume`] and send the chunks that [`Session::next_outgoing`] returns.

use std::collections::VecDeque;

use thiserror::Error;

use crate::chunk::ChunkHead;

/// Limits on the chunks that a session keeps, and thresholds for acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// The limit of bytes in chunks that the peer has not acknowledged. At the limit, the session refuses further chunks.
    pub unacknowledged_bytes_max: usize,
    /// The limit of chunks that the peer has not acknowledged.
    pub unacknowledged_chunks_max: usize,
    /// The number of received bytes after which an acknowledgement is due. It must be well below the peer's limit, or the
    /// session stalls.
    pub acknowledge_bytes: usize,
    /// The number of received chunks after which an acknowledgement is due.
    pub acknowledge_chunks: usize,
}

impl Default for SessionOptions {
    /// Returns limits of 64 MiB (four of the largest chunks) and an acknowledgement after 1 MiB, so that a fast connection
    /// never waits for one.
    fn default() -> Self {
        Self {
            unacknowledged_bytes_max: 64 << 20,
            unacknowledged_chunks_max: 16 << 10,
            acknowledge_bytes: 1 << 20,
            acknowledge_chunks: 256,
        }
    }
}

/// A false claim of the peer. The peer is broken or hostile, or not the other end of this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Chunks are missing before this one.
    #[error("the peer sent chunk {found} instead of chunk {expected}")]
    Gap {
        /// The number of the chunk that came.
        found: u64,
        /// The next number.
        expected: u64,
    },
    /// The peer claims to have received a chunk that was not sent.
    #[error("the peer acknowledges chunk {claimed}, and {sent} was the last one sent")]
    NeverSent {
        /// The last number that the peer claims to have.
        claimed: u64,
        /// The last number that was sent.
        sent: u64,
    },
    /// The peer claims not to have chunks that it had acknowledged before; they are gone.
    #[error("the peer acknowledges chunk {claimed}, after it had acknowledged {acknowledged}")]
    Forgotten {
        /// The last number that the peer claims to have.
        claimed: u64,
        /// The last number that the peer had acknowledged.
        acknowledged: u64,
    },
}

/// The result of submitting a chunk.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum EnqueueOutcome<B> {
    /// The chunk is kept under this number until the peer has it.
    Taken(u64),
    /// The limit is reached; contains the refused body.
    Full(B),
}

/// The status of a received chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum ReceiveStatus {
    /// The next chunk in order.
    Fresh,
    /// A chunk that came before, on an earlier connection. The caller must drop it.
    Duplicate,
    /// A chunk without a number, which is never repeated.
    Unnumbered,
}

/// A chunk to put on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboundChunk<'a> {
    /// The head, which acknowledges everything received so far.
    pub head: ChunkHead,
    /// The body.
    pub body: &'a [u8],
}

#[derive(Debug)]
struct UnacknowledgedChunk<B> {
    kind: u8,
    body: B,
}

/// One side of a conversation that outlives its connections. `B` holds a body: `Vec<u8>`, `Arc<[u8]>`.
#[derive(Debug)]
pub struct Session<B> {
    options: SessionOptions,
    /// Chunks from the first unacknowledged one on.
    kept: VecDeque<UnacknowledgedChunk<B>>,
    kept_bytes: usize,
    /// The number of kept chunks that this connection was given.
    given: usize,
    /// The last number that any connection was given.
    sent: u64,
    /// The last number that the peer has acknowledged.
    acknowledged: u64,
    /// The kind of the last acknowledged chunk.
    acknowledged_kind: Option<u8>,
    /// The last number received.
    received: u64,
    /// The last received number that the peer was told.
    told: u64,
    /// Bytes received since the peer was told.
    untold_bytes: usize,
}

impl<B: AsRef<[u8]>> Session<B> {
    /// Creates the session of a new conversation.
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

    /// Takes a chunk to send; works without a connection too. If no other chunk is kept, it takes a chunk of any size.
    pub fn submit(&mut self, kind: u8, body: B) -> EnqueueOutcome<B> {
        let size = body.as_ref().len();
        let too_much = self.kept_bytes.saturating_add(size) > self.options.unacknowledged_bytes_max
            || self.kept.len() >= self.options.unacknowledged_chunks_max;
        if too_much && !self.kept.is_empty() {
            return EnqueueOutcome::Full(body);
        }
        self.kept_bytes += size;
        self.kept.push_back(UnacknowledgedChunk { kind, body });
        EnqueueOutcome::Taken(self.last_submitted())
    }

    /// Returns the next chunk that this connection was not given. Each connection is given a chunk once.
    pub fn next_outgoing(&mut self) -> Option<OutboundChunk<'_>> {
        let kept = self.kept.get(self.given)?;
        self.given += 1;
        let sequence = self.acknowledged + self.given as u64;
        self.sent = self.sent.max(sequence);
        self.told = self.received;
        self.untold_bytes = 0;
        let head = ChunkHead { kind: kept.kind, sequence, acknowledged: self.received };
        Some(OutboundChunk { head, body: kept.body.as_ref() })
    }

    /// Returns true if [`Session::next_outgoing`] has a chunk.
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        self.given < self.kept.len()
    }

    /// Processes the head of a received chunk, and the size of its body.
    ///
    /// # Errors
    /// The peer broke the protocol. Nothing has changed.
    pub fn accept(&mut self, head: &ChunkHead, size: usize) -> Result<ReceiveStatus, SessionError> {
        let expected = self.received + 1;
        if head.sequence > expected {
            return Err(SessionError::Gap { found: head.sequence, expected });
        }
        // A count below the last one is no error, because heads may be made in one order and sent in another.
        self.release(head.acknowledged)?;
        if head.sequence == 0 {
            return Ok(ReceiveStatus::Unnumbered);
        }
        if head.sequence < expected {
            return Ok(ReceiveStatus::Duplicate);
        }
        self.untold_bytes = self.untold_bytes.saturating_add(size);
        self.received = head.sequence;
        Ok(ReceiveStatus::Fresh)
    }

    /// Returns true if so much has come since the peer was last told that it should be told at once, not with the next chunk.
    #[must_use]
    pub fn acknowledgement_is_due(&self) -> bool {
        let untold = self.received - self.told;
        self.untold_bytes >= self.options.acknowledge_bytes
            || untold >= self.options.acknowledge_chunks as u64
    }

    /// Returns true if the peer has not been told everything that has come.
    #[must_use]
    pub fn owes_acknowledgement(&self) -> bool {
        self.received > self.told
    }

    /// Returns the head of a chunk without a number, which tells the peer what has come. Such a chunk is not kept and not
    /// repeated.
    pub fn unnumbered(&mut self, kind: u8) -> ChunkHead {
        self.told = self.received;
        self.untold_bytes = 0;
        ChunkHead { kind, sequence: 0, acknowledged: self.received }
    }

    /// Starts another connection, whose peer states that it has received `peer_received`. Returns the number of chunks that
    /// [`Session::next_outgoing`] will give, again or for the first time.
    ///
    /// # Errors
    /// The count is impossible, so the peer is not the other end of this session. Nothing has changed.
    pub fn resume(&mut self, peer_received: u64) -> Result<usize, SessionError> {
        if peer_received < self.acknowledged {
            let (claimed, acknowledged) = (peer_received, self.acknowledged);
            return Err(SessionError::Forgotten { claimed, acknowledged });
        }
        self.release(peer_received)?;
        self.given = 0;
        Ok(self.kept.len())
    }

    /// Returns the chunks that no connection was given, in order, each with its kind. The peer cannot have them.
    pub fn never_given(&self) -> impl Iterator<Item = (u8, &B)> {
        // Kept chunks that any connection was given; `self.given` counts only those of this connection.
        let given = usize::try_from(self.sent - self.acknowledged).unwrap_or(usize::MAX);
        self.kept.iter().skip(given).map(|kept| (kept.kind, &kept.body))
    }

    /// Returns the last number received, which the peer needs to resume.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the chunks that the peer has not acknowledged, in order, each with its kind. Once the peer has acknowledged
    /// for the last time, these are the chunks that it does not have.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u8, &B)> {
        self.kept.iter().map(|kept| (kept.kind, &kept.body))
    }

    /// Returns the kind of the last chunk that the peer has acknowledged.
    #[must_use]
    pub fn acknowledged_kind(&self) -> Option<u8> {
        self.acknowledged_kind
    }

    /// Returns the last number that the peer has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the last number submitted.
    #[must_use]
    pub fn last_submitted(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    /// Returns the number of bytes of all kept bodies.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Returns the number of kept chunks.
    #[must_use]
    pub fn unacknowledged_chunks(&self) -> usize {
        self.kept.len()
    }

    /// Drops the chunks up to `claimed`, which the peer has.
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
