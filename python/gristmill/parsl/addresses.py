"""Names of this machine, for configurations that tell Parsl's workers where to connect; Gristmill's need none."""

from __future__ import annotations

import fcntl
import socket
import struct

#: ``SIOCGIFADDR`` of Linux: the IPv4 address of a network interface.
_GET_ADDRESS = 0x8915
#: The size of the kernel's ``ifreq`` and the part of it that is the name, bytes.
_REQUEST_SIZE, _NAME_SIZE = 256, 15


def address_by_hostname() -> str:
    """The host's name, with its domain where that is known."""
    return socket.getfqdn()


def address_by_interface(ifname: str) -> str:
    """The IPv4 address of a network interface, as ``eth0``. Raises ``OSError`` if there is none."""
    request = struct.pack(f"{_REQUEST_SIZE}s", ifname.encode()[:_NAME_SIZE])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock.fileno(), _GET_ADDRESS, request)
    return socket.inet_ntoa(answer[20:24])


def address_by_route() -> str:
    """The address that traffic to other networks leaves from; nothing is sent. Raises ``OSError`` without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # Of the network for documentation, RFC 5737: connecting a datagram socket only looks the route up.
        sock.connect(("192.0.2.1", 9))
        address: str = sock.getsockname()[0]
    return address


def get_all_addresses() -> set[str]:
    """Every address that can be found of this machine."""
    found = {address_by_hostname()}
    for _, interface in socket.if_nameindex():
        try:
            found.add(address_by_interface(interface))
        except OSError:
            continue
    return found


def get_any_address() -> str:
    """An address of this machine that other machines may reach."""
    try:
        return address_by_route()
    except OSError:
        return address_by_hostname()
