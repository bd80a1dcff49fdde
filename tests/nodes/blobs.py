"""Helpers for tests of large values on nodes."""

from __future__ import annotations

import dataclasses
import os

from gristmill import Executor
from gristmill._nodes.local import LocalNodes


def counts(executor: Executor) -> dict[str, int]:
    stats = dataclasses.asdict(executor.stats())
    return {
        name.removeprefix("blob_bytes_"): count
        for name, count in stats.items()
        if name.startswith("blob_bytes_")
    }


def spilled(placement: LocalNodes) -> bool:
    """Returns whether the agent holds its spill file, which has no name."""
    folder = f"/proc/{placement.agents[0].pid}/fd"
    links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
    return any("/gristmill-" in link and link.endswith("(deleted)") for link in links)
