//! A carrier of ordered bytes over a TCP socket with TLS.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::Connection;

use super::faults;
use super::socket::Quiet;
use crate::channel::Flushed;
use crate::error::{ChannelError, lost};
use crate::framed::Carrier;

/// The largest number of bytes of one read from the socket. The TLS library by itself would read 4 KiB at a time.
const STAGING_SIZE: usize = 64 << 10;
/// The same limit before the peer has proved its key; a handshake is smaller.
const HANDSHAKE_STAGING_SIZE: usize = 4 << 10;
/// The largest number of bytes encrypted at once: four of the largest records, one system call. Further bytes are encrypted
/// only after the system has taken these. Each record is an allocation. If 128 KiB are freed at once, the allocator returns
/// them to the system, and the next records cost one page fault a page: 256 KiB cost a third more processor time.
const CARRIED_SIZE_MAX: usize = 64 << 10;

/// A socket and the TLS over it.
pub struct Secure {
    socket: TcpStream,
    tls: Box<Connection>,
    peer: String,
    /// Bytes from the socket; those in `staged` are not decrypted yet.
    staging: Vec<u8>,
    staged: Range<usize>,
    /// True if the last read emptied the socket. The next read is skipped; the descriptor reports when there is more.
    is_drained: bool,
    /// Decrypted bytes that are not consumed.
    readable: usize,
    /// Bytes in records that the system has not completely taken.
    held: usize,
    peer_has_closed: bool,
    is_established: bool,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Secure {
    /// Creates the carrier over a connected socket that never blocks.
    pub fn new(socket: TcpStream, mut tls: Connection, peer: String) -> Self {
        // The limit is CARRIED_SIZE_MAX.
        tls.set_buffer_limit(None);
        Self {
            socket,
            tls: Box::new(tls),
            peer,
            staging: vec![0; HANDSHAKE_STAGING_SIZE],
            staged: 0..0,
            is_drained: false,
            readable: 0,
            held: 0,
            peer_has_closed: false,
            is_established: false,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    /// Returns true until both ends have proved their keys.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Marks the connection as established: the peer has proved its key and stated its versions.
    pub fn establish(&mut self) {
        self.is_established = true;
        self.staging.resize(STAGING_SIZE, 0);
    }

    /// Reads from the socket; returns false if no bytes are there.
    fn fill(&mut self) -> Result<bool, ChannelError> {
        if std::mem::take(&mut self.is_drained) {
            return Ok(false);
        }
        loop {
            match (&self.socket).read(&mut self.staging) {
                Ok(0) => return Err(lost(&self.peer)(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.staged = 0..count;
                    self.is_drained = count < self.staging.len();
                    self.received_bytes += count as u64;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(lost(&self.peer)(error)),
            }
        }
    }

    /// Decrypts the next staged bytes.
    fn digest(&mut self) -> Result<(), ChannelError> {
        let mut staged = &self.staging[self.staged.clone()];
        let taken = self.tls.read_tls(&mut staged).map_err(lost(&self.peer))?;
        self.staged.start += taken;
        let state = match self.tls.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // This sends the peer the alert with the reason, if there is room for it.
                let _ = self.push();
                let fault =
                    if self.is_established { faults::of_connection } else { faults::of_handshake };
                return Err(fault(&self.peer, error));
            }
        };
        self.readable = state.plaintext_bytes_to_read();
        self.peer_has_closed = state.peer_has_closed();
        if taken == 0 && !self.peer_has_closed {
            return Err(lost(&self.peer)(io::ErrorKind::InvalidData.into()));
        }
        Ok(())
    }
}

impl Carrier for Secure {
    fn arrived(&mut self) -> Result<&[u8], ChannelError> {
        while self.readable == 0 {
            if self.peer_has_closed {
                return Err(ChannelError::Closed { peer: self.peer.clone() });
            }
            if self.staged.is_empty() && !self.fill()? {
                return Ok(&[]);
            }
            self.digest()?;
        }
        self.tls.reader().into_first_chunk().map_err(lost(&self.peer))
    }

    fn consume(&mut self, count: usize) {
        self.tls.reader().consume(count);
        self.readable -= count;
    }

    fn carry(&mut self, bytes: &[u8]) -> Result<usize, ChannelError> {
        if self.tls.wants_write() {
            return Ok(0);
        }
        let bytes = &bytes[..bytes.len().min(CARRIED_SIZE_MAX)];
        let count = self.tls.writer().write(bytes).map_err(lost(&self.peer))?;
        self.held = count;
        Ok(count)
    }

    fn push(&mut self) -> Result<Flushed, ChannelError> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Quiet(&self.socket)) {
                Ok(0) => return Err(lost(&self.peer)(io::ErrorKind::WriteZero.into())),
                Ok(count) => self.sent_bytes += count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flushed::Some);
                }
                Err(error) => return Err(lost(&self.peer)(error)),
            }
        }
        self.held = 0;
        Ok(Flushed::All)
    }

    fn finish(&mut self) {
        self.tls.send_close_notify();
    }

    fn held(&self) -> usize {
        self.held
    }

    fn wants_push(&self) -> bool {
        self.tls.wants_write()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secure").field("peer", &self.peer).finish_non_exhaustive()
    }
}
