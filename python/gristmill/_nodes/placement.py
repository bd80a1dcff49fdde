"""Placements: the ways to start node agents on the nodes of an executor."""

from __future__ import annotations

import abc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill import _native
    from gristmill._nodes.view import ClientView


class Placement(abc.ABC):
    """A way to start agents on nodes, for one executor at a time.

    A placement starts with the executor's first task and ends with the executor. If it loses an agent, the submitted
    tasks lose only what was running there.
    """

    #: The address at which agents join the client, as ``host:port``; ``None`` if the client dials them.
    listen: str | None = "0.0.0.0:0"
    #: The addresses of agents that listen themselves, as ``host:port``.
    dial: Sequence[str] = ()
    #: The number of agents with different names that there can be at a time; ``None`` if unknown. Once no worker can be
    #: started on so many agents, tasks fail.
    node_count: int | None = None
    #: True if its nodes are this machine, and so can read its disks.
    is_here = False
    #: The executor that it is started for.
    client: ClientView

    def fleet(self) -> _native.Fleet:
        """Returns the keys with which client and agents authenticate."""
        from gristmill import _native

        return _native.Fleet()

    @abc.abstractmethod
    def start(self, address: str | None, key: str) -> None:
        """Starts agents that join ``address`` and authenticate with ``key``, a secret. Does not wait for them."""

    @abc.abstractmethod
    def end(self) -> None:
        """Ends the remaining agents; those end by themselves once their client has finished. May be called twice."""

    def failures(self) -> list[tuple[str, str]]:
        """Returns the missing agents: their hosts, and their last failures."""
        return []


def port_of(address: str | None) -> int:
    """Returns the port of a listening address."""
    if address is None:
        raise ValueError("this placement needs an address where agents join")
    return int(address.rpartition(":")[2])
