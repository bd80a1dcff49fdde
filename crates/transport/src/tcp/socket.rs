//! The options of every TCP socket here, and a writer that does not raise SIGPIPE.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::{self, SendAncillaryBuffer, SendFlags, sockopt};

/// The silence after which TCP probes a peer.
const IDLE: Duration = Duration::from_secs(15);
/// The interval between probes.
const INTERVAL: Duration = Duration::from_secs(5);
/// The number of unanswered probes after which the peer is lost.
const QUESTION_COUNT: u32 = 3;
/// The time after which a peer that takes no bytes is lost, ms. The kernel's default is a quarter of an hour.
const UNTAKEN_MS: u32 = 30_000;

/// Prepares a connected socket: it never blocks, sends at once, and detects that its peer is gone.
pub fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, IDLE)?;
    sockopt::set_tcp_keepintvl(socket, INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, QUESTION_COUNT)?;
    sockopt::set_tcp_user_timeout(socket, UNTAKEN_MS)?;
    Ok(())
}

/// A writer to a socket. A broken connection is an error and never a SIGPIPE, whatever the program does with signals.
pub struct Quiet<'a>(pub &'a TcpStream);

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(net::sendmsg(self.0, slices, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
