"""Network of a placement: the port and the addresses at which agents join, and the group that they belong to."""

from __future__ import annotations

import dataclasses
import os

from gristmill import _options
from gristmill._nodes.addresses import loopback, reachable_at
from gristmill._nodes.endpoint import PORT_MAX, host_of, joined
from gristmill._nodes.groups import Group, check_group
from gristmill._nodes.placement import port_of

#: The longest name of a network interface, bytes.
_INTERFACE_MAX = 15


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """Address and port at which nodes find this program, and the group of nodes that are near each other.

    Raises ``TypeError`` for values of a wrong kind, and ``ValueError`` for values out of range.
    """

    #: The host at which nodes find this program: a name, an IPv4 address, or an IPv6 address with or without brackets;
    #: by default all addresses of this machine are tried.
    address: str | None = None
    #: The network interface whose addresses are used, such as ``eth0``.
    interface: str | None = None
    #: The port where this program listens for nodes; 0 for any free one.
    port: int = 0
    #: The group of nodes that are near each other, for large arguments: a name, or a function that returns it for a
    #: node's host name. ``on.mpi`` and ``on.provider``, whose hosts are not known before, take a name only.
    group: Group = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "port", _options.count("port", self.port, 0, PORT_MAX))
        if self.address is not None:
            _check_host(_options.text("address", self.address))
        if self.interface is not None:
            size = len(os.fsencode(_options.text("interface", self.interface)))
            if not 0 < size <= _INTERFACE_MAX:
                given = _options.shown(self.interface)
                raise ValueError(f"interface must be the name of one, such as eth0, not {given}")
        check_group(self.group)

    @property
    def listen(self) -> str:
        """The address to listen at if nodes may use any address of this machine, of IPv6 or of IPv4."""
        return f"[::]:{self.port}"

    @property
    def listen_here(self) -> str:
        """The address to listen at if agents connect through the loopback interface only."""
        return joined(loopback(), self.port)

    @property
    def has_address(self) -> bool:
        """True if the address or the interface is chosen."""
        return bool(self.address or self.interface)

    def addresses(self, opened: str | None) -> list[str]:
        """Returns the addresses that nodes are given, as ``host:port``. Raises as ``reachable_at`` does."""
        return reachable_at(port_of(opened), self.address, self.interface)


def _check_host(address: str) -> None:
    try:
        host_of(address)
    except ValueError as error:
        raise ValueError(
            f"address: {_options.shown(address)} {error}; port= takes the port"
        ) from None


def network_of(network: Network | None) -> Network:
    """Returns a placement's network; the default for ``None``. Raises ``TypeError`` for other values."""
    if network is None:
        return Network()
    if not isinstance(network, Network):
        raise TypeError(f"network must be a gristmill.on.Network, not {_options.shown(network)}")
    return network
