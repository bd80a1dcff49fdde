"""One client, four nodes with one worker each, over TCP: ours against each peer on the same nodes."""

from typing import ClassVar

from benches.engines import PEERS
from benches.harness import alternate
from benches.model import Better, Block, Goal, Line, Recording, Row, Settings
from benches.nodes.sides import booted, side

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
        with (
            booted(NODES) as cluster,
            side(cluster, block, self.work, settings) as peer,
            side(cluster, settings.ours, self.work, settings) as ours,
        ):
            for key, one in (("ours", ours), ("peer", peer)):
                recording.parameters.update(
                    {f"{key} {name}": value for name, value in one.parameters.items()}
                )
            series = alternate(
                settings, lambda: {"ours": ours.sample()}, lambda: {"peer": peer.sample()}
            )
        recording.add(self.unit, series)
        return recording


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
