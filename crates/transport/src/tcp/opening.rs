//! A connected socket whose ends do not trust each other yet. Both prove their keys, then exchange greetings.

use std::net::TcpStream;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::secure::Secure;
use super::{TcpChannel, faults, socket};
use crate::channel::Flushed;
use crate::error::{ChannelError, lost};
use crate::framed::{Carrier, Framed};
use crate::greeting::{self, GREETING_SIZE, Versions};
use crate::identity::Identity;

/// A name that the TLS library requires. It is neither sent nor checked, because a peer is identified by its key.
const NAME: &str = "gristmill.invalid";

/// The state between a socket and a channel.
#[derive(Debug)]
pub struct Opening {
    pub secure: Secure,
    listens: bool,
    has_greeted: bool,
    greeting: [u8; GREETING_SIZE],
    /// Bytes of the peer's greeting that have come.
    greeting_size: usize,
}

impl Opening {
    /// Creates the state of the connecting side.
    pub fn connected(
        identity: &Identity,
        stream: TcpStream,
        peer: String,
    ) -> Result<Self, ChannelError> {
        let name = ServerName::try_from(NAME).expect("the name is one");
        let tls = ClientConnection::new(identity.connecting.clone(), name);
        let tls = tls.map_err(|error| faults::of_handshake(&peer, error))?;
        Self::new(stream, tls.into(), peer, false)
    }

    /// Creates the state of the listening side.
    pub fn accepted(
        identity: &Identity,
        stream: TcpStream,
        peer: String,
    ) -> Result<Self, ChannelError> {
        let tls = ServerConnection::new(identity.listening.clone());
        let tls = tls.map_err(|error| faults::of_handshake(&peer, error))?;
        Self::new(stream, tls.into(), peer, true)
    }

    fn new(
        stream: TcpStream,
        tls: Connection,
        peer: String,
        listens: bool,
    ) -> Result<Self, ChannelError> {
        socket::prepare(&stream).map_err(lost(&peer))?;
        let secure = Secure::new(stream, tls, peer);
        let greeting = [0; GREETING_SIZE];
        Ok(Self { secure, listens, has_greeted: false, greeting, greeting_size: 0 })
    }

    /// Advances without waiting. Returns true once both keys are proved and both ends have greeted.
    pub fn progress(&mut self) -> Result<bool, ChannelError> {
        let is_heard = self.hear()?;
        let mut flushed = self.secure.push()?;
        if self.secure.is_handshaking() {
            return Ok(false);
        }
        // The listening side knows that the peer accepts its key when the handshake ends; the connecting side knows it when the
        // greeting comes. The connecting side sends nothing before that. If a listener refuses it, the listener must have no
        // unread bytes: they would cause a reset, and the reason would be lost.
        if !self.has_greeted && (self.listens || is_heard) && flushed == Flushed::All {
            self.has_greeted = self.secure.carry(&greeting::encode(Versions::OURS))? > 0;
            flushed = self.secure.push()?;
        }
        if !is_heard || !self.has_greeted {
            return Ok(false);
        }
        // The comparison comes after this end's greeting, so that the peer can find the reason as well.
        self.compare()?;
        Ok(flushed == Flushed::All)
    }

    /// Turns the opened connection into its channel.
    pub fn finish(mut self) -> TcpChannel {
        self.secure.establish();
        Framed::new(self.secure)
    }

    /// Reads what has come; returns true once the greeting is complete. The bytes behind the greeting belong to the channel.
    fn hear(&mut self) -> Result<bool, ChannelError> {
        while self.greeting_size < GREETING_SIZE {
            let arrived = self.secure.arrived()?;
            if arrived.is_empty() {
                return Ok(false);
            }
            let rest = &mut self.greeting[self.greeting_size..];
            let count = arrived.len().min(rest.len());
            rest[..count].copy_from_slice(&arrived[..count]);
            self.greeting_size += count;
            self.secure.consume(count);
        }
        Ok(true)
    }

    fn compare(&self) -> Result<(), ChannelError> {
        let peer = || self.secure.peer().to_owned();
        let ours = Versions::OURS;
        match greeting::decode(self.greeting) {
            Ok(theirs) if theirs == ours => Ok(()),
            Ok(theirs) => Err(ChannelError::Version { peer: peer(), ours, theirs }),
            Err(error) => Err(ChannelError::Garbage { peer: peer(), source: Box::new(error) }),
        }
    }
}
