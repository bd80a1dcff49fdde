"""The cost of a round trip over TCP without an engine: `relay.c`, built and run on a cluster."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benches.compiling import compiled
from benches.nodes.sides import answer

from cluster import Cluster, Node, Process

SOURCE = Path(__file__).with_suffix(".c")
PORTS = {"chain": 7801, "bare": 7802}
#: The bytes of a packet besides its payload: the headers of Ethernet, IP, and TCP with its time stamps.
HEADERS_SIZE = 14 + 20 + 32


class Sizes(NamedTuple):
    """The bytes of a message in each direction."""

    task: int
    answer: int


class Relay:
    """A client of the relay."""

    def __init__(self, process: Process, count: int) -> None:
        self._process, self._count = process, count

    def sample(self) -> float:
        """Makes round trips one after the other. Returns the median seconds of one."""
        assert self._process.stdin is not None
        print(self._count, file=self._process.stdin, flush=True)
        return float(answer(self._process))


def sizes(node: Node, trips: int, before: tuple[int, int]) -> Sizes:
    """Computes the bytes that each of `trips` round trips has sent, from a link's traffic; one packet each way."""
    sent, received = (
        round((now - then) / trips) - HEADERS_SIZE
        for now, then in zip(node.traffic(), before, strict=True)
    )
    return Sizes(task=max(1, received), answer=max(1, sent))


@contextmanager
def relay(cluster: Cluster, what: str, sizes: Sizes, count: int) -> Iterator[Relay]:
    """Starts the relay on the first node and its client on the login machine: `chain` or `bare`."""
    node, port, bytes_each = cluster.nodes[0], str(PORTS[what]), [str(size) for size in sizes]
    program, pipe = compiled(SOURCE), subprocess.PIPE
    with node.start([program, what, port, *bytes_each], stdout=pipe) as server:
        answer(server)
        command: list[str | Path] = [program, "ask", node.name, port, *bytes_each]
        with cluster.login.start(command, stdin=pipe, stdout=pipe) as client:
            yield Relay(client, count)
