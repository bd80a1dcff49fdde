//! Beginning of a connection: from a socket to two ends that have greeted each other.
//!
//! The end that dialled speaks first. Nothing here blocks. A deadline limits the duration, and a maximum number of messages
//! limits the length. The owner of the handshake decides what is said.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use gristmill_transport::{
    Channel, ChannelError, ChunkHead, Handshake, HandshakeProgress, Interest,
};
use gristmill_wire::peer::{MessageKind, Messages};

use super::handshake_failure::HandshakeFailure;

/// Maximum number of messages that one end may send before there is a lease; an end needs three at most. Each message may
/// need an answer, and the thread that performs handshakes does nothing else meanwhile.
const MESSAGES_MAX: usize = 16;

/// Progress of a handshake.
#[derive(Debug)]
pub enum HandshakeEvent {
    /// Nothing new has happened.
    Waiting,
    /// The other end has proved its identity; reported once.
    Open,
    /// The other end has sent a message.
    Said(MessageKind, Vec<u8>),
    /// The handshake has failed.
    Failed(HandshakeFailure),
}

/// A connection on which two ends perform a handshake, over any transport.
pub trait HandshakeChannel {
    /// Sends the messages that `fill` appends. Does nothing, and does not call `fill`, before the connection is open.
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>));

    /// Returns the connection, which both ends go on to use, or `None` before it is open.
    fn into_channel(self) -> Option<Box<dyn Channel + Send>>;

    /// Returns the other end's address.
    fn peer(&self) -> &str;
}

enum Stage {
    Opening(Handshake),
    Talking(Box<dyn Channel + Send>),
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Opening(handshake) => f.debug_tuple("Opening").field(handshake).finish(),
            Self::Talking(channel) => f.debug_tuple("Talking").field(&channel.peer()).finish(),
        }
    }
}

/// A connection whose handshake is under way.
#[derive(Debug)]
pub struct PeerHandshake {
    stage: Stage,
    /// True if this end has dialled.
    has_dialled: bool,
    /// True if the other end has proved its key.
    is_known: bool,
    deadline_ns: u64,
    body: Vec<u8>,
    said: VecDeque<(MessageKind, Vec<u8>)>,
    /// Number of messages that have come.
    heard: usize,
}

impl PeerHandshake {
    /// Creates the handshake of two ends on top of a transport handshake that has begun.
    #[must_use]
    pub fn new(handshake: Handshake, has_dialled: bool, deadline_ns: u64) -> Self {
        Self::at(Stage::Opening(handshake), has_dialled, deadline_ns)
    }

    fn at(stage: Stage, has_dialled: bool, deadline_ns: u64) -> Self {
        let (body, said) = (Vec::new(), VecDeque::new());
        Self { stage, has_dialled, is_known: false, deadline_ns, body, said, heard: 0 }
    }

    /// Advances the handshake as much as possible without waiting.
    pub fn progress(&mut self, now: u64) -> HandshakeEvent {
        match self.try_progress(now) {
            Ok(HandshakeEvent::Waiting) if now >= self.deadline_ns => {
                let text = format!("{} sent no greeting or no request in time", self.peer());
                HandshakeEvent::Failed(HandshakeFailure::passing(text))
            }
            Ok(step) => step,
            Err(failure) => HandshakeEvent::Failed(failure),
        }
    }

    fn try_progress(&mut self, now: u64) -> Result<HandshakeEvent, HandshakeFailure> {
        if let Some((kind, body)) = self.said.pop_front() {
            return Ok(HandshakeEvent::Said(kind, body));
        }
        let failure = |error| HandshakeFailure::of_channel(&error, self.has_dialled);
        match &mut self.stage {
            Stage::Opening(handshake) => match handshake.progress(now).map_err(|error| {
                // An end tells its version only after it has proved its key.
                self.is_known = matches!(error, ChannelError::Version { .. });
                failure(error)
            })? {
                HandshakeProgress::Pending => Ok(HandshakeEvent::Waiting),
                HandshakeProgress::Done(channel) => {
                    self.is_known = true;
                    self.stage = Stage::Talking(Box::new(channel));
                    Ok(HandshakeEvent::Open)
                }
            },
            Stage::Talking(channel) => {
                let _ = channel.flush().map_err(failure)?;
                let head = channel.receive(&mut self.body).map_err(failure)?;
                if head.is_none() {
                    return Ok(HandshakeEvent::Waiting);
                }
                for message in Messages::new(&self.body) {
                    let (kind, body) = message.map_err(|error| {
                        HandshakeFailure::passing(format!(
                            "{} sent bytes that are no message: {error}",
                            channel.peer()
                        ))
                    })?;
                    self.heard += 1;
                    if self.heard > MESSAGES_MAX {
                        return Err(talks_on(channel.peer()));
                    }
                    self.said.push_back((kind, body.to_vec()));
                }
                let first = self.said.pop_front();
                let (kind, body) = first.ok_or_else(|| says_nothing(channel.peer()))?;
                Ok(HandshakeEvent::Said(kind, body))
            }
        }
    }

    /// Tells the other end that the connection is closed, so that it takes back what it has granted.
    pub fn close(self) {
        if let Stage::Talking(mut channel) = self.stage {
            channel.close();
            // An end that does not receive this notices the silence.
            let _ = channel.flush();
        }
    }

    /// Returns true if the other end has proved its key: it is no stranger.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the descriptor to watch.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            // Both stages have a descriptor, so this is never `None`: a handshake that failed is dropped at once.
            Stage::Opening(handshake) => Some(handshake.descriptor()),
            Stage::Talking(channel) => Some(channel.descriptor()),
        }
    }

    /// Returns the events to watch the descriptor for.
    #[must_use]
    pub fn interest(&self) -> Interest {
        match &self.stage {
            Stage::Opening(handshake) => handshake.interest(),
            Stage::Talking(channel) => channel.interest(),
        }
    }

    /// Returns the time when the handshake must be advanced even if nothing comes.
    #[must_use]
    pub const fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }
}

fn talks_on(peer: &str) -> HandshakeFailure {
    HandshakeFailure::passing(format!(
        "{peer} sent more than {MESSAGES_MAX} messages before there was a lease"
    ))
}

/// Returns the failure for a chunk without a message. Empty chunks do not count against `MESSAGES_MAX`, so without this
/// failure the other end could send them without limit.
fn says_nothing(peer: &str) -> HandshakeFailure {
    HandshakeFailure::passing(format!(
        "{peer} sent a chunk without a message before there was a lease"
    ))
}

impl HandshakeChannel for PeerHandshake {
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let Stage::Talking(channel) = &mut self.stage else { return };
        let mut chunk = Vec::new();
        fill(&mut chunk);
        // A failed send shows when the handshake is advanced.
        let _ = channel.send(ChunkHead::default(), &chunk);
        let _ = channel.flush();
    }

    fn into_channel(self) -> Option<Box<dyn Channel + Send>> {
        match self.stage {
            Stage::Talking(channel) => Some(channel),
            Stage::Opening(_) => None,
        }
    }

    fn peer(&self) -> &str {
        match &self.stage {
            Stage::Opening(handshake) => handshake.peer(),
            Stage::Talking(channel) => channel.peer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gristmill_transport::{InprocChannel, pair};
    use gristmill_wire::peer::Control;

    use super::*;

    /// Returns a handshake with an end that has proved its identity, and that end.
    fn open() -> (PeerHandshake, InprocChannel) {
        let (ours, theirs) = pair().expect("descriptors");
        (PeerHandshake::at(Stage::Talking(Box::new(ours)), false, 1), theirs)
    }

    /// Sends a chunk `count` times; returns the failure that ends the handshake, if any, and the number of messages that came.
    fn send(body: &[u8], count: usize) -> (Option<String>, usize) {
        let (mut handshake, mut channel) = open();
        for _ in 0..count {
            channel.send(ChunkHead::default(), body).expect("it is open");
        }
        let mut said = 0;
        loop {
            let flushed = channel.flush().expect("it is open");
            match handshake.progress(0) {
                HandshakeEvent::Failed(failure) => return (Some(failure.text), said),
                HandshakeEvent::Said(..) => said += 1,
                HandshakeEvent::Waiting if flushed == gristmill_transport::Flushed::All => {
                    return (None, said);
                }
                HandshakeEvent::Waiting | HandshakeEvent::Open => {}
            }
        }
    }

    #[test]
    fn who_was_met_learns_that_nothing_comes_of_it() {
        let (handshake, mut channel) = open();
        handshake.close();
        let ended = channel.receive(&mut Vec::new()).expect_err("nothing more comes");
        assert!(matches!(ended, gristmill_transport::ChannelError::Closed { .. }), "{ended}");
    }

    fn message() -> Vec<u8> {
        let mut body = Vec::new();
        Control::Recalled.write(&mut body);
        body
    }

    #[test]
    fn a_hundred_thousand_empty_chunks_end_a_meeting_with_a_sentence() {
        let (text, said) = send(&[], 100_000);
        assert!(text.is_some_and(|text| text.contains("sent a chunk without a message")));
        assert_eq!(said, 0);
    }

    #[test]
    fn who_talks_on_without_a_lease_is_not_listened_to() {
        assert_eq!(send(&message(), MESSAGES_MAX), (None, MESSAGES_MAX));
        for (body, count) in [(message(), 100_000), (message().repeat(100_000), 1)] {
            let (text, said) = send(&body, count);
            assert!(text.is_some_and(|text| text.contains("more than 16 messages")));
            assert!(said <= MESSAGES_MAX);
        }
    }
}
