"""Our node agents on a cluster, one on each node, which stand by for any client with their key."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cluster.cluster import Cluster
from cluster.daemon import running

_PORT = 7700
_COMMAND = [sys.executable, "-m", "gristmill._cli"]


class Agents(NamedTuple):
    """The addresses and the key with which a client reaches the agents."""

    addresses: list[str]
    #: The file with the client's key.
    key: Path


@contextlib.contextmanager
def agents(cluster: Cluster, workers_per_node: int = 1) -> Iterator[Agents]:
    """Runs an agent on each node, which serves one client after the other."""
    keys = cluster.shared / "keys"
    keys.mkdir()
    made = cluster.login.run([*_COMMAND, "key", keys])
    client, node = made.stdout.split()
    command = [*_COMMAND, "node", "--listen", f"0.0.0.0:{_PORT}", "--key", node]
    command += ["--workers", str(workers_per_node)]
    with contextlib.ExitStack() as stack:
        for one in cluster.nodes:
            stack.enter_context(running(one, command, _PORT))
        yield Agents([f"{one.name}:{_PORT}" for one in cluster.nodes], Path(client))
