"""The same large argument for a task on each of many nodes, over narrow links."""

import socket
from contextlib import ExitStack, closing
from random import Random
from time import perf_counter
from typing import Any

from benches import engines
from benches.engines.base import Function
from benches.harness import alternate, opened
from benches.model import Block, Goal, Line, Recording, Row, Settings, Unavailable
from benches.nodes.arrival import arrived, stay
from benches.nodes.engines import GristmillOnNodes
from benches.nodes.meeting import meet
from benches.nodes.sides import booted, with_agents

NODES = 8
SIZE = 64_000_000
#: The rate of every link, and of what the client sends.
RATE, BYTES_PER_S = "200mbit", 25e6
#: The lower limit of a tree in which each node sends to two others at once, as by default: every link carries the
#: argument twice.
TREE_S = 2 * SIZE / BYTES_PER_S
BROADCAST = "broadcast"
SAMPLES = 3
#: The time limit of one arrival, seconds: far more than the whole argument takes from one place.
ARRIVAL_MAX_S = 60


class BroadcastRow(Row):
    """64 MB to 8 nodes, until a task with them has begun on each: all at once, or one by one."""

    key = "broadcast"
    title = "64 MB to 8 nodes over 200 Mbit/s"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(BROADCAST, timeout_s=600)]

    def lines(self) -> list[Line]:
        return [
            Line(
                self.title,
                BROADCAST,
                "lower",
                reference="one by one",
                reference_name="one node after the other",
                must=Goal(1 / 2.5, "ratio"),
                moonshot=Goal(1.2 * TREE_S),
            )
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        if settings.ours != engines.OURS:
            raise Unavailable(f"{settings.ours} has no adapter for large arguments on nodes")
        recording = Recording(parameters={"nodes": NODES, "size": SIZE, "rate": RATE})
        with booted(NODES) as cluster, with_agents(cluster) as place:
            engine: Any = GristmillOnNodes(place)
            with opened(engine), closing(socket.create_server((place.address, 0))) as arrivals:
                meet(engine)
                cluster.limit(RATE)
                sending = Sending(engine.submit, arrivals)
                series = alternate(
                    settings,
                    lambda: {"ours": sending.seconds(at_once=NODES)},
                    lambda: {"one by one": sending.seconds(at_once=1)},
                    samples=SAMPLES,
                )
        recording.add(self.unit, series)
        return recording


class Sending:
    """A sender of arguments that no node has seen before."""

    def __init__(self, submit: Function, arrivals: socket.socket) -> None:
        self._submit, self._arrivals = submit, arrivals
        self._random = Random(1)
        self._arrivals.settimeout(ARRIVAL_MAX_S)

    def seconds(self, at_once: int) -> float:
        """Times one argument's way to all nodes. Each node keeps its task until the end."""
        data = self._random.randbytes(SIZE)
        address = self._arrivals.getsockname()
        futures: list[Any] = []
        with ExitStack() as stays:
            start = perf_counter()
            while len(futures) < NODES:
                futures += [self._submit(stay, *address, data) for _ in range(at_once)]
                for _ in range(at_once):
                    stays.enter_context(self._arrival(futures))
            took = perf_counter() - start
        for future in futures:
            future.result()
        return took

    def _arrival(self, futures: list[Any]) -> socket.socket:
        """Waits for a task to begin. After a timeout raises the error of a failed task instead, if there is one."""
        try:
            return arrived(self._arrivals)[1]
        except TimeoutError:
            for future in futures:
                if future.done():
                    future.result()
            raise
