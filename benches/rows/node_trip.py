"""One task at a time over TCP, against the same bytes without an engine."""

from contextlib import ExitStack

from benches.harness import alternate
from benches.model import Block, Goal, Line, Recording, Row, Settings
from benches.nodes.relay import relay, sizes
from benches.nodes.sides import booted, side, split_cores

TRIPS = "trips"


class TripRow(Row):
    """A call through an agent and its wait, median.

    The relay chain has the same processes as ours: a client that blocks, TCP, a process on the node that passes the
    bytes on in shared memory and sleeps, a worker. Bare TCP answers at once. Our engine encrypts; the others send as
    many bytes as ours has on the link. Client and node have separate cores.
    """

    key = "node-trip"
    title = "call and wait over TCP"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(TRIPS)]

    def lines(self) -> list[Line]:
        def beside(key: str, name: str, must: float, moonshot: float) -> Line:
            return Line(
                self.title,
                TRIPS,
                "lower",
                reference=key,
                reference_name=name,
                must=Goal(must, "ratio"),
                moonshot=Goal(moonshot, "ratio"),
            )

        return [
            beside("chain", "C relay, same processes", 1.3, 1.1),
            beside("bare", "bare TCP", 3, 2),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording()
        with ExitStack() as stack:
            cluster = stack.enter_context(booted(1))
            cores = split_cores(cluster)
            ours = stack.enter_context(side(cluster, settings.ours, "trip", settings))
            count: int = ours.parameters["calls"]
            before = cluster.nodes[0].traffic()
            ours.sample()
            each = sizes(cluster.nodes[0], count, before)
            recording.parameters = {"calls": count, **each._asdict(), "cores": cores}
            chain = stack.enter_context(relay(cluster, "chain", each, count))
            bare = stack.enter_context(relay(cluster, "bare", each, count))
            series = alternate(
                settings,
                lambda: {"ours": ours.sample()},
                lambda: {"chain": chain.sample()},
                lambda: {"bare": bare.sample()},
            )
        recording.add(self.unit, series)
        return recording
