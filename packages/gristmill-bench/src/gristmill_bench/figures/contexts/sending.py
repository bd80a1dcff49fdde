"""The bytes that cross each link when nodes get the same data, for each set of sources."""

from __future__ import annotations

import os
from functools import partial
from time import monotonic, sleep
from typing import Literal

import gristmill
from gristmill import on
from gristmill_bench.errors import BenchError
from gristmill_bench.executors.base import scratch
from gristmill_bench.figures.bounded import left_at_once
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Figure, Relation
from gristmill_bench.figures.session import Case, Sample, Session

_SIZE = 8_000_000
#: The nodes, by their group.
_GROUPS = {"east": ("local0", "local1", "local2"), "west": ("local3", "local4", "local5")}
_NODES = sum(map(len, _GROUPS.values()))
Topology = Literal["client", "peers", "groups"]
_ALONE, _TREE, _SETS = "only the program gives", "nodes give as well", "nodes of a group give"
_TOPOLOGIES: dict[str, Topology] = {_ALONE: "client", _TREE: "peers", _SETS: "groups"}
_PROGRAM, _NODE, _INTO, _RECEIVED = (
    "sent by the program",
    "sent by one node, at most",
    "into one group, at least",
    "received by one node",
)
#: Counts of bytes on the links of a node: from the program, from nodes, to nodes.
_KINDS = ("given", "fetched", "passed_on")
_PATIENCE_S = 60.0


def group_of(node: str) -> str:
    """Returns the group of a node."""
    return next(name for name, nodes in _GROUPS.items() if node in nodes)


def stay(folder: str, number: int, count: int, data: bytes) -> int:
    """Waits until ``count`` tasks are running, so that each node has one; returns the size of the data."""
    open(os.path.join(folder, str(number)), "x").close()
    end = monotonic() + _PATIENCE_S
    while len(os.listdir(folder)) < count:
        if monotonic() > end:
            raise TimeoutError(f"{len(os.listdir(folder))} of {count} nodes had the data")
        sleep(0.005)
    return len(data)


class Links(Figure):
    """Eight megabytes go to a task on each of six nodes, whose agents are on this machine in two groups, in the three
    ways of the paper's figure 3. The figure shows the traffic of the links as a multiple of the data, as the executor
    counts it. The amount that enters a group is counted as what its nodes received and did not pass on: if nodes send
    to each other in both directions, more enters. Files of contexts and environment images take these ways too. The
    paper draws the three ways and measures none; TaskVine has the first two.
    """

    key = "contexts-3"
    source = "Function contexts, figure 3"
    title = "Data that crosses links, by who gives it to nodes"
    across = "way"
    upward = "times the data"
    form = "bars"
    relations = (
        Relation(
            "(a) without communication between nodes the program sends it to each, one by one",
            lambda data: _is(data, _PROGRAM, _ALONE, _NODES),
        ),
        Relation(
            "(b) with full communication it leaves the program fewer times than there are nodes",
            lambda data: _is_below(data, _PROGRAM, _TREE, _NODES),
        ),
        Relation(
            "(c) with communication within groups it goes into each group once",
            lambda data: _is(data, _INTO, _SETS, 1),
        ),
        Relation(
            "however it travels, each node receives it once",
            lambda data: _once_each(data),
        ),
    )

    def measure(self, session: Session) -> Data:
        """Measures each way."""
        cases = [Case(way, way, partial(self._counted, way)) for way in _TOPOLOGIES]
        return session.turns(self.empty(), cases)

    @staticmethod
    def _counted(way: str) -> list[Sample]:
        nodes = sent(_TOPOLOGIES[way])
        received = {name: one["given"] + one["fetched"] for name, one in nodes.items()}
        into = {
            group: sum(received[name] - nodes[name]["passed_on"] for name in names)
            for group, names in _GROUPS.items()
        }
        found = {
            _PROGRAM: sum(one["given"] for one in nodes.values()),
            _NODE: max(one["passed_on"] for one in nodes.values()),
            _INTO: max(into.values()),
            _RECEIVED: max(received.values()),
        }
        return [Sample(name, way, size / _SIZE) for name, size in found.items()]


def sent(topology: Topology) -> dict[str, dict[str, int]]:
    """Sends data to all nodes at once; returns the byte counts of each node by its name."""
    placement = on.local(_NODES, 1, network=on.Network(group=group_of))
    data = os.urandom(_SIZE)
    try:
        with (
            scratch() as folder,
            gristmill.Executor(nodes=placement, blobs=on.Blobs(topology=topology)) as executor,
            left_at_once(executor),
        ):
            tasks = [executor.submit(stay, folder, one, _NODES, data) for one in range(_NODES)]
            if {task.result() for task in tasks} != {_SIZE}:
                raise BenchError("a node has got other data")
            nodes = executor.nodes()
    except (gristmill.GristmillError, TimeoutError) as error:
        raise BenchError(f"{topology}: {error}") from error
    return {
        one.name: {kind: getattr(one, f"blob_bytes_{kind}") for kind in _KINDS} for one in nodes
    }


def _is(data: Data, quantity: str, way: str, times: float) -> tuple[bool, str]:
    found = data.at(quantity, way)
    return found == times, f"{found:g} times"


def _is_below(data: Data, quantity: str, way: str, times: float) -> tuple[bool, str]:
    found = data.at(quantity, way)
    return found < times, f"{found:g} times"


def _once_each(data: Data) -> tuple[bool, str]:
    found = [data.at(_RECEIVED, way) for way in _TOPOLOGIES]
    return set(found) == {1.0}, ", ".join(f"{one:g}" for one in found)
