"""What tests of large values on nodes look at."""

from __future__ import annotations

import os

from gristmill import Executor
from gristmill._nodes.local import LocalNodes


def counts(executor: Executor) -> dict[str, int]:
    stats = executor.stats()
    return {
        name.removeprefix("blob_bytes_"): stats[name]
        for name in stats
        if name.startswith("blob_bytes_")
    }


def spilled(placement: LocalNodes) -> bool:
    """Whether the agent has its file without a name."""
    folder = f"/proc/{placement.agents[0].pid}/fd"
    links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
    return any("/gristmill-" in link and link.endswith("(deleted)") for link in links)
