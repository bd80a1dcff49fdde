//! The standard error of one process: kept for its exit notice, and forwarded line by line.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::peek::Peek;
use super::sink::Sink;
use super::tail::Tail;

/// Size above which a line is forwarded in parts, bytes.
const LINE_LIMIT: usize = 4 << 10;
/// Time that an incomplete line waits for its end: short enough for a prompt, long enough for two halves of a line.
const LINE_PATIENCE: Duration = Duration::from_millis(50);
/// Time after which a pipe with an incomplete line is looked at again. A poll would report the line itself.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes that are read at once.
const READ_SIZE: usize = 16 << 10;

/// The reading end of a pipe that is a process's descriptor 2.
///
/// Text stays in the pipe until the client's stream has it. So the process can tell by the pipe alone if all that it
/// wrote is out, and blocks as it would on the stream itself.
#[derive(Debug)]
pub(super) struct Stderr {
    reader: Option<File>,
    tail: Tail,
    /// True if the text is forwarded to the client.
    forward: bool,
    /// Number of bytes in the pipe that were copied out of it: they are in `partial` or in the sink.
    copied: usize,
    /// The incomplete line at the end of those.
    partial: Vec<u8>,
    /// The time since which the incomplete line waits, and the time of the next look at the pipe.
    waits: Option<(Instant, Instant)>,
    /// True while the process lives or its exit notice is due. Descendants that outlive it may still hold the pipe.
    pub(super) owned: bool,
}

impl Stderr {
    pub(super) fn new(reader: OwnedFd, forward: bool) -> Self {
        Self {
            reader: Some(reader.into()),
            tail: Tail::default(),
            forward,
            copied: 0,
            partial: Vec::new(),
            waits: None,
            owned: true,
        }
    }

    /// Returns the descriptor to wait for. Returns `None` while the sink is full, so that the process blocks, and while
    /// bytes that were copied are in the pipe.
    pub(super) fn interest(&self, sink: &Sink) -> Option<BorrowedFd<'_>> {
        let is_watched = self.copied == 0 && (!self.forward || !sink.is_full());
        self.reader.as_ref().filter(|_| is_watched).map(AsFd::as_fd)
    }

    /// Returns the time of the next [`Stderr::tick`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waits.map(|(since, look)| look.min(since + LINE_PATIENCE))
    }

    /// Returns true if no process can write any more and the tail is no longer needed.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_none() && !self.owned
    }

    /// Takes once what the process has written.
    pub(super) fn read(&mut self, peek: &mut Peek, sink: &mut Sink, now: Instant) {
        let Some(reader) = &self.reader else { return };
        if self.copied > self.partial.len() || (self.forward && sink.is_full()) {
            return;
        }
        let mut buffer = [0; LINE_LIMIT + READ_SIZE];
        match peek.copy(reader.as_fd(), &mut buffer) {
            Ok(0) => self.close(sink),
            Ok(count) if count > self.copied => {
                let fresh = self.copied..count;
                self.copied = count;
                self.take(&buffer[fresh], sink, now);
            }
            // An incomplete line of many small parts fills the pipe.
            Ok(_) if self.waiting() > self.copied => self.pass_on_partial(sink),
            Ok(_) => {}
            Err(error) if is_passing(&error) || self.copied > 0 => {}
            // A kernel that copies no pipes.
            Err(_) => self.read_away(&mut buffer, sink, now),
        }
    }

    /// Takes once what the process has written, out of the pipe.
    fn read_away(&mut self, buffer: &mut [u8], sink: &mut Sink, now: Instant) {
        let Some(reader) = &mut self.reader else { return };
        match reader.read(buffer) {
            Ok(0) => self.close(sink),
            Ok(count) => self.take(&buffer[..count], sink, now),
            Err(error) if is_passing(&error) => {}
            Err(_) => self.close(sink),
        }
    }

    /// Removes from the pipe what was forwarded. Call it when the sink is empty.
    pub(super) fn settle(&mut self) {
        let held = self.partial.len();
        let mut buffer = [0; READ_SIZE];
        while self.copied > held {
            let part = (self.copied - held).min(buffer.len());
            let Some(reader) = &mut self.reader else { break };
            match reader.read(&mut buffer[..part]) {
                Ok(0) | Err(_) => break,
                Ok(count) => self.copied -= count,
            }
        }
        self.copied = self.copied.min(held);
    }

    /// Reads all that the process wrote before it died and returns the tail. Does not wait for other processes that
    /// hold the pipe.
    pub(super) fn last_words(&mut self, sink: &mut Sink, now: Instant) -> Vec<u8> {
        self.pass_on_partial(sink);
        self.settle();
        let mut rest = self.waiting();
        let mut buffer = [0; READ_SIZE];
        while rest > 0 {
            let part = rest.min(buffer.len());
            let Some(reader) = &mut self.reader else { break };
            match reader.read(&mut buffer[..part]) {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    self.take(&buffer[..count], sink, now);
                    rest = rest.saturating_sub(count);
                }
            }
        }
        self.pass_on_partial(sink);
        self.owned = false;
        std::mem::take(&mut self.tail).take()
    }

    /// Forwards an incomplete line that has waited too long, or looks if the line goes on.
    pub(super) fn tick(&mut self, peek: &mut Peek, sink: &mut Sink, now: Instant) {
        let Some((since, look)) = self.waits else { return };
        if since + LINE_PATIENCE <= now {
            self.pass_on_partial(sink);
        } else if look <= now {
            self.waits = Some((since, now + LOOK_INTERVAL));
            if self.waiting() > self.copied {
                self.read(peek, sink, now);
            }
        }
    }

    /// Forwards an incomplete line.
    pub(super) fn pass_on_partial(&mut self, sink: &mut Sink) {
        sink.push(&self.partial);
        self.partial.clear();
        self.waits = None;
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

    fn close(&mut self, sink: &mut Sink) {
        self.reader = None;
        self.copied = 0;
        self.pass_on_partial(sink);
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
            self.waits.get_or_insert((now, now + LOOK_INTERVAL));
        }
        if self.partial.len() >= LINE_LIMIT {
            self.pass_on_partial(sink);
        }
    }
}

/// Returns true if a read may succeed later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::descriptor::pipe;

    /// A process's pipe and the client's stream, both as pipes, with the keeper between them.
    struct Line {
        writer: File,
        stream: Stderr,
        peek: Peek,
        sink: Sink,
        client: File,
        now: Instant,
    }

    impl Line {
        fn new() -> Self {
            let (reader, writer) = pipe().unwrap();
            let (client, target) = pipe().unwrap();
            Self {
                writer: writer.into(),
                stream: Stderr::new(reader, true),
                peek: Peek::new().unwrap(),
                sink: Sink::new(target),
                client: client.into(),
                now: Instant::now(),
            }
        }

        /// Writes as the process does, and lets the keeper read.
        fn write(&mut self, text: &[u8]) {
            self.writer.write_all(text).unwrap();
            self.stream.read(&mut self.peek, &mut self.sink, self.now);
            self.flush();
        }

        fn tick(&mut self, later: Duration) {
            self.now += later;
            self.stream.tick(&mut self.peek, &mut self.sink, self.now);
            self.flush();
        }

        fn flush(&mut self) {
            self.sink.flush();
            if self.sink.is_empty() {
                self.stream.settle();
            }
        }

        /// Returns what the client reads.
        fn read(&mut self) -> Vec<u8> {
            let mut text = vec![0; 1 << 17];
            let count = self.client.read(&mut text).unwrap_or(0);
            text.truncate(count);
            text
        }
    }

    #[test]
    fn a_pipe_is_empty_once_the_client_has_all_of_it() {
        let mut line = Line::new();
        line.write(b"one\ntwo\n");
        assert_eq!(line.stream.waiting(), 0);
        assert_eq!(line.read(), b"one\ntwo\n");
    }

    #[test]
    fn an_incomplete_line_waits_in_the_pipe_for_its_end() {
        let mut line = Line::new();
        line.write(b"one\nhalf");
        assert_eq!((line.stream.waiting(), line.read()), (4, b"one\n".to_vec()));
        line.writer.write_all(b" and half\nrest").unwrap();
        line.tick(LOOK_INTERVAL);
        assert_eq!((line.stream.waiting(), line.read()), (4, b"half and half\n".to_vec()));
        line.tick(LINE_PATIENCE);
        assert_eq!((line.stream.waiting(), line.read()), (0, b"rest".to_vec()));
        assert!(line.stream.deadline().is_none() && line.stream.interest(&line.sink).is_some());
    }

    #[test]
    fn text_stays_in_the_pipe_while_the_client_does_not_read() {
        let mut line = Line::new();
        let much = vec![b'\n'; 1 << 14];
        let mut written = 0;
        while line.stream.copied == 0 {
            line.write(&much);
            written += much.len();
        }
        assert_eq!(line.stream.waiting(), much.len());
        assert!(line.stream.interest(&line.sink).is_none());
        while written > 0 {
            written -= line.read().len();
            line.flush();
        }
        assert_eq!((line.stream.waiting(), line.stream.copied), (0, 0));
    }

    #[test]
    fn the_last_words_are_each_forwarded_once() {
        let mut line = Line::new();
        line.write(b"one\nhalf");
        line.writer.write_all(b" and half\nlast words").unwrap();
        let tail = line.stream.last_words(&mut line.sink, line.now);
        line.flush();
        assert_eq!(tail, b"one\nhalf and half\nlast words");
        assert_eq!(line.read(), tail);
    }
}
