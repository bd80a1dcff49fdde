//! A pair of channels within one process, with the same chunks and ends as TCP but without keys.
//!
//! A pair of Unix sockets carries the bytes. Its buffers are the kernel's and therefore bounded. Its descriptors become ready
//! exactly when those of a TCP socket would, so the layers above see no difference.

use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use gristmill_sync::atomic::{AtomicBool, Ordering};
use rustix::io::Errno;
use rustix::net::{self, SendFlags};

use crate::channel::Flushed;
use crate::error::{ChannelError, lost};
use crate::framed::{Carrier, Framed};

/// The largest number of bytes of one read.
const STAGING_SIZE: usize = 64 << 10;
/// The name of the other end in messages, in place of an address.
const PEER: &str = "the other end in this process";

/// One end of a pair within this process.
pub type InprocChannel = Framed<Local>;

/// Makes the two ends of one connection.
///
/// # Errors
/// The system has no descriptors left.
pub fn pair() -> io::Result<(InprocChannel, InprocChannel)> {
    let (one, other) = UnixStream::pair()?;
    // Each flag says whether that end has closed in order.
    let (from_one, from_other) = (Arc::default(), Arc::default());
    let one = Local::new(one, Arc::clone(&from_one), Arc::clone(&from_other))?;
    let other = Local::new(other, from_other, from_one)?;
    Ok((Framed::new(one), Framed::new(other)))
}

/// A socket, and a flag for each end: true if that end has closed in order.
#[derive(Debug)]
pub struct Local {
    socket: UnixStream,
    /// Bytes from the socket; those in `staged` are not consumed.
    staging: Vec<u8>,
    staged: Range<usize>,
    /// True if the last read emptied the socket. The next read is skipped; the descriptor reports when there is more.
    is_drained: bool,
    /// True if the socket has just refused bytes.
    is_full: bool,
    has_closed: Arc<AtomicBool>,
    peer_has_closed: Arc<AtomicBool>,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Local {
    fn new(
        socket: UnixStream,
        has_closed: Arc<AtomicBool>,
        peer_has_closed: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            staging: vec![0; STAGING_SIZE],
            staged: 0..0,
            is_drained: false,
            is_full: false,
            has_closed,
            peer_has_closed,
            sent_bytes: 0,
            received_bytes: 0,
        })
    }

    /// Reads from the socket, unless the last read emptied it.
    fn fill(&mut self) -> Result<(), ChannelError> {
        if std::mem::take(&mut self.is_drained) {
            return Ok(());
        }
        loop {
            match (&self.socket).read(&mut self.staging) {
                Ok(0) => return Err(self.end()),
                Ok(count) => {
                    self.staged = 0..count;
                    self.is_drained = count < self.staging.len();
                    self.received_bytes += count as u64;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(lost(PEER)(error)),
            }
        }
    }

    fn end(&self) -> ChannelError {
        // PAIRS: end closed (the store in `finish`)
        if self.peer_has_closed.load(Ordering::Acquire) {
            ChannelError::Closed { peer: PEER.to_owned() }
        } else {
            lost(PEER)(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Carrier for Local {
    fn arrived(&mut self) -> Result<&[u8], ChannelError> {
        if self.staged.is_empty() {
            self.fill()?;
        }
        Ok(&self.staging[self.staged.clone()])
    }

    fn consume(&mut self, count: usize) {
        self.staged.start += count;
    }

    fn carry(&mut self, bytes: &[u8]) -> Result<usize, ChannelError> {
        loop {
            match net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent_bytes += count as u64;
                    return Ok(count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.is_full = true;
                    return Ok(0);
                }
                Err(error) => return Err(lost(PEER)(error.into())),
            }
        }
    }

    fn push(&mut self) -> Result<Flushed, ChannelError> {
        let is_full = std::mem::take(&mut self.is_full);
        Ok(if is_full { Flushed::Some } else { Flushed::All })
    }

    fn finish(&mut self) {
        // PAIRS: end closed (the load in `end`)
        self.has_closed.store(true, Ordering::Release);
        // This fails only if the other end is gone, and then it needs no notice.
        let _ = net::shutdown(&self.socket, net::Shutdown::Write);
    }

    fn held(&self) -> usize {
        0
    }

    fn wants_push(&self) -> bool {
        false
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn peer(&self) -> &str {
        PEER
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }
}
