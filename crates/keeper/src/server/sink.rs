//! The client's standard error, written to without ever blocking on its reader.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use crate::descriptor::{check, interest, wait};

/// Size of the queue at which workers' standard error is no longer read, bytes: one pipe's worth.
const QUEUE_LIMIT: usize = 64 << 10;
/// Largest write to a stream that may block, bytes: a pipe that polls as writable always takes it.
const CAREFUL_WRITE: usize = 4096;

/// The way in which a stream is written to.
#[derive(Debug, PartialEq, Eq)]
enum Manner {
    /// A write never blocks: the stream is a file, or a non-blocking description that the keeper opened.
    Plain,
    /// A socket, which takes a flag that makes a write non-blocking.
    Socket,
    /// A description shared with the client, whose mode must not change: small writes after a poll.
    Careful,
}

/// A queue in front of the client's standard error.
#[derive(Debug)]
pub(super) struct Sink {
    target: Option<OwnedFd>,
    manner: Manner,
    queue: Vec<u8>,
    blocked: bool,
}

impl Sink {
    /// Creates a sink for the client's stream.
    ///
    /// A pipe or terminal is reopened if possible, so that it can be non-blocking without changing the mode that the
    /// client and the other programs of its terminal share.
    pub(super) fn new(target: OwnedFd) -> Self {
        let path = format!("/proc/self/fd/{}", target.as_raw_fd());
        let kind = std::fs::metadata(&path);
        let (target, manner) = match kind {
            Ok(kind) if kind.file_type().is_socket() => (target, Manner::Socket),
            Ok(kind) if kind.file_type().is_fifo() || kind.file_type().is_char_device() => {
                let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
                match OpenOptions::new().write(true).custom_flags(flags).open(&path) {
                    Ok(file) if file.metadata().is_ok_and(|own| own.ino() == kind.ino()) => {
                        (file.into(), Manner::Plain)
                    }
                    _ => (target, Manner::Careful),
                }
            }
            Ok(_) => (target, Manner::Plain),
            Err(_) => (target, Manner::Careful),
        };
        Self { target: Some(target), manner, queue: Vec::new(), blocked: false }
    }

    /// Returns true if the workers' standard error should not be read, so that they block as they would on the stream
    /// itself.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE_LIMIT
    }

    /// Returns true if all text was written, or the stream takes none any more.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the descriptor to wait for before the next [`Sink::flush`], if the reader is slow.
    pub(super) fn blocked_on(&self) -> Option<BorrowedFd<'_>> {
        self.target.as_ref().filter(|_| self.blocked).map(AsFd::as_fd)
    }

    /// Queues text. The callers bound the queue: they stop reading while it is full.
    pub(super) fn push(&mut self, text: &[u8]) {
        if self.target.is_some() {
            self.queue.extend_from_slice(text);
        }
    }

    /// Writes as much of the queue as the stream takes without blocking.
    pub(super) fn flush(&mut self) {
        self.blocked = false;
        let mut written = 0;
        while written < self.queue.len() {
            let Some(target) = &self.target else { break };
            match write_some(target.as_fd(), &self.manner, &self.queue[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(_) => self.target = None,
            }
        }
        if self.target.is_none() {
            self.queue.clear();
        } else {
            self.queue.drain(..written);
        }
    }

    /// Writes the rest of the queue before the keeper ends, for as long as the reader keeps reading.
    pub(super) fn finish(&mut self) {
        /// Time after which a reader that takes no bytes counts as stopped.
        const PATIENCE: Duration = Duration::from_millis(50);
        self.flush();
        while let Some(target) = self.blocked_on() {
            if !wait(&mut [interest(target, libc::POLLOUT)], Some(PATIENCE)).unwrap_or(false) {
                return;
            }
            self.flush();
        }
    }
}

fn write_some(target: BorrowedFd<'_>, manner: &Manner, bytes: &[u8]) -> io::Result<usize> {
    let size = if *manner == Manner::Careful {
        if !wait(&mut [interest(target, libc::POLLOUT)], Some(Duration::ZERO))? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        bytes.len().min(CAREFUL_WRITE)
    } else {
        bytes.len()
    };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let descriptor = target.as_raw_fd();
    // SAFETY: pointer and size lie within the slice, which outlives the calls.
    let count = unsafe {
        match manner {
            Manner::Socket => libc::send(descriptor, bytes.as_ptr().cast(), size, flags),
            _ => libc::write(descriptor, bytes.as_ptr().cast(), size),
        }
    };
    if count < 0 {
        check(-1)?;
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::pipe;
    use std::io::Read;

    #[test]
    fn a_reader_that_does_not_read_blocks_no_writer_and_loses_nothing() {
        let (reader, writer) = pipe().unwrap();
        let mut sink = Sink::new(writer);
        let text: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        sink.push(&text);
        sink.flush();
        assert!(sink.is_full() && sink.blocked_on().is_some());
        let mut reader = std::fs::File::from(reader);
        let mut found = Vec::new();
        while found.len() < text.len() {
            let mut part = [0; 8192];
            let count = reader.read(&mut part).unwrap();
            found.extend_from_slice(&part[..count]);
            sink.flush();
        }
        assert_eq!(found, text);
        assert!(!sink.is_full() && sink.blocked_on().is_none());
    }

    #[test]
    fn a_reader_that_is_gone_costs_the_text_and_nothing_else() {
        let (reader, writer) = crate::descriptor::socket_pair().unwrap();
        let mut sink = Sink::new(writer);
        drop(reader);
        sink.push(b"no process reads this\n");
        sink.flush();
        sink.push(b"nor this\n");
        assert!(sink.queue.is_empty() && sink.blocked_on().is_none());
    }
}
