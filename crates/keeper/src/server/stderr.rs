//! The standard error of one process: kept for its exit notice, and forwarded line by line.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::sink::Sink;
use super::tail::Tail;

/// Size above which a line is forwarded in parts, bytes.
const LINE_LIMIT: usize = 4 << 10;
/// Time that an incomplete line waits for its end: short enough for a prompt, long enough for two halves of a line.
const LINE_PATIENCE: Duration = Duration::from_millis(50);

/// The reading end of a pipe that is a process's descriptor 2.
#[derive(Debug)]
pub(super) struct Stderr {
    reader: Option<File>,
    tail: Tail,
    /// True if the text is forwarded to the client.
    forward: bool,
    /// The incomplete line at the end, and the time since which it waits.
    partial: Vec<u8>,
    partial_since: Option<Instant>,
    /// True while the process lives or its exit notice is due. Descendants that outlive it may still hold the pipe.
    pub(super) owned: bool,
}

impl Stderr {
    pub(super) fn new(reader: OwnedFd, forward: bool) -> Self {
        Self {
            reader: Some(reader.into()),
            tail: Tail::default(),
            forward,
            partial: Vec::new(),
            partial_since: None,
            owned: true,
        }
    }

    /// Returns the descriptor to wait for. Returns `None` while the sink is full, so that the process blocks.
    pub(super) fn interest(&self, sink: &Sink) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().filter(|_| !self.forward || !sink.is_full()).map(AsFd::as_fd)
    }

    /// Returns the time at which the incomplete line is forwarded.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.partial_since.map(|since| since + LINE_PATIENCE)
    }

    /// Returns true if no process can write any more and the tail is no longer needed.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_none() && !self.owned
    }

    /// Reads once from the pipe.
    pub(super) fn read(&mut self, sink: &mut Sink, now: Instant) {
        let mut buffer = [0; 16 << 10];
        self.read_into(&mut buffer, sink, now);
    }

    /// Reads all that the process wrote before it died and returns the tail. Does not wait for other processes that
    /// hold the pipe.
    pub(super) fn last_words(&mut self, sink: &mut Sink, now: Instant) -> Vec<u8> {
        let mut rest = self.waiting();
        let mut buffer = [0; 16 << 10];
        while rest > 0 {
            let part = rest.min(buffer.len());
            match self.read_into(&mut buffer[..part], sink, now) {
                0 => break,
                count => rest = rest.saturating_sub(count),
            }
        }
        self.pass_on_partial(sink);
        self.owned = false;
        std::mem::take(&mut self.tail).take()
    }

    /// Forwards an incomplete line that has waited too long.
    pub(super) fn tick(&mut self, sink: &mut Sink, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.pass_on_partial(sink);
        }
    }

    /// Returns the number of bytes in the pipe.
    fn waiting(&self) -> usize {
        let mut count: libc::c_int = 0;
        if let Some(reader) = &self.reader {
            // SAFETY: the request writes one integer to the pointer.
            unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &raw mut count) };
        }
        usize::try_from(count).unwrap_or(0)
    }

    fn read_into(&mut self, buffer: &mut [u8], sink: &mut Sink, now: Instant) -> usize {
        let Some(reader) = &mut self.reader else { return 0 };
        match reader.read(buffer) {
            Ok(0) => {
                self.reader = None;
                self.pass_on_partial(sink);
                0
            }
            Ok(count) => {
                self.take(&buffer[..count], sink, now);
                count
            }
            Err(error) => {
                let kind = error.kind();
                if kind != io::ErrorKind::WouldBlock && kind != io::ErrorKind::Interrupted {
                    self.reader = None;
                }
                0
            }
        }
    }

    fn take(&mut self, bytes: &[u8], sink: &mut Sink, now: Instant) {
        if self.owned {
            self.tail.push(bytes);
        }
        if !self.forward {
            return;
        }
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let whole = bytes.iter().rposition(is_end).map_or(0, |end| end + 1);
        if whole > 0 {
            self.pass_on_partial(sink);
            sink.push(&bytes[..whole]);
        }
        if whole < bytes.len() {
            self.partial.extend_from_slice(&bytes[whole..]);
            self.partial_since.get_or_insert(now);
        }
        if self.partial.len() >= LINE_LIMIT {
            self.pass_on_partial(sink);
        }
    }

    fn pass_on_partial(&mut self, sink: &mut Sink) {
        sink.push(&self.partial);
        self.partial.clear();
        self.partial_since = None;
    }
}
