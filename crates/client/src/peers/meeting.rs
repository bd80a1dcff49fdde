//! The beginning of a connection: from a socket to two ends that have greeted each other.
//!
//! The end that dialled speaks first. Nothing here blocks, and a deadline bounds it all; what is said is the business of
//! whoever owns the meeting.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use gristmill_transport::{Channel, ChunkHead, Handshake, Interest, Progress, TcpChannel};
use gristmill_wire::peer::{MessageKind, Messages};

/// What has come of a meeting.
#[derive(Debug)]
pub enum Step {
    /// Nothing yet.
    Waiting,
    /// The other end has proved who it is; once.
    Open,
    /// It says something.
    Said(MessageKind, Vec<u8>),
    /// It is over; a sentence.
    Failed(String),
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

#[derive(Debug)]
enum Stage {
    Opening(Handshake),
    Talking(Box<TcpChannel>),
}

/// A connection that begins.
#[derive(Debug)]
pub struct Meeting {
    stage: Stage,
    deadline_ns: u64,
    body: Vec<u8>,
    said: VecDeque<(MessageKind, Vec<u8>)>,
}

impl Meeting {
    /// Of a handshake that has begun.
    #[must_use]
    pub fn new(handshake: Handshake, deadline_ns: u64) -> Self {
        let (body, said) = (Vec::new(), VecDeque::new());
        Self { stage: Stage::Opening(handshake), deadline_ns, body, said }
    }

    /// Goes on as far as it can without waiting.
    pub fn progress(&mut self, now: u64) -> Step {
        match self.try_progress(now) {
            Ok(Step::Waiting) if now >= self.deadline_ns => {
                Step::Failed(format!("{} did not say what it wants in time", self.peer()))
            }
            Ok(step) => step,
            Err(text) => Step::Failed(text),
        }
    }

    fn try_progress(&mut self, now: u64) -> Result<Step, String> {
        if let Some((kind, body)) = self.said.pop_front() {
            return Ok(Step::Said(kind, body));
        }
        match &mut self.stage {
            Stage::Opening(handshake) => {
                match handshake.progress(now).map_err(|error| error.to_string())? {
                    Progress::Pending => Ok(Step::Waiting),
                    Progress::Done(channel) => {
                        self.stage = Stage::Talking(Box::new(channel));
                        Ok(Step::Open)
                    }
                }
            }
            Stage::Talking(channel) => {
                let _ = channel.flush().map_err(|error| error.to_string())?;
                let head = channel.receive(&mut self.body).map_err(|error| error.to_string())?;
                if head.is_none() {
                    return Ok(Step::Waiting);
                }
                for message in Messages::new(&self.body) {
                    let (kind, body) = message
                        .map_err(|error| format!("{} sent no message: {error}", channel.peer()))?;
                    self.said.push_back((kind, body.to_vec()));
                }
                self.try_progress(now)
            }
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
