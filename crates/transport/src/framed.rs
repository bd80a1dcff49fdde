//! A channel over any carrier of ordered bytes. It adds envelopes to the bytes that the carrier moves.

use std::io;
use std::os::fd::BorrowedFd;

use crate::channel::{Channel, Flushed};
use crate::chunk::ChunkHead;
use crate::decoder::ChunkDecoder;
use crate::error::{ChannelError, bad_envelope, lost};
use crate::outbox::Outbox;

/// The number of queued bytes at which `send` flushes by itself: enough to make system calls cheap, and few enough to fit a
/// cache.
const GATHERED_SIZE_MAX: usize = 256 << 10;

/// A carrier of ordered bytes in both directions. No call blocks.
pub trait Carrier {
    /// Returns the received bytes not consumed yet. If there are none, it looks for more; an empty result means that none have
    /// come.
    fn arrived(&mut self) -> Result<&[u8], ChannelError>;
    /// Drops bytes from the front of the received ones.
    fn consume(&mut self, count: usize);
    /// Takes a prefix of these bytes and returns its size; 0 while earlier bytes wait for the system.
    fn carry(&mut self, bytes: &[u8]) -> Result<usize, ChannelError>;
    /// Hands the taken bytes to the system.
    fn push(&mut self) -> Result<Flushed, ChannelError>;
    /// Announces to the other end that nothing more comes, after all bytes taken before.
    fn finish(&mut self);
    /// Returns the number of taken bytes that the system has not accepted.
    fn held(&self) -> usize;
    /// Returns true if `push` has something to do.
    fn wants_push(&self) -> bool;
    /// Returns the descriptor to watch.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// Returns the address of the other end.
    fn peer(&self) -> &str;
    /// Returns the number of bytes that the system has taken.
    fn sent_bytes(&self) -> u64;
    /// Returns the number of bytes that the system has delivered.
    fn received_bytes(&self) -> u64;
}

/// The state of the sending direction: open, about to announce its end, or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    Closing,
    Closed,
}

/// A channel over a carrier.
#[derive(Debug)]
pub struct Framed<C> {
    carrier: C,
    outbox: Outbox,
    decoder: ChunkDecoder,
    sending: Sending,
    /// True if the system took less than it was offered. `send` then does not flush by itself.
    is_blocked: bool,
}

impl<C: Carrier> Framed<C> {
    pub(crate) fn new(carrier: C) -> Self {
        let (outbox, decoder) = (Outbox::default(), ChunkDecoder::default());
        Self { carrier, outbox, decoder, sending: Sending::Open, is_blocked: false }
    }
}

impl<C: Carrier> Channel for Framed<C> {
    fn send(&mut self, head: ChunkHead, body: &[u8]) -> Result<(), ChannelError> {
        assert!(self.sending == Sending::Open, "a chunk is sent on a closed channel");
        let pushed = self.outbox.push(head, body);
        pushed.map_err(|error| bad_envelope(self.carrier.peer(), error))?;
        if self.outbox.waiting().len() >= GATHERED_SIZE_MAX && !self.is_blocked {
            let _ = self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Flushed, ChannelError> {
        loop {
            let flushed = self.carrier.push()?;
            self.is_blocked = flushed == Flushed::Some;
            if self.is_blocked {
                return Ok(flushed);
            }
            if !self.outbox.waiting().is_empty() {
                let count = self.carrier.carry(self.outbox.waiting())?;
                self.outbox.consume(count);
            } else if self.sending == Sending::Closing {
                self.sending = Sending::Closed;
                self.carrier.finish();
            } else {
                return Ok(Flushed::All);
            }
        }
    }

    fn receive(&mut self, body: &mut Vec<u8>) -> Result<Option<ChunkHead>, ChannelError> {
        loop {
            let arrived = match self.carrier.arrived() {
                // A peer that closes in order has sent its last chunk completely.
                Err(ChannelError::Closed { peer }) if self.decoder.is_within_chunk() => {
                    return Err(lost(&peer)(io::ErrorKind::UnexpectedEof.into()));
                }
                arrived => arrived?,
            };
            if arrived.is_empty() {
                return Ok(None);
            }
            let taken = self.decoder.take(arrived, body);
            let taken = taken.map_err(|error| bad_envelope(self.carrier.peer(), error))?;
            self.carrier.consume(taken.count);
            if taken.head.is_some() {
                return Ok(taken.head);
            }
        }
    }

    fn close(&mut self) {
        if self.sending == Sending::Open {
            self.sending = Sending::Closing;
        }
    }

    fn unsent(&self) -> usize {
        self.outbox.waiting().len() + self.carrier.held()
    }

    fn wants_write(&self) -> bool {
        let waits = !self.outbox.waiting().is_empty() || self.carrier.wants_push();
        waits || self.sending == Sending::Closing
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.carrier.descriptor()
    }

    fn peer(&self) -> &str {
        self.carrier.peer()
    }

    fn sent_bytes(&self) -> u64 {
        self.carrier.sent_bytes()
    }

    fn received_bytes(&self) -> u64 {
        self.carrier.received_bytes()
    }
}
