"""Addresses of hosts: where this machine can be reached, and which host names can be resolved."""

from __future__ import annotations

import concurrent.futures
import fcntl
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: ``SIOCGIFADDR`` of Linux: the request for the IPv4 address of a network interface.
_GET_ADDRESS = 0x8915
#: The size of the kernel's ``ifreq``, and of the name in it without the final null byte, bytes.
_REQUEST_SIZE, _NAME_SIZE = 256, 15
#: The longest wait for the name service, seconds. A name without an answer by then counts as known.
_LOOKUP_S = 5.0
#: The number of names that are looked up at the same time.
_LOOKUPS_MAX = 32


def address_of_interface(name: str) -> str:
    """Returns the IPv4 address of a network interface such as ``eth0``. Raises ``OSError`` if it has none."""
    request = struct.pack(f"{_REQUEST_SIZE}s", name.encode()[:_NAME_SIZE])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock.fileno(), _GET_ADDRESS, request)
    return socket.inet_ntoa(answer[20:24])


def address_of_route() -> str:
    """Returns the source address of traffic to other networks; sends nothing. Raises ``OSError`` without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # An address of the documentation network (RFC 5737): connecting a datagram socket only looks up the route.
        sock.connect(("192.0.2.1", 9))
        address: str = sock.getsockname()[0]
    return address


def all_addresses() -> list[str]:
    """Returns the IPv4 addresses of all interfaces: the address of the default route first, the loopback's last."""
    found = []
    for _, name in socket.if_nameindex():
        try:
            found.append(address_of_interface(name))
        except OSError:
            continue
    try:
        likely = address_of_route()
    except OSError:
        likely = ""
    return sorted(dict.fromkeys(found), key=lambda one: (one.startswith("127."), one != likely))


def reachable_at(port: int, address: str | None = None, interface: str | None = None) -> list[str]:
    """Returns the addresses at which agents find this client, as ``host:port``: the given one, or all if none is given.

    Raises ``ValueError`` if the interface has no address.
    """
    if address is not None:
        return [f"{address}:{port}"]
    if interface is not None:
        try:
            return [f"{address_of_interface(interface)}:{port}"]
        except OSError as error:
            raise ValueError(f"interface {interface} has no address: {error}") from error
    return [f"{one}:{port}" for one in all_addresses()]


def unknown_names(addresses: Sequence[str]) -> list[str]:
    """Looks up the host of each ``host:port``. Returns each address whose host cannot be resolved, with the reason."""
    pool = concurrent.futures.ThreadPoolExecutor(min(len(addresses), _LOOKUPS_MAX))
    lookups = {pool.submit(_look_up, address): address for address in dict.fromkeys(addresses)}
    done, _ = concurrent.futures.wait(lookups, _LOOKUP_S)
    # A lookup cannot be interrupted: its thread ends by itself.
    pool.shutdown(wait=False, cancel_futures=True)
    reasons = ((address, lookup.result()) for lookup, address in lookups.items() if lookup in done)
    return [f"{address!r} cannot be resolved: {reason}" for address, reason in reasons if reason]


def _look_up(address: str) -> str:
    """Returns the reason why the host of an address cannot be resolved, or an empty text if it can."""
    host, _, port = address.rpartition(":")
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        return error.strerror or str(error)
    except (UnicodeError, OverflowError) as error:
        return str(error)
    return ""
