"""Where agents join a program: the port of its door, and the addresses that they are told."""

from __future__ import annotations

import dataclasses

from gristmill._nodes.addresses import reachable_at
from gristmill._nodes.placement import port_of

_PORT_MAX = 65535


@dataclasses.dataclass(frozen=True)
class Door:
    """What a placement says of the door. Raises ``ValueError`` for a port that there is not."""

    #: The port; 0 is any free one.
    port: int = 0
    #: The address that nodes are told; all of this machine if not given.
    address: str | None = None
    #: The network interface whose address is meant.
    interface: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _PORT_MAX:
            raise ValueError(
                f"port must be between 1 and {_PORT_MAX}, or 0 for any, not {self.port}"
            )

    @property
    def listen(self) -> str:
        """Where the program listens: at all addresses, of which nodes may reach any."""
        return f"0.0.0.0:{self.port}"

    @property
    def listen_here(self) -> str:
        """Where it listens for agents that reach it at this machine's own address only."""
        return f"127.0.0.1:{self.port}"

    def told(self, opened: str | None) -> list[str]:
        """What nodes are told of a door that was opened there, as ``host:port``. Raises as ``reachable_at`` does."""
        return reachable_at(port_of(opened), self.address, self.interface)
