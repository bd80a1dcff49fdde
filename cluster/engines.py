"""Other engines on a cluster, for comparison with ours: the head at the login end, workers on the nodes."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator

from cluster.cluster import Cluster
from cluster.daemon import running

_DASK_PORT, _RAY_PORT = 8786, 6379
#: Settings that make Ray ignore a token in the user's home folder, which is for the user's own clusters.
_RAY_ENVIRONMENT = {"RAY_AUTH_MODE": "disabled"}


def engine_hindrance(module: str) -> str | None:
    """Returns how to install an engine; ``None`` if it is there."""
    if importlib.util.find_spec(module):
        return None
    return f"{module} is missing: {sys.executable} -m pip install -r requirements/peers.txt"


@contextlib.contextmanager
def dask(cluster: Cluster, workers_per_node: int = 1) -> Iterator[str]:
    """Runs a Dask scheduler and workers of one thread; yields its address. A client waits for the workers."""
    head = cluster.login
    address = f"tcp://{head.address}:{_DASK_PORT}"
    program = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    place = ["--host", head.address, "--port", str(_DASK_PORT)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard"]
    worker += ["--nthreads", "1", "--nworkers", str(workers_per_node)]
    worker += ["--local-directory", "/tmp/dask"]
    with running(head, [*program, *place], _DASK_PORT), contextlib.ExitStack() as stack:
        for node in cluster.nodes:
            stack.enter_context(running(node, [*worker, "--host", node.address]))
        yield address


@contextlib.contextmanager
def ray(cluster: Cluster, cores_per_node: int = 1) -> Iterator[str]:
    """Runs a Ray cluster and yields its address.

    A program runs at the login end, which has no cores, and waits for the nodes.
    """
    head = cluster.login
    address = f"{head.address}:{_RAY_PORT}"
    program = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    program += ["--disable-usage-stats"]
    place = ["--head", "--port", str(_RAY_PORT), "--include-dashboard", "false"]
    place += ["--node-ip-address", head.address, "--num-cpus", "0"]
    with (
        running(head, [*program, *place], _RAY_PORT, _RAY_ENVIRONMENT),
        contextlib.ExitStack() as stack,
    ):
        for node in cluster.nodes:
            place = ["--address", address, "--node-ip-address", node.address]
            place += ["--num-cpus", str(cores_per_node)]
            stack.enter_context(running(node, [*program, *place], environment=_RAY_ENVIRONMENT))
        yield address
