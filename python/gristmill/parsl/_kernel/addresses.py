"""Network names of this machine, for configurations that say where Parsl's workers connect.

Gristmill's workers need none of these: they find the address themselves.
"""

from __future__ import annotations

import socket

from gristmill._nodes.addresses import address_of_route, addresses_of_interface, all_addresses


def address_by_hostname() -> str:
    """Returns the host name, with its domain where the domain is known."""
    return socket.getfqdn()


def address_by_interface(ifname: str) -> str:
    """Returns the address of a network interface such as ``eth0``: an IPv6 address if it has none of IPv4.

    Raises ``OSError`` if there is none.
    """
    return addresses_of_interface(ifname)[0]


def address_by_route() -> str:
    """Returns the source address of traffic to other networks, of IPv6 if there is no route of IPv4.

    Sends nothing. Raises ``OSError`` without a route.
    """
    return address_of_route()


def get_all_addresses() -> set[str]:
    """Returns every address of this machine that can be found."""
    return {address_by_hostname(), *all_addresses()}


def get_any_address() -> str:
    """Returns an address of this machine that other machines may be able to reach."""
    try:
        return address_by_route()
    except OSError:
        return address_by_hostname()
