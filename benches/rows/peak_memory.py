"""The peak memory of a map over many arrays, of the program and all processes of the engine together."""

import concurrent.futures
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benches import engines, machine
from benches.engines import PEERS
from benches.engines.base import Engine
from benches.harness import opened
from benches.model import ALONE, Block, Line, Recording, Row, Settings
from benches.work import first
from gristmill import instruments

ITEMS, ITEMS_QUICK = 10_000, 500
#: Bytes of an array.
SIZE = 1_000_000
#: Seconds between two looks at the memory: far shorter than the map takes.
LOOK_S = 0.02


class PeakMemoryRow(Row):
    """Growth of the memory of the whole process tree over a map of arrays of 1 MB that a generator makes.

    Executors of `concurrent.futures` map; other peers have no map over a generator, so their items are submitted one
    by one. The tasks take longer than the generator, so an engine that does not limit what it reads ahead reads all. A
    shared page counts once: the sizes are proportional (PSS).
    """

    key = "peak-memory"
    title = "peak memory of a map over 10,000 x 1 MB"
    unit = "B"
    peers = ("ppe", "dask", "ray")

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(name, 1 if settings.quick else 3, 900) for name in (ALONE, *self.peers)]

    def lines(self) -> list[Line]:
        ours = Line(self.title, ALONE, "lower")
        return [
            ours,
            *(
                Line(self.title, ALONE, "lower", "ours", "peer", PEERS[peer].name, peer)
                for peer in self.peers
            ),
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        alone = block == ALONE
        # Processes that leave their parents, as those of Ray do, stay descendants of this one.
        instruments.adopt_orphans()
        engine = engines.ours(settings.ours, 2) if alone else engines.peer(block, 2)
        count = ITEMS_QUICK if settings.quick else ITEMS
        recording = Recording(parameters={"workers": 2, "items": count, "bytes of an item": SIZE})
        with opened(engine):
            recording.add("B", {"ours" if alone else "peer": [peak(engine, count)]})
        return recording


def peak(engine: Engine, count: int) -> float:
    """Measures by how much the memory of this process and its descendants grows during a map."""
    run(engine, 2)  # the workers have loaded what they need
    with watched() as readings:
        total = run(engine, count)
    if total != count * (count - 1) // 2:
        raise RuntimeError(f"a result of {count} items is wrong")
    return float(max(readings) - readings[0])


def run(engine: Engine, count: int) -> float:
    """Maps `first` over so many arrays, and returns the sum of the results."""
    executor = engine.executor
    if isinstance(executor, concurrent.futures.Executor):
        return float(sum(executor.map(first, arrays(count))))
    futures = [engine.submit(first, array) for array in arrays(count)]
    return float(sum(engine.collect(futures)))


def arrays(count: int) -> Iterator[Any]:
    """Makes arrays that differ, each when it is needed: an engine may store equal ones once."""
    import numpy

    for number in range(count):
        yield numpy.full(SIZE // 8, float(number))


@contextmanager
def watched() -> Iterator[list[int]]:
    """Reads the memory of this process and its descendants again and again, into the list that it yields."""
    readings = [machine.resident_tree()]
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(LOOK_S):
            readings.append(machine.resident_tree())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield readings
    finally:
        is_over.set()
        thread.join()
