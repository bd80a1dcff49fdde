"""Nodes that are there already: agents that listen, started by whoever looks after them."""

from __future__ import annotations

import os

from gristmill._nodes.placement import Placement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill import _native

#: Names the client's key where none is given.
KEY_VARIABLE = "GRISTMILL_CLIENT_KEY"


class StandingNodes(Placement):
    """Agents at the addresses ``dial``, each ``host:port``; ``key`` is the file with the client's key."""

    listen = None

    def __init__(self, dial: Sequence[str], key: str | os.PathLike[str] | None = None) -> None:
        if not dial:
            raise ValueError("there must be at least one address")
        for address in dial:
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit():
                raise ValueError(f"{address!r} is not HOST:PORT")
        path = key or os.environ.get(KEY_VARIABLE)
        if path is None:
            raise ValueError(
                f"nodes let in only whoever has their client's key: name its file with key=, or in {KEY_VARIABLE} "
                "(`gristmill key` makes one)"
            )
        self.dial = list(dial)
        self.key = path

    def fleet(self) -> _native.Fleet:
        """Reads the client's key. Raises ``OSError`` for a file that is none, or that others can read."""
        from gristmill import _native

        return _native.Fleet(self.key)

    def start(self, address: str | None, key: str) -> None:
        """Does nothing: they are there."""

    def end(self) -> None:
        """Does nothing: they stay."""
