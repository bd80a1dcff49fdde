"""Where this machine can be reached: every address that agents are to try."""

from __future__ import annotations

import fcntl
import socket
import struct

#: ``SIOCGIFADDR`` of Linux: the IPv4 address of a network interface.
_GET_ADDRESS = 0x8915
#: The size of the kernel's ``ifreq`` and the part of it that is the name, bytes.
_REQUEST_SIZE, _NAME_SIZE = 256, 15


def address_of_interface(name: str) -> str:
    """The IPv4 address of a network interface, as ``eth0``. Raises ``OSError`` if there is none."""
    request = struct.pack(f"{_REQUEST_SIZE}s", name.encode()[:_NAME_SIZE])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock.fileno(), _GET_ADDRESS, request)
    return socket.inet_ntoa(answer[20:24])


def address_of_route() -> str:
    """The address that traffic to other networks leaves from; nothing is sent. Raises ``OSError`` without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # Of the network for documentation, RFC 5737: connecting a datagram socket only looks the route up.
        sock.connect(("192.0.2.1", 9))
        address: str = sock.getsockname()[0]
    return address


def all_addresses() -> list[str]:
    """The addresses of all interfaces, likely ones first: that of the route to others, and the loopback's last."""
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
    """Where agents find this client, as ``host:port``: there, or anywhere if neither is given.

    Raises ``ValueError`` for an interface without an address.
    """
    if address is not None:
        return [f"{address}:{port}"]
    if interface is not None:
        try:
            return [f"{address_of_interface(interface)}:{port}"]
        except OSError as error:
            raise ValueError(f"interface {interface} has no address: {error}") from error
    return [f"{one}:{port}" for one in all_addresses()]
