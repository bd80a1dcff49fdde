"""What tests of large values on nodes look at."""

from __future__ import annotations

from gristmill import Executor

import calls


def wait_for_nodes(executor: Executor, count: int) -> None:
    """Looks until so many nodes are there; the watchdog ends a look that never finds them."""
    while len([node for node in executor._nodes() if node["connected"]]) < count:
        executor.submit(calls.nothing).result()


def counts(executor: Executor) -> dict[str, int]:
    stats = executor.stats()
    return {
        name.removeprefix("blob_bytes_"): stats[name]
        for name in stats
        if name.startswith("blob_bytes_")
    }
