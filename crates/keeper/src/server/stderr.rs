//! One process's standard error: read, kept for its exit notice, passed on line by line.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::sink::Sink;
use super::tail::Tail;

/// A line longer than this is passed on in parts, bytes.
const LINE_LIMIT: usize = 4 << 10;
/// How long the beginning of a line waits for its end: a prompt should appear soon, two halves of a
/// line come sooner.
const LINE_PATIENCE: Duration = Duration::from_millis(50);

/// The reading end of a pipe that is some process's descriptor 2.
#[derive(Debug)]
pub(super) struct Stderr {
    reader: Option<File>,
    tail: Tail,
    /// Whether it goes on to the client.
    forward: bool,
    /// The beginning of a line, and since when it waits.
    partial: Vec<u8>,
    partial_since: Option<Instant>,
    /// Whether the process still lives; what outlives it in its descent may still hold the pipe.
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

    /// The descriptor to wait for, unless the sink is so full that the writer has to wait.
    pub(super) fn interest(&self, sink: &Sink) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().filter(|_| !self.forward || !sink.is_full()).map(AsFd::as_fd)
    }

    /// When the beginning of a line has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.partial_since.map(|since| since + LINE_PATIENCE)
    }

    /// Whether nobody can write any more and nobody asks for the tail.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_none() && !self.owned
    }

    /// Reads once what there is.
    pub(super) fn read(&mut self, sink: &mut Sink, now: Instant) {
        let mut buffer = [0; 16 << 10];
        self.read_into(&mut buffer, sink, now);
    }

    /// Reads what the process had written before it died, without waiting for others that hold the
    /// pipe, and takes the tail.
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

    /// Passes the beginning of a line on that has waited too long.
    pub(super) fn tick(&mut self, sink: &mut Sink, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.pass_on_partial(sink);
        }
    }

    /// Bytes in the pipe.
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
