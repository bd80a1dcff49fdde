//! One connection between two depots: from a socket to messages, without blocking; and where they come from.

use std::net::SocketAddr;
use std::sync::Arc;

use gristmill_transport::{
    Accepted, Channel, ChunkHead, Connector, Handshake, Identity, Interest, Listener, Progress,
    Sleeper, TcpChannel,
};

use super::gate::{DepotLine, Gate};

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
    fn new(handshake: Handshake, token: u64) -> Self {
        Self { stage: Stage::Opening(handshake), token, watched: None }
    }

    /// The connection, once both ends have proved who they are.
    fn channel(&mut self) -> Option<&mut TcpChannel> {
        match &mut self.stage {
            Stage::Open(channel) => Some(channel),
            Stage::Opening(_) => None,
        }
    }

    /// Has the sleeper look at it, as it has to be looked at now.
    fn watch(&mut self, sleeper: &Sleeper) {
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

impl DepotLine for Line {
    fn open(&mut self, now: u64) -> Result<bool, String> {
        let Stage::Opening(handshake) = &mut self.stage else { return Ok(false) };
        match handshake.progress(now).map_err(|error| error.to_string())? {
            Progress::Pending => Ok(false),
            Progress::Done(channel) => {
                self.stage = Stage::Open(Box::new(channel));
                Ok(true)
            }
        }
    }

    fn say(&mut self, messages: &[u8]) -> Result<(), String> {
        let Some(channel) = self.channel() else { return Ok(()) };
        channel.send(ChunkHead::default(), messages).map_err(|error| error.to_string())
    }

    fn flush(&mut self) -> Result<(), String> {
        let Some(channel) = self.channel() else { return Ok(()) };
        channel.flush().map(drop).map_err(|error| error.to_string())
    }

    fn hear(&mut self, chunk: &mut Vec<u8>) -> Result<bool, String> {
        let Some(channel) = self.channel() else { return Ok(false) };
        let head = channel.receive(chunk).map_err(|error| error.to_string())?;
        Ok(head.is_some())
    }

    fn unsent(&self) -> usize {
        match &self.stage {
            Stage::Open(channel) => channel.unsent(),
            Stage::Opening(_) => usize::MAX,
        }
    }
}

/// The token of the listener; connections have their numbers.
const LISTENER: u64 = u64::MAX - 1;

/// Sockets.
pub(super) struct Sockets {
    listener: Option<Listener>,
    connector: Option<Connector>,
    sleeper: Arc<Sleeper>,
    next_token: u64,
}

impl Sockets {
    /// For those who prove themselves to each other; without an identity there are none.
    pub fn new(
        sleeper: Arc<Sleeper>,
        (listener, sibling): (Option<Listener>, Option<Identity>),
    ) -> Self {
        if let Some(listener) = &listener {
            // Where it cannot be watched it is looked at with everything else, a second later at most.
            let _ = sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable);
        }
        Self { listener, connector: sibling.map(Connector::new), sleeper, next_token: 0 }
    }

    fn take_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

impl Gate for Sockets {
    type Line = Line;

    fn accept(&mut self, deadline_ns: u64) -> Option<Line> {
        match self.listener.as_ref()?.accept(deadline_ns) {
            Ok(Accepted::Peer(handshake)) => Some(Line::new(handshake, self.take_token())),
            Ok(Accepted::Nobody | Accepted::Full) | Err(_) => None,
        }
    }

    fn connect(&mut self, address: &str, deadline_ns: u64) -> Result<Line, String> {
        let token = self.take_token();
        let Some(connector) = &self.connector else {
            return Err("this node fetches nothing from others".to_owned());
        };
        let to: SocketAddr =
            address.parse().map_err(|_| format!("{address:?} is no address to fetch from"))?;
        let handshake = connector.connect(to, deadline_ns);
        Ok(Line::new(handshake.map_err(|error| error.to_string())?, token))
    }

    fn watch(&self, line: &mut Line) {
        line.watch(&self.sleeper);
    }
}
