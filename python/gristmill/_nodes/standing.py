"""Nodes that exist already: listening agents that were started independently of this program."""

from __future__ import annotations

import os

from gristmill import _options
from gristmill._nodes.addresses import unknown_names
from gristmill._nodes.endpoint import checked
from gristmill._nodes.placement import CopiedPlacement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gristmill import _native

#: The environment variable with the path of the client's key, used if no path is given.
KEY_VARIABLE = "GRISTMILL_CLIENT_KEY"


class StandingNodes(CopiedPlacement):
    """A placement of agents at the addresses ``dial``, each ``host:port``; ``key`` is the client's key file."""

    listen = None

    def __init__(self, dial: Sequence[str], key: str | os.PathLike[str] | None = None) -> None:
        if not dial:
            raise ValueError("addresses must have at least one address")
        dial = _options.texts("addresses", dial, "texts HOST:PORT")
        dial = _options.distinct_names("addresses", dial)
        for address in dial:
            checked("addresses", address)
        if key is not None and not isinstance(key, (str, os.PathLike)):
            raise TypeError(f"key must be the path of a file, not {_options.shown(key)}")
        path = key or os.environ.get(KEY_VARIABLE)
        if path is None:
            raise ValueError(
                "nodes accept only a client with the key of their fleet: name its file with key=, "
                f"or in {KEY_VARIABLE} (`gristmill key` makes one)"
            )
        self.dial = list(dial)
        self.key = path

    def fleet(self) -> _native.Fleet:
        """Reads the client's key. Raises ``OSError`` if the file is no key, or if other users can read it."""
        from gristmill import _native

        return _native.Fleet(self.key)

    def _forget_run(self) -> None:
        """Does nothing: it keeps nothing of a run."""

    def start(self, address: str | None, key: str) -> None:
        """Checks that all host names can be resolved. Starts nothing, because the agents already run.

        Raises ``StartError`` that lists the names that cannot be resolved.
        """
        unknown = unknown_names(self.dial)
        if unknown:
            from gristmill._errors import StartError

            raise StartError(
                f"the host of {'; '.join(unknown)}. Correct the address, or make the name known to this machine"
            )

    def end(self) -> None:
        """Does nothing: the agents stay."""
