//! One connection between two depots: from a socket to messages, without blocking.

use gristmill_transport::{Channel, ChunkHead, Handshake, Interest, Progress, Sleeper, TcpChannel};

#[derive(Debug)]
enum Stage {
    Opening(Handshake),
    Open(Box<TcpChannel>),
}

/// One connection.
#[derive(Debug)]
pub(super) struct Line {
    stage: Stage,
    token: u64,
    /// What the sleeper watches it for.
    watched: Option<Interest>,
}

impl Line {
    /// Of a handshake that has begun; `token` is its own among all that one sleeper watches.
    pub fn new(handshake: Handshake, token: u64) -> Self {
        Self { stage: Stage::Opening(handshake), token, watched: None }
    }

    /// Goes on with the handshake as far as it goes; true: it has just ended. An error is a sentence.
    pub fn open(&mut self, now: u64) -> Result<bool, String> {
        let Stage::Opening(handshake) = &mut self.stage else { return Ok(false) };
        match handshake.progress(now).map_err(|error| error.to_string())? {
            Progress::Pending => Ok(false),
            Progress::Done(channel) => {
                self.stage = Stage::Open(Box::new(channel));
                Ok(true)
            }
        }
    }

    /// The connection, once both ends have proved who they are.
    pub fn channel(&mut self) -> Option<&mut TcpChannel> {
        match &mut self.stage {
            Stage::Open(channel) => Some(channel),
            Stage::Opening(_) => None,
        }
    }

    /// Sends messages. An error is a sentence.
    pub fn say(&mut self, messages: &[u8]) -> Result<(), String> {
        let Some(channel) = self.channel() else { return Ok(()) };
        channel.send(ChunkHead::default(), messages).map_err(|error| error.to_string())
    }

    /// Hands over what was said. An error is a sentence.
    pub fn flush(&mut self) -> Result<(), String> {
        let Some(channel) = self.channel() else { return Ok(()) };
        channel.flush().map(drop).map_err(|error| error.to_string())
    }

    /// The next messages that came, in the place of what `chunk` held; false: nothing more is there. An error is a sentence.
    pub fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String> {
        let Some(channel) = self.channel() else { return Ok(false) };
        let head = channel.receive(chunk).map_err(|error| error.to_string())?;
        Ok(head.is_some())
    }

    /// Has the sleeper look at it, as it has to be looked at now.
    pub fn watch(&mut self, sleeper: &Sleeper) {
        let (descriptor, interest) = match &self.stage {
            Stage::Opening(handshake) => (handshake.descriptor(), handshake.interest()),
            Stage::Open(channel) => (channel.descriptor(), channel.interest()),
        };
        if self.watched != Some(interest) {
            // One that cannot be watched is looked at with everything else, a second later at most.
            let _ = sleeper.watch(descriptor, self.token, interest);
            self.watched = Some(interest);
        }
    }
}
