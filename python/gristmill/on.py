"""Where an executor's workers run: placements for ``Executor(nodes=...)``."""

from __future__ import annotations

from gristmill._nodes.local import LocalNodes
from gristmill._nodes.placement import Placement

__all__ = ["LocalNodes", "Placement", "local"]


def local(count: int = 2, workers: int = 1) -> Placement:
    """Puts ``count`` agents with ``workers`` workers each on this machine, as if they were nodes of a cluster."""
    return LocalNodes(count, workers)
