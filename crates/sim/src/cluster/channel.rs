//! An end of a line as a channel, and as the channel of a handshake.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use gristmill_client::HandshakeChannel;
use gristmill_transport::{Channel, ChannelError, ChunkHead, Flushed};
use gristmill_wire::peer::{MessageKind, Messages};

use super::network::{Air, Side, look, size_of};

/// One end of a line.
#[derive(Debug)]
pub(crate) struct SimChannel {
    air: Air,
    pub line: usize,
    pub side: Side,
    name: String,
    received_bytes: u64,
}

impl SimChannel {
    pub fn new(air: &Air, line: usize, side: Side) -> Self {
        let name = format!("line {line} end {side}");
        Self { air: air.clone(), line, side, name, received_bytes: 0 }
    }

    /// Returns the line and the side that the name of a channel stands for.
    pub fn end_of(name: &str) -> (usize, Side) {
        let words: Vec<&str> = name.split(' ').collect();
        let number = |place: usize| words[place].parse().expect("it is simulated");
        (number(1), number(3))
    }

    fn lost(&self) -> ChannelError {
        let source = io::Error::from(io::ErrorKind::ConnectionReset);
        ChannelError::Lost { peer: self.name.clone(), source }
    }
}

impl Channel for SimChannel {
    fn send(&mut self, head: ChunkHead, body: &[u8]) -> Result<(), ChannelError> {
        look(&self.air).push(self.line, self.side, (head, body.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<Flushed, ChannelError> {
        let flushed = look(&self.air).flush(self.line, self.side).map_err(|_| self.lost())?;
        Ok(if flushed { Flushed::All } else { Flushed::Some })
    }

    fn receive(&mut self, body: &mut Vec<u8>) -> Result<Option<ChunkHead>, ChannelError> {
        let received = look(&self.air).receive(self.line, self.side).map_err(|_| self.lost())?;
        let Some(packet) = received else { return Ok(None) };
        self.received_bytes += size_of(&packet) as u64;
        let (head, bytes) = packet;
        *body = bytes;
        Ok(Some(head))
    }

    fn close(&mut self) {}

    fn unsent(&self) -> usize {
        look(&self.air).unsent(self.line, self.side)
    }

    fn wants_write(&self) -> bool {
        self.unsent() > 0
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        unreachable!("no thread sleeps in a simulation")
    }

    fn peer(&self) -> &str {
        &self.name
    }

    fn sent_bytes(&self) -> u64 {
        0
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }
}

impl Drop for SimChannel {
    fn drop(&mut self) {
        look(&self.air).drop_end(self.line, self.side);
    }
}

/// A handshake over a line.
#[derive(Debug)]
pub(crate) struct SimHandshake {
    channel: SimChannel,
    is_open: bool,
    pub deadline_ns: u64,
    said: VecDeque<(MessageKind, Vec<u8>)>,
}

/// Progress of a handshake.
#[derive(Debug)]
pub(crate) enum Step {
    Waiting,
    Open,
    Said(MessageKind, Vec<u8>),
    Failed(String),
}

impl SimHandshake {
    pub fn new(channel: SimChannel, deadline_ns: u64) -> Self {
        Self { channel, is_open: false, deadline_ns, said: VecDeque::new() }
    }

    /// Continues until the handshake has something to report or would have to wait.
    pub fn progress(&mut self, now: u64) -> Step {
        if let Some((kind, body)) = self.said.pop_front() {
            return Step::Said(kind, body);
        }
        let mut body = Vec::new();
        let flushed = self.channel.flush();
        if flushed.is_ok() && !self.is_open {
            self.is_open = look(&self.channel.air).is_established(self.channel.line);
            if self.is_open {
                return Step::Open;
            }
        }
        match flushed.and_then(|_| self.channel.receive(&mut body)) {
            Err(error) => return Step::Failed(error.to_string()),
            Ok(Some(_)) => {
                // The head of the chunk belongs to the session of a lease, which a handshake does not have yet.
                let messages: Result<Vec<_>, _> = Messages::new(&body).collect();
                let Ok(messages) = messages else { return Step::Failed("no message".to_owned()) };
                self.said.extend(messages.into_iter().map(|(kind, body)| (kind, body.to_vec())));
                return self.progress(now);
            }
            Ok(None) => {}
        }
        if now >= self.deadline_ns { Step::Failed("too late".to_owned()) } else { Step::Waiting }
    }

    /// Returns whether [`progress`](Self::progress) has something to do.
    pub fn is_due(&self, now: u64) -> bool {
        let air = look(&self.channel.air);
        let SimChannel { line, side, .. } = self.channel;
        !self.said.is_empty()
            || now >= self.deadline_ns
            || air.is_readable(line, side)
            || (!self.is_open && air.is_established(line))
    }
}

impl HandshakeChannel for SimHandshake {
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut chunk = Vec::new();
        fill(&mut chunk);
        let _ = self.channel.send(ChunkHead::default(), &chunk);
        let _ = self.channel.flush();
    }

    fn into_channel(self) -> Option<Box<dyn Channel + Send>> {
        Some(Box::new(self.channel))
    }

    fn peer(&self) -> &str {
        self.channel.peer()
    }
}
