"""Addresses of hosts: where this machine can be reached, and which host names can be resolved."""

from __future__ import annotations

import concurrent.futures
import errno
import os
import socket

from gristmill._nodes.endpoint import host_of, joined, split
from gristmill._nodes.interfaces import interface_addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The longest wait for the name service, seconds. A name without an answer by then counts as known.
_LOOKUP_S = 5.0
#: The number of names that are looked up at the same time.
_LOOKUPS_MAX = 32
#: Addresses of the documentation networks (RFC 5737, RFC 3849), by which routes to other networks are found.
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


def addresses_of_interface(name: str) -> list[str]:
    """Returns the addresses of a network interface such as ``eth0`` that other machines can use, those of IPv4 first.

    The name may be that of an alias such as ``eth0:1``, which has a part of the interface's addresses.

    Raises ``OSError`` if there is no such interface, or if it has no such address.
    """
    found = [one for one in interface_addresses() if name in (one.interface, one.label)]
    if not found:
        socket.if_nametoindex(name)
    usable = sorted((one for one in found if not one.is_of_link), key=lambda one: one.is_fleeting)
    if not usable:
        why = os.strerror(errno.EADDRNOTAVAIL)
        if found:
            why = "its addresses are valid on one link only: give one with address=, and the nodes' interface after a %"
        raise OSError(errno.EADDRNOTAVAIL, why)
    return [one.host for one in sorted(usable, key=lambda one: one.is_ipv6)]


def address_of_route() -> str:
    """Returns the source address of traffic to other networks, of IPv6 if there is no route of IPv4.

    Sends nothing. Raises ``OSError`` without a route.
    """
    try:
        return _source(socket.AF_INET)
    except OSError:
        return _source(socket.AF_INET6)


def _source(family: socket.AddressFamily) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        # Connecting a datagram socket only looks up the route.
        sock.connect((_ELSEWHERE[family], 9))
        address: str = sock.getsockname()[0]
    return address


def all_addresses() -> list[str]:
    """Returns the addresses of all interfaces that other machines can use, and those of the loopback, which come last.

    The addresses of the default routes come first, that of IPv4 before that of IPv6.
    """
    likely = []
    for family in _ELSEWHERE:
        try:
            likely.append(_source(family))
        except OSError:
            continue
    try:
        found = [one for one in interface_addresses() if not one.is_of_link]
    except OSError:  # a container's filter
        return [*likely, loopback()]
    found.sort(key=lambda one: (one.is_loopback, one.host not in likely, one.is_fleeting))
    return list(dict.fromkeys(one.host for one in found))


def loopback() -> str:
    """Returns the address of the loopback interface: that of IPv4, unless the machine has none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 0))
    except OSError:
        return "::1"
    return "127.0.0.1"


def reachable_at(port: int, address: str | None = None, interface: str | None = None) -> list[str]:
    """Returns the addresses at which agents find this client, as ``host:port``: the given one, or all if none is given.

    Raises ``ValueError`` if the interface has no address.
    """
    if address is not None:
        return [joined(host_of(address), port)]
    if interface is not None:
        try:
            found = addresses_of_interface(interface)
        except OSError as error:
            raise ValueError(f"interface {interface} has no address: {error}") from error
        return [joined(one, port) for one in found]
    return [joined(one, port) for one in all_addresses()]


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
    try:
        socket.getaddrinfo(*split(address), type=socket.SOCK_STREAM)
    except OSError as error:
        return error.strerror or str(error)
    except UnicodeError as error:
        return str(error)
    return ""
