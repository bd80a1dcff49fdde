"""Names of this machine, for configurations that tell Parsl's workers where to connect; Gristmill's find out."""

from __future__ import annotations

import socket

from gristmill._nodes.addresses import address_of_interface, address_of_route, all_addresses


def address_by_hostname() -> str:
    """The host's name, with its domain where that is known."""
    return socket.getfqdn()


def address_by_interface(ifname: str) -> str:
    """The IPv4 address of a network interface, as ``eth0``. Raises ``OSError`` if there is none."""
    return address_of_interface(ifname)


def address_by_route() -> str:
    """The address that traffic to other networks leaves from; nothing is sent. Raises ``OSError`` without a route."""
    return address_of_route()


def get_all_addresses() -> set[str]:
    """Every address that can be found of this machine."""
    return {address_by_hostname(), *all_addresses()}


def get_any_address() -> str:
    """An address of this machine that other machines may reach."""
    try:
        return address_by_route()
    except OSError:
        return address_by_hostname()
