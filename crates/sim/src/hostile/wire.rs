//! A connection in memory, without delay.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gristmill_transport::{Channel, ChannelError, ChunkHead, Flushed};

/// Chunks in flight to one end.
type Way = Arc<Mutex<VecDeque<(ChunkHead, Vec<u8>)>>>;

/// One end of the connection. If it is dropped, the other end is lost.
#[derive(Debug)]
pub(super) struct Wire {
    here: Way,
    there: Way,
    received_bytes: u64,
}

/// Returns both ends of a new connection.
pub(super) fn wire() -> (Wire, Wire) {
    let (one, other) = (Way::default(), Way::default());
    let end = |here: &Way, there: &Way| {
        let (here, there) = (Arc::clone(here), Arc::clone(there));
        Wire { here, there, received_bytes: 0 }
    };
    (end(&one, &other), end(&other, &one))
}

fn look(way: &Way) -> MutexGuard<'_, VecDeque<(ChunkHead, Vec<u8>)>> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    fn check(&self) -> Result<(), ChannelError> {
        // Two ends hold each direction.
        if Arc::strong_count(&self.there) == 2 {
            return Ok(());
        }
        let source = io::Error::from(io::ErrorKind::ConnectionReset);
        Err(ChannelError::Lost { peer: self.peer().to_owned(), source })
    }
}

impl Channel for Wire {
    fn send(&mut self, head: ChunkHead, body: &[u8]) -> Result<(), ChannelError> {
        look(&self.there).push_back((head, body.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<Flushed, ChannelError> {
        self.check().map(|()| Flushed::All)
    }

    fn receive(&mut self, body: &mut Vec<u8>) -> Result<Option<ChunkHead>, ChannelError> {
        let Some((head, bytes)) = look(&self.here).pop_front() else {
            return self.check().map(|()| None);
        };
        self.received_bytes += 1 + bytes.len() as u64;
        *body = bytes;
        Ok(Some(head))
    }

    fn close(&mut self) {}

    fn unsent(&self) -> usize {
        0
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        unreachable!("no thread sleeps here")
    }

    fn peer(&self) -> &'static str {
        // A reserved address for documentation (RFC 5737, TEST-NET-1): no host has it.
        "192.0.2.1:9"
    }

    fn sent_bytes(&self) -> u64 {
        0
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }
}
