//! The way from a socket to a channel, driven without blocking, and with a deadline.
//!
//! ```text
//!  connecting ──► opening: keys, then greetings ──► channel
//!       └─────────────────┴──────► an error: the peer, and what is wrong
//! ```

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::opening::Opening;
use super::{TcpChannel, address};
use crate::error::ChannelError;
use crate::framed::Carrier;
use crate::identity::Identity;
use crate::sleeper::Interest;

/// A connection whose handshake is in progress.
#[derive(Debug)]
pub struct Handshake {
    stage: Stage,
    peer: String,
    deadline_ns: u64,
    /// A permit of the listener, held until the handshake ends: the listener counts the permits to limit the handshakes in
    /// progress. `None` if this process connects.
    permit: Option<Arc<()>>,
}

/// The state of a handshake after a step.
#[derive(Debug)]
#[must_use]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, once for each connection"
)]
pub enum HandshakeProgress {
    /// The handshake can continue when the descriptor is ready; it fails at the deadline.
    Pending,
    /// The peer has proved its key, accepted the key of this process, and has the same versions.
    Done(TcpChannel),
}

#[derive(Debug)]
enum Stage {
    Connecting(TcpStream, Identity),
    Opening(Box<Opening>),
    /// The handshake has succeeded or failed.
    Over,
}

impl Handshake {
    /// Creates the handshake of a socket that began to connect.
    pub(super) fn connecting(
        identity: Identity,
        (socket, address): (TcpStream, SocketAddr),
        deadline_ns: u64,
    ) -> Self {
        let stage = Stage::Connecting(socket, identity);
        Self { stage, peer: address.to_string(), deadline_ns, permit: None }
    }

    /// Creates the handshake of a socket that was accepted.
    pub(super) fn accepted(
        identity: &Identity,
        (socket, address): (TcpStream, SocketAddr),
        (permit, deadline_ns): (Arc<()>, u64),
    ) -> Result<Self, ChannelError> {
        let peer = address.to_string();
        let opening = Opening::accepted(identity, socket, peer.clone())?;
        let stage = Stage::Opening(Box::new(opening));
        Ok(Self { stage, peer, deadline_ns, permit: Some(permit) })
    }

    /// Advances without waiting. `now_ns` is the time on the clock of the deadline.
    ///
    /// # Errors
    /// A fault of the peer or of the network, or the passed deadline. Any error ends this handshake.
    ///
    /// # Panics
    /// If the handshake has ended.
    pub fn progress(&mut self, now_ns: u64) -> Result<HandshakeProgress, ChannelError> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::Over);
        let permit = self.permit.take();
        if let Stage::Connecting(socket, identity) = stage {
            stage = self.connect(socket, identity)?;
        }
        if let Stage::Opening(opening) = &mut stage
            && opening.progress()?
        {
            let Stage::Opening(opening) = stage else { unreachable!("it is opening") };
            return Ok(HandshakeProgress::Done(opening.finish()));
        }
        assert!(!matches!(stage, Stage::Over), "a handshake that has ended goes on");
        if now_ns >= self.deadline_ns {
            return Err(self.too_late(&stage));
        }
        self.stage = stage;
        self.permit = permit;
        Ok(HandshakeProgress::Pending)
    }

    /// Returns the descriptor to watch. It stays the same, and becomes that of the channel.
    ///
    /// # Panics
    /// If the handshake has ended.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.stage {
            Stage::Connecting(socket, _) => socket.as_fd(),
            Stage::Opening(opening) => opening.secure.descriptor(),
            Stage::Over => panic!("a handshake that has ended has no descriptor"),
        }
    }

    /// Returns the events to watch the descriptor for; each call of [`Handshake::progress`] may change them.
    #[must_use]
    pub fn interest(&self) -> Interest {
        match &self.stage {
            Stage::Connecting(..) => Interest::Writable,
            Stage::Opening(opening) if opening.secure.wants_push() => Interest::Both,
            Stage::Opening(_) | Stage::Over => Interest::Readable,
        }
    }

    /// Returns the deadline, ns.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Returns the address of the peer, for messages.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    fn connect(&self, socket: TcpStream, identity: Identity) -> Result<Stage, ChannelError> {
        match address::is_connected(&socket) {
            Ok(false) => Ok(Stage::Connecting(socket, identity)),
            Ok(true) => {
                let opening = Opening::connected(&identity, socket, self.peer.clone())?;
                Ok(Stage::Opening(Box::new(opening)))
            }
            Err(source) => Err(ChannelError::Unreachable { address: self.peer.clone(), source }),
        }
    }

    fn too_late(&self, stage: &Stage) -> ChannelError {
        let peer = self.peer.clone();
        match stage {
            Stage::Connecting(..) => {
                let source = io::ErrorKind::TimedOut.into();
                ChannelError::Unreachable { address: peer, source }
            }
            Stage::Opening(_) | Stage::Over => ChannelError::Silent { peer },
        }
    }
}
