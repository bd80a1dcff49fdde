//! Socket transport between blob servers: non-blocking connections, and the sockets that make and accept them.

use std::net::SocketAddr;
use std::sync::Arc;

use gristmill_transport::{
    Accepted, Channel, ChunkHead, Connector, Handshake, HandshakeProgress, Identity, Interest,
    Listener, Sleeper, TcpChannel,
};

use super::transport::{BlobConnection, BlobTransport};

#[derive(Debug)]
enum Stage {
    Opening(Handshake),
    Open(Box<TcpChannel>),
}

/// Connection over a socket.
#[derive(Debug)]
pub(super) struct SocketConnection {
    stage: Stage,
    token: u64,
    /// Readiness that the sleeper watches the socket for.
    watched: Option<Interest>,
}

impl SocketConnection {
    /// Creates a connection from a handshake that has begun. `token` is unique among the sockets that one sleeper watches.
    fn new(handshake: Handshake, token: u64) -> Self {
        Self { stage: Stage::Opening(handshake), token, watched: None }
    }

    /// Returns the channel, once both ends have proved their identity.
    fn channel(&mut self) -> Option<&mut TcpChannel> {
        match &mut self.stage {
            Stage::Open(channel) => Some(channel),
            Stage::Opening(_) => None,
        }
    }

    /// Makes the sleeper watch the socket for the readiness that the connection needs now.
    fn watch(&mut self, sleeper: &Sleeper) {
        let (descriptor, interest) = match &self.stage {
            Stage::Opening(handshake) => (handshake.descriptor(), handshake.interest()),
            Stage::Open(channel) => (channel.descriptor(), channel.interest()),
        };
        if self.watched != Some(interest) {
            // If the sleeper cannot watch the socket, the blob server still polls it, at least once a second.
            let _ = sleeper.watch(descriptor, self.token, interest);
            self.watched = Some(interest);
        }
    }
}

impl BlobConnection for SocketConnection {
    fn open(&mut self, now: u64) -> Result<bool, String> {
        let Stage::Opening(handshake) = &mut self.stage else { return Ok(false) };
        match handshake.progress(now).map_err(|error| error.to_string())? {
            HandshakeProgress::Pending => Ok(false),
            HandshakeProgress::Done(channel) => {
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

/// Token of the listener. Connections have tokens from 1 on.
const LISTENER: u64 = u64::MAX - 1;

/// Transport over sockets.
pub(super) struct SocketTransport {
    listener: Option<Listener>,
    connector: Option<Connector>,
    sleeper: Arc<Sleeper>,
    next_token: u64,
}

impl SocketTransport {
    /// Creates a transport between nodes that prove their identity. Without an identity it makes no connections.
    pub fn new(
        sleeper: Arc<Sleeper>,
        (listener, sibling): (Option<Listener>, Option<Identity>),
    ) -> Self {
        if let Some(listener) = &listener {
            // If the sleeper cannot watch the listener, the blob server still polls it, at least once a second.
            let _ = sleeper.watch(listener.descriptor(), LISTENER, Interest::Readable);
        }
        Self { listener, connector: sibling.map(Connector::new), sleeper, next_token: 0 }
    }

    fn take_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

impl BlobTransport for SocketTransport {
    type Connection = SocketConnection;

    fn accept(&mut self, deadline_ns: u64) -> Option<SocketConnection> {
        match self.listener.as_ref()?.accept(deadline_ns) {
            Ok(Accepted::Peer(handshake)) => {
                Some(SocketConnection::new(handshake, self.take_token()))
            }
            Ok(Accepted::Nothing | Accepted::Full) | Err(_) => None,
        }
    }

    fn connect(&mut self, address: &str, deadline_ns: u64) -> Result<SocketConnection, String> {
        let token = self.take_token();
        let Some(connector) = &self.connector else {
            return Err("this node fetches no blobs from other nodes".to_owned());
        };
        let to: SocketAddr =
            address.parse().map_err(|_| format!("{address:?} is not the address of a node"))?;
        let handshake = connector.connect(to, deadline_ns);
        Ok(SocketConnection::new(handshake.map_err(|error| error.to_string())?, token))
    }

    fn watch(&self, connection: &mut SocketConnection) {
        connection.watch(&self.sleeper);
    }
}
