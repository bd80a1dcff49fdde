//! The connection to the client, and the events that the client has not read yet.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::message::KeeperEvent;
use crate::socket::Outgoing;

/// The keeper's end of the control socket.
pub(super) struct Connection {
    pub(super) control: OwnedFd,
    /// Events that the client has not read yet.
    outbox: VecDeque<Outgoing>,
    /// True once the client is dead, has closed the socket, or cannot be watched.
    pub(super) is_gone: bool,
}

impl Connection {
    pub(super) fn new(control: OwnedFd) -> Self {
        Self { control, outbox: VecDeque::new(), is_gone: false }
    }

    /// Returns true if events wait until the client reads.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends an event to the client, now or once the client reads.
    pub(super) fn tell(&mut self, event: &KeeperEvent, descriptors: Vec<OwnedFd>) {
        match Outgoing::new(event.encode(), descriptors) {
            Ok(message) => self.outbox.push_back(message),
            // Only a body that needs a memory file can fail, and no event is that large.
            Err(_) => self.is_gone = true,
        }
    }

    /// Sends the events that wait, until the socket takes no more.
    pub(super) fn flush(&mut self) {
        while let Some(message) = self.outbox.front_mut() {
            match message.send(self.control.as_fd()) {
                Ok(()) => {
                    self.outbox.pop_front();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Too many descriptors are in flight: the client gets the event without its handle.
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    message.drop_descriptors();
                }
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }
}
