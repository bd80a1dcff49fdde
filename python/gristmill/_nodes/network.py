"""Network of a placement: the port and the addresses at which agents join, and the group that they belong to."""

from __future__ import annotations

import dataclasses

from gristmill import _options
from gristmill._nodes.addresses import reachable_at
from gristmill._nodes.groups import Group, check_group
from gristmill._nodes.placement import port_of

PORT_MAX = 65535


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """Address and port at which nodes find this program, and the group of nodes that are near each other.

    Raises ``TypeError`` for values of a wrong kind, and ``ValueError`` for values out of range.
    """

    #: The address at which nodes find this program; by default all addresses of this machine are tried.
    address: str | None = None
    #: The network interface whose address is used, such as ``eth0``.
    interface: str | None = None
    #: The port where this program listens for nodes; 0 for any free one.
    port: int = 0
    #: The group of nodes that are near each other, for large arguments: a name, or a function that returns it for a
    #: node's host name. ``on.mpi`` and ``on.provider``, whose hosts are not known before, take a name only.
    group: Group = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "port", _options.count("port", self.port, 0, PORT_MAX))
        for name in ("address", "interface"):
            if getattr(self, name) is not None:
                _options.text(name, getattr(self, name))
        check_group(self.group)

    @property
    def listen(self) -> str:
        """The address to listen at if nodes may use any address of this machine."""
        return f"0.0.0.0:{self.port}"

    @property
    def listen_here(self) -> str:
        """The address to listen at if agents connect through the loopback interface only."""
        return f"127.0.0.1:{self.port}"

    @property
    def has_address(self) -> bool:
        """True if the address or the interface is chosen."""
        return bool(self.address or self.interface)

    def addresses(self, opened: str | None) -> list[str]:
        """Returns the addresses that nodes are given, as ``host:port``. Raises as ``reachable_at`` does."""
        return reachable_at(port_of(opened), self.address, self.interface)


def network_of(network: Network | None) -> Network:
    """Returns a placement's network; the default for ``None``. Raises ``TypeError`` for other values."""
    if network is None:
        return Network()
    if not isinstance(network, Network):
        raise TypeError(f"network must be a gristmill.on.Network, not {_options.shown(network)}")
    return network
