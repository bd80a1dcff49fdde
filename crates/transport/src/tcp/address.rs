//! Resolution of host names, and sockets that connect to an address.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::error::ChannelError;

/// Returns the addresses behind `host:port` or `[IPv6]:port`, in the order in which they should be tried.
///
/// Blocks while the system's resolver looks up a name; a numeric address does not block.
///
/// # Errors
/// The name has no address (it may have one later), or the text is not a host and a port.
pub fn resolve(address: &str) -> Result<Vec<SocketAddr>, ChannelError> {
    let unreachable = |source| ChannelError::Unreachable { address: address.to_owned(), source };
    let found: Vec<_> = address.to_socket_addrs().map_err(unreachable)?.collect();
    if found.is_empty() { Err(unreachable(io::ErrorKind::NotFound.into())) } else { Ok(found) }
}

/// Begins to connect a new socket to an address.
pub fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if a connecting socket is connected; fails if it never will be.
pub fn is_connected(socket: &TcpStream) -> io::Result<bool> {
    match net::getpeername(socket) {
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => {
            sockopt::socket_error(socket)??;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_need_no_resolver() {
        assert_eq!(resolve("127.0.0.1:9").unwrap(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(resolve("[::1]:9").unwrap(), ["[::1]:9".parse().unwrap()]);
    }

    #[test]
    fn what_is_no_address_is_unreachable() {
        for address in ["", "127.0.0.1", "127.0.0.1:no", "127.0.0.1:70000"] {
            let error = resolve(address).unwrap_err();
            assert!(matches!(error, ChannelError::Unreachable { .. }), "{address}: {error}");
        }
    }
}
