//! The beginning of a connection: from a socket to two ends that have greeted each other.
//!
//! The end that dialled speaks first. Nothing here blocks; a deadline bounds how long it all takes, and a number how much is
//! said. What is said is the business of whoever owns the meeting.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use gristmill_transport::{Channel, ChunkHead, Handshake, Interest, Progress};
use gristmill_wire::peer::{MessageKind, Messages};

use super::trouble::Trouble;

/// What one end may say before there is a lease: it needs three messages at most. Each may be answered, and whoever meets
/// others does nothing else meanwhile.
const MESSAGES_MAX: usize = 16;

/// What has come of a meeting.
#[derive(Debug)]
pub enum Step {
    /// Nothing yet.
    Waiting,
    /// The other end has proved who it is; once.
    Open,
    /// It says something.
    Said(MessageKind, Vec<u8>),
    /// It is over.
    Failed(Trouble),
}

/// A connection on which two ends begin to talk, whatever carries it.
pub trait Conversation {
    /// Sends messages, which `fill` appends.
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>));

    /// The connection, which both ends go on with. `None` before it is open.
    fn into_channel(self) -> Option<Box<dyn Channel + Send>>;

    /// The other end's address.
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

/// A connection that begins.
#[derive(Debug)]
pub struct Meeting {
    stage: Stage,
    /// This end has dialled.
    has_dialled: bool,
    deadline_ns: u64,
    body: Vec<u8>,
    said: VecDeque<(MessageKind, Vec<u8>)>,
    /// Messages that have come.
    heard: usize,
}

impl Meeting {
    /// Of a handshake that has begun.
    #[must_use]
    pub fn new(handshake: Handshake, has_dialled: bool, deadline_ns: u64) -> Self {
        Self::at(Stage::Opening(handshake), has_dialled, deadline_ns)
    }

    fn at(stage: Stage, has_dialled: bool, deadline_ns: u64) -> Self {
        let (body, said) = (Vec::new(), VecDeque::new());
        Self { stage, has_dialled, deadline_ns, body, said, heard: 0 }
    }

    /// Goes on as far as it can without waiting.
    pub fn progress(&mut self, now: u64) -> Step {
        match self.try_progress(now) {
            Ok(Step::Waiting) if now >= self.deadline_ns => {
                let text = format!("{} did not say what it wants in time", self.peer());
                Step::Failed(Trouble::passing(text))
            }
            Ok(step) => step,
            Err(trouble) => Step::Failed(trouble),
        }
    }

    fn try_progress(&mut self, now: u64) -> Result<Step, Trouble> {
        if let Some((kind, body)) = self.said.pop_front() {
            return Ok(Step::Said(kind, body));
        }
        let trouble = |error| Trouble::of_channel(&error, self.has_dialled);
        match &mut self.stage {
            Stage::Opening(handshake) => match handshake.progress(now).map_err(trouble)? {
                Progress::Pending => Ok(Step::Waiting),
                Progress::Done(channel) => {
                    self.stage = Stage::Talking(Box::new(channel));
                    Ok(Step::Open)
                }
            },
            Stage::Talking(channel) => {
                let _ = channel.flush().map_err(trouble)?;
                let head = channel.receive(&mut self.body).map_err(trouble)?;
                if head.is_none() {
                    return Ok(Step::Waiting);
                }
                for message in Messages::new(&self.body) {
                    let (kind, body) = message.map_err(|error| {
                        Trouble::passing(format!("{} sent no message: {error}", channel.peer()))
                    })?;
                    self.heard += 1;
                    if self.heard > MESSAGES_MAX {
                        return Err(talks_on(channel.peer()));
                    }
                    self.said.push_back((kind, body.to_vec()));
                }
                let first = self.said.pop_front();
                let (kind, body) = first.ok_or_else(|| says_nothing(channel.peer()))?;
                Ok(Step::Said(kind, body))
            }
        }
    }

    /// Ends it in order: what the other end has granted meanwhile is given back.
    pub fn close(self) {
        if let Stage::Talking(mut channel) = self.stage {
            channel.close();
            // Whoever does not take that finds out by silence.
            let _ = channel.flush();
        }
    }

    /// What to watch; `None` when it is over.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            // One that failed is over at once, and has no descriptor.
            Stage::Opening(handshake) => Some(handshake.descriptor()),
            Stage::Talking(channel) => Some(channel.descriptor()),
        }
    }

    /// What to watch it for.
    #[must_use]
    pub fn interest(&self) -> Interest {
        match &self.stage {
            Stage::Opening(handshake) => handshake.interest(),
            Stage::Talking(channel) => channel.interest(),
        }
    }

    /// When it must be looked at, whatever comes.
    #[must_use]
    pub const fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }
}

fn talks_on(peer: &str) -> Trouble {
    Trouble::passing(format!(
        "{peer} sent more than {MESSAGES_MAX} messages before there was a lease"
    ))
}

/// Chunks that hold nothing would otherwise come for as long as their sender likes.
fn says_nothing(peer: &str) -> Trouble {
    Trouble::passing(format!("{peer} sent a chunk without a message before there was a lease"))
}

impl Conversation for Meeting {
    fn say(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let Stage::Talking(channel) = &mut self.stage else { return };
        let mut chunk = Vec::new();
        fill(&mut chunk);
        // What cannot be sent shows when it goes on.
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

    /// A meeting with an end that has proved who it is.
    fn open() -> (Meeting, InprocChannel) {
        let (ours, theirs) = pair().expect("descriptors");
        (Meeting::at(Stage::Talking(Box::new(ours)), false, 1), theirs)
    }

    /// Sends a chunk over and over, as long as the meeting is not over; how it ends, and how many messages came.
    fn send(body: &[u8], count: usize) -> (Option<String>, usize) {
        let (mut meeting, mut channel) = open();
        for _ in 0..count {
            channel.send(ChunkHead::default(), body).expect("it is open");
        }
        let mut said = 0;
        loop {
            let flushed = channel.flush().expect("it is open");
            match meeting.progress(0) {
                Step::Failed(trouble) => return (Some(trouble.text), said),
                Step::Said(..) => said += 1,
                Step::Waiting if flushed == gristmill_transport::Flushed::All => {
                    return (None, said);
                }
                Step::Waiting | Step::Open => {}
            }
        }
    }

    #[test]
    fn who_was_met_learns_that_nothing_comes_of_it() {
        let (meeting, mut channel) = open();
        meeting.close();
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
