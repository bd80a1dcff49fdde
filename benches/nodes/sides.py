"""The sides of a contest on a cluster: the daemons of each engine, and its client's process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from benches.engines.base import share_paths
from benches.machine import ROOT
from benches.model import Settings, Unavailable
from benches.nodes.order import FAILED, Order, Place

from cluster import Cluster, Process, hindrance
from cluster.agents import agents
from cluster.engines import dask, ray

#: The folder for temporary files; each machine of a cluster has its own.
TEMPORARY = {"TMPDIR": "/tmp"}


@contextmanager
def booted(nodes: int) -> Iterator[Cluster]:
    """Makes a cluster whose machines find `benches`. A process can have only one."""
    if reason := hindrance():
        raise Unavailable(f"no namespaces: {reason}")
    share_paths()
    os.environ.update(TEMPORARY)
    with Cluster(nodes) as cluster:
        yield cluster


def split_cores(cluster: Cluster) -> dict[str, list[int]]:
    """Gives the login machine and the nodes disjoint sets of cores if there are at least two cores.

    A process then wakes its partner on another core, as it does on two real machines. Otherwise the kernel puts small
    programs side by side in some runs and not in others.
    """
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    shares = {"login": cores[:half] or cores, "nodes": cores[half:]}
    for machine in (cluster.login, *cluster.nodes):
        share = shares["login" if machine is cluster.login else "nodes"]
        os.sched_setaffinity(machine.pid, share)
    return shares


@dataclass
class Side:
    """An engine that runs on the cluster."""

    parameters: dict[str, Any]
    process: Process

    def sample(self) -> float:
        """Takes the next sample."""
        assert self.process.stdin is not None
        print("sample", file=self.process.stdin, flush=True)
        return float(answer(self.process))


@contextmanager
def side(cluster: Cluster, engine: str, work: str, settings: Settings) -> Iterator[Side]:
    """Starts an engine on all nodes, and its client, which chooses its sizes and warms itself up."""
    if engine not in DAEMONS:
        raise Unavailable(f"{engine} has no adapter for nodes")
    with ExitStack() as stack:
        place = stack.enter_context(DAEMONS[engine](cluster))
        order = Order(engine, work, place, settings)
        command = [sys.executable, "-m", "benches.nodes.client", order.text()]
        pipe = subprocess.PIPE
        process = cluster.login.start(command, cwd=ROOT, stdin=pipe, stdout=pipe)
        with process:
            yield Side(json.loads(answer(process)), process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def answer(process: Process) -> str:
    """Reads one line of the process's output. Raises `Unavailable` if the process has failed or ended."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line or line.startswith(FAILED):
        raise Unavailable(line.removeprefix(FAILED).strip() or "its client has ended")
    return line


def place_of(cluster: Cluster, meeting: list[str], key: str = "") -> Place:
    """Returns the description of the cluster for a client."""
    hosts = [node.name for node in cluster.nodes]
    return Place(cluster.login.address, hosts, str(cluster.shell), meeting, key)


@contextmanager
def with_agents(cluster: Cluster) -> Iterator[Place]:
    """Starts our agents."""
    with agents(cluster) as (addresses, key):
        yield place_of(cluster, addresses, str(key))


@contextmanager
def with_dask(cluster: Cluster) -> Iterator[Place]:
    """Starts Dask's scheduler and workers."""
    with dask(cluster) as address:
        yield place_of(cluster, [address])


@contextmanager
def with_ray(cluster: Cluster) -> Iterator[Place]:
    """Starts Ray's head and raylets."""
    with ray(cluster) as address:
        yield place_of(cluster, [address])


#: The functions that start an engine's daemons on a cluster before its client; HTEX's client starts everything.
DAEMONS: dict[str, Callable[[Cluster], AbstractContextManager[Place]]] = {
    "gristmill": with_agents,
    "htex": lambda cluster: nullcontext(place_of(cluster, [])),
    "ray": with_ray,
    "dask": with_dask,
}
