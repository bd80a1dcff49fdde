"""One client, four nodes with one worker each, over TCP: ours against each peer on the same nodes."""

from contextlib import ExitStack
from typing import ClassVar

from benches.engines import PEERS
from benches.harness import Measure, alternate
from benches.model import Better, Block, Goal, Line, Recording, Row, Settings
from benches.nodes.sides import Side, booted, side

NODES = 4


class NodesRow(Row):
    """A row whose sides are clients of one cluster; each peer has its own cluster."""

    #: The work of each client.
    work: ClassVar[str]
    better: ClassVar[Better]
    peers: ClassVar[tuple[str, ...]]
    must: ClassVar[Goal]
    moonshot: ClassVar[Goal]

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(peer, timeout_s=900) for peer in self.peers]

    def lines(self) -> list[Line]:
        return [
            Line(
                self.title,
                peer,
                self.better,
                reference="peer",
                reference_name=PEERS[peer].name,
                must=self.must,
                moonshot=self.moonshot,
            )
            for peer in self.peers
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"nodes": NODES, "workers per node": 1})
        names = {"ours": settings.ours}
        if not settings.is_alone:
            names["peer"] = block
        measures: list[Measure] = []
        with ExitStack() as stack:
            cluster = stack.enter_context(booted(NODES))
            for key, name in reversed(names.items()):
                one = stack.enter_context(side(cluster, name, self.work, settings))
                recording.parameters.update(
                    {f"{key} {name}": value for name, value in one.parameters.items()}
                )
                measures.insert(0, sampler(key, one))
            recording.add(self.unit, alternate(settings, *measures))
        return recording


def sampler(key: str, one: Side) -> Measure:
    """Makes the measurement of a side."""
    return lambda: {key: one.sample()}


class FloodRow(NodesRow):
    """`submit(f, i)` one by one, then all results."""

    key = "node-flood"
    title = "submit one by one, 4 nodes, all results"
    unit = "/s"
    work = "flood"
    better = "higher"
    peers = ("htex", "ray", "dask")
    must = Goal(60, "ratio")
    moonshot = Goal(200, "ratio")


class FibonacciRow(NodesRow):
    """Recursive Fibonacci in which each call is a task: ours at 25, 242,785 calls; peers at 12."""

    key = "node-fib"
    title = "recursive Fibonacci over 4 nodes, per call"
    unit = "s"
    work = "fibonacci"
    better = "lower"
    peers = ("ray", "dask")
    must = Goal(1 / 50, "ratio")
    moonshot = Goal(1 / 300, "ratio")
