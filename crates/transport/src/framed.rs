//! A channel over anything that carries bytes in order: envelopes in front, a carrier behind.

use std::io;
use std::os::fd::BorrowedFd;

use crate::channel::{Channel, Flushed};
use crate::chunk::ChunkHead;
use crate::decoder::Decoder;
use crate::error::{ChannelError, bad_envelope, lost};
use crate::outbox::Outbox;

/// So much gathers before `send` hands it on by itself, bytes: enough to make system calls cheap, and to fit a cache.
const GATHERED_SIZE_MAX: usize = 256 << 10;

/// Carries bytes in order, in both directions, without blocking.
pub trait Carrier {
    /// Bytes that have come and are not consumed; looks for more where there are none. Empty: nothing is there.
    fn arrived(&mut self) -> Result<&[u8], ChannelError>;
    /// Drops bytes from the front of those that have come.
    fn consume(&mut self, count: usize);
    /// Takes a beginning of these bytes; 0 while earlier ones wait for the system.
    fn carry(&mut self, bytes: &[u8]) -> Result<usize, ChannelError>;
    /// Hands to the system what was taken.
    fn push(&mut self) -> Result<Flushed, ChannelError>;
    /// Tells the other end that nothing more comes; what was taken before goes first.
    fn finish(&mut self);
    /// Taken bytes that the system has not got.
    fn held(&self) -> usize;
    /// Whether `push` has something to do.
    fn wants_push(&self) -> bool;
    /// What to watch.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// The address of the other end.
    fn peer(&self) -> &str;
    /// Bytes that the system has taken.
    fn sent_bytes(&self) -> u64;
    /// Bytes that the system has given.
    fn received_bytes(&self) -> u64;
}

/// Whether this end has said, or is about to say, that it sends nothing more.
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
    decoder: Decoder,
    sending: Sending,
    /// The system took less than it was given: nobody need ask before it says so.
    is_blocked: bool,
}

impl<C: Carrier> Framed<C> {
    pub(crate) fn new(carrier: C) -> Self {
        let (outbox, decoder) = (Outbox::default(), Decoder::default());
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
                // Who closes in order has sent its last chunk as a whole.
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
