"""Placements: how node agents come to be where an executor's workers are to run."""

from __future__ import annotations

import abc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill import _native
    from gristmill._nodes.view import ClientView


class Placement(abc.ABC):
    """Something that puts agents on nodes, for one executor at a time.

    A placement is started with the executor's first task and ended with the executor. Agents that it loses cost no
    submitted task anything but what was running on them.
    """

    #: Where agents join the client, as ``host:port``; ``None``: it dials them.
    listen: str | None = "0.0.0.0:0"
    #: Agents that listen themselves, as ``host:port``.
    dial: Sequence[str] = ()
    #: How many agents there can be at a time, with different names; ``None``: nobody knows. Once no worker can be
    #: started on so many, tasks fail.
    node_count: int | None = None
    #: Its nodes are this machine: they have what is on its disks.
    is_here = False
    #: The executor that it is started for.
    client: ClientView

    def fleet(self) -> _native.Fleet:
        """Gives the keys that client and agents prove themselves with."""
        from gristmill import _native

        return _native.Fleet()

    @abc.abstractmethod
    def start(self, address: str | None, key: str) -> None:
        """Starts agents that join ``address`` and prove themselves with ``key``, a secret. Does not wait for them."""

    @abc.abstractmethod
    def end(self) -> None:
        """Takes away what is left: agents end by themselves once their client has finished. May be called twice."""

    def troubles(self) -> list[tuple[str, str]]:
        """Why agents that should be there are not: where, and what went wrong last."""
        return []


def port_of(address: str | None) -> int:
    """The port of an address that was listened at."""
    if address is None:
        raise ValueError("this placement needs an address where agents join")
    return int(address.rpartition(":")[2])
