//! Addresses as texts, resolution of host names, and sockets that listen at an address or connect to one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::error::ChannelError;

/// The text of the error for an address in another form.
const FORMS: &str = "it is not HOST:PORT, where HOST is a name, an IPv4 address, or an IPv6 \
                     address in brackets";

/// Returns the addresses behind `HOST:PORT`, in the order in which they should be tried. The host is a name, an IPv4 address,
/// or an IPv6 address in brackets, which may have a scope: `[fe80::1%eth0]`.
///
/// Blocks while the system's resolver looks up a name; a numeric address does not block. IPv4-mapped addresses become IPv4
/// addresses, which also a machine without IPv6 has.
///
/// # Errors
/// The name has no address (it may have one later), or the text has another form.
pub fn resolve(address: &str) -> Result<Vec<SocketAddr>, ChannelError> {
    if let Some(found) = numeric(address) {
        return Ok(vec![found]);
    }
    let unreachable = |source| ChannelError::Unreachable { address: address.to_owned(), source };
    let wrong = || unreachable(io::Error::new(io::ErrorKind::InvalidInput, FORMS));
    let host_and_port = split(address).ok_or_else(wrong)?;
    let mut found = Vec::new();
    for one in host_and_port.to_socket_addrs().map_err(unreachable)? {
        let one = canonical(one);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    if found.is_empty() { Err(unreachable(io::ErrorKind::NotFound.into())) } else { Ok(found) }
}

/// Returns the address behind the text of a numeric address, and `None` for a name or another text.
#[must_use]
pub fn numeric(address: &str) -> Option<SocketAddr> {
    address.parse().ok().map(canonical)
}

/// Splits `HOST:PORT`, and removes the brackets of an IPv6 address.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| is_number)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    // A name has no colon, so an IPv6 address without brackets is not mistaken for one.
    let is_one = inner.map_or(!host.contains([':', '[', ']']), |inner| inner.contains(':'));
    let host = inner.unwrap_or(host);
    (is_one && !host.is_empty()).then_some((host, port))
}

/// Returns the IPv4 address of an IPv4-mapped address, and any other address as it is.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mapped) if mapped.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        other => other,
    }
}

/// Listens at an address with a queue of so many connections. `[::]` is any address of the machine, of IPv6 and of IPv4;
/// where the machine has no IPv6, it is `0.0.0.0`.
pub fn listen(address: SocketAddr, queue_count_max: i32) -> io::Result<TcpListener> {
    let address = canonical(address);
    let is_any = address.is_ipv6() && address.ip().is_unspecified();
    match try_listen(address, is_any, queue_count_max) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if is_any => {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            Ok(try_listen(any, false, queue_count_max)?)
        }
        listening => Ok(listening?),
    }
}

fn try_listen(
    address: SocketAddr,
    is_dual: bool,
    queue_count_max: i32,
) -> Result<TcpListener, Errno> {
    let socket = open(address)?;
    // A port that connections used a moment ago is free again, as for the standard library's listeners.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if is_dual {
        // The system's default may be IPv6 alone.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, queue_count_max)?;
    Ok(socket.into())
}

/// Begins to connect a new socket to an address.
pub fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = open(address)?;
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Opens a non-blocking socket of the family of an address.
fn open(address: SocketAddr) -> Result<std::os::fd::OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, None)
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
        for (text, address) in [
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("[::1]:9", "[::1]:9"),
            ("[::ffff:127.0.0.1]:9", "127.0.0.1:9"),
            ("[fe80::1%3]:9", "[fe80::1%3]:9"),
        ] {
            assert_eq!(resolve(text).unwrap(), [address.parse().unwrap()], "{text}");
            assert_eq!(numeric(text), Some(address.parse().unwrap()), "{text}");
        }
        assert_eq!(numeric("localhost:9"), None);
    }

    #[test]
    fn a_scope_may_be_the_name_of_an_interface() {
        let Ok(found) = resolve("[fe80::1%lo]:9") else { return };
        let [SocketAddr::V6(address)] = found[..] else { panic!("{found:?}") };
        assert_ne!(address.scope_id(), 0);
    }

    #[test]
    fn what_is_no_address_is_an_error_that_says_what_is_one() {
        for address in [
            "",
            "127.0.0.1",
            "127.0.0.1:",
            "127.0.0.1:no",
            "127.0.0.1:70000",
            "127.0.0.1:+7",
            ":7",
            "::1",
            "::1:9",
            "[::1]",
            "[::1]9",
            "[]:9",
            "[localhost]:9",
            "[::1:9",
            "::1]:9",
        ] {
            let error = resolve(address).unwrap_err();
            assert!(matches!(error, ChannelError::Unreachable { .. }), "{address}: {error}");
            assert!(error.to_string().contains("an IPv6 address in brackets"), "{error}");
            assert_eq!(numeric(address), None);
        }
    }

    #[test]
    fn any_address_is_one_of_both_families() {
        let listener = listen("[::]:0".parse().unwrap(), 1).unwrap();
        let there = listener.local_addr().unwrap();
        let reach = |host: &str| TcpStream::connect(format!("{host}:{}", there.port()));
        reach("127.0.0.1").expect("IPv4 reaches it");
        assert_eq!(reach("[::1]").is_ok(), TcpListener::bind("[::1]:0").is_ok());
    }
}
