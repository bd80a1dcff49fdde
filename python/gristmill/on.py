"""Where an executor's workers run: placements for ``Executor(nodes=...)``."""

from __future__ import annotations

from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import Placement
from gristmill._nodes.standing import StandingNodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

__all__ = ["LocalNodes", "Placement", "StandingNodes", "hosts", "local"]


def hosts(*addresses: str, key: str | os.PathLike[str] | None = None) -> Placement:
    """Uses agents that are there already and listen at ``addresses``, each ``host:port``.

    :param key: the file with the client's key; ``GRISTMILL_CLIENT_KEY`` names it if not given. Raises ``ValueError``
        without either.
    """
    return StandingNodes(addresses, key)


def local(count: int = 2, workers: int = 1) -> Placement:
    """Puts ``count`` agents with ``workers`` workers each on this machine, as if they were nodes of a cluster."""
    return LocalNodes(count, workers)
