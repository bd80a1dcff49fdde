"""The time from the loss of a node until its task runs on another one."""

import socket
from collections.abc import Callable
from contextlib import closing
from time import perf_counter
from typing import Any

from benches import engines
from benches.engines.base import Function
from benches.harness import Measure, alternate, opened
from benches.model import Block, Goal, Line, Recording, Row, Settings, Unavailable
from benches.nodes.arrival import arrived, stay
from benches.nodes.engines import GristmillOnNodes
from benches.nodes.meeting import meet
from benches.nodes.sides import booted, with_agents

from cluster import Cluster, Node

WAYS: dict[str, Callable[[Node], None]] = {"killed": Node.kill, "cut off": Node.partition}
#: The losses of each kind, and the number of nodes that are left at the end.
LOSSES, REST = 5, 2
LOSS = "loss"


class LossRow(Row):
    """The time from the loss of a node to the start of its task elsewhere, with default heartbeats.

    The whole node is killed without a message, or its network drops everything.
    """

    key = "node-loss"
    title = "task of a lost node runs elsewhere"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(LOSS)]

    def lines(self) -> list[Line]:
        return [
            Line(f"{self.title}, {way}", LOSS, "lower", way, must=Goal(3), moonshot=Goal(1))
            for way in WAYS
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        if settings.ours != engines.OURS:
            raise Unavailable(f"{settings.ours} has no adapter for lost nodes")
        nodes = LOSSES * len(WAYS) + REST
        recording = Recording(parameters={"nodes": nodes})
        with booted(nodes) as cluster, with_agents(cluster) as place:
            engine: Any = GristmillOnNodes(place)
            with opened(engine), closing(socket.create_server((place.address, 0))) as arrivals:
                meet(engine)
                submit = engine.executor.options(loss_retries=1).submit
                sides = [losing(cluster, way, arrivals, submit) for way in WAYS]
                recording.add(self.unit, alternate(settings, *sides, samples=LOSSES))
        return recording


def losing(cluster: Cluster, way: str, arrivals: socket.socket, submit: Function) -> Measure:
    """Makes a side that loses the node that a task runs on."""

    def sample() -> dict[str, float]:
        future = submit(stay, *arrivals.getsockname())
        home, _stays_open = arrived(arrivals)
        start = perf_counter()
        WAYS[way](cluster.node(home))
        other, connection = arrived(arrivals)
        took = perf_counter() - start
        if other == home:
            raise RuntimeError("a lost node has started a task")
        connection.close()
        future.result()
        return {way: took}

    return sample
