"""Calls of apps: our kernel against Parsl's, and the executor of each under the other."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from benches.engines.base import Engine
from benches.engines.kernels import KERNELS
from benches.harness import alternate, cost, opened, rate, sized
from benches.model import Better, Block, Goal, Line, Recording, Row, Settings
from benches.rows.graph import LINKS, chain
from benches.rows.throughput import burst
from benches.work import hold, noop
from gristmill_bench.executors.base import scratch

WORKERS = 2
#: The number of outstanding calls; Parsl's kernel holds a tenth of them.
OUTSTANDING = 100_000


class KernelRow(Row):
    """The same calls on two pairs of kernel and executor."""

    better: ClassVar[Better] = "higher"
    unit = "/s"
    #: The measured pair, the pairs to compare it with, and the goals of the ratios.
    ours: ClassVar[str]
    beside: ClassVar[dict[str, tuple[float, float | None]]]
    #: The number of calls of one sample; by default as many as fill its time.
    count: ClassVar[int | None] = None

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(key) for key in self.beside]

    def lines(self) -> list[Line]:
        return [
            Line(
                self.title,
                key,
                self.better,
                reference="peer",
                reference_name=KERNELS[key].name,
                must=Goal(must, "ratio"),
                moonshot=None if moonshot is None else Goal(moonshot, "ratio"),
            )
            for key, (must, moonshot) in self.beside.items()
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"workers": WORKERS})
        sides = []
        with both(self.ours, block) as engines:
            for key, engine in engines:
                run = burst(engine)
                count = self.count or sized(settings, run)
                recording.parameters[f"{key} tasks"] = count
                sides.append(rate(key, run, count))
            recording.add(self.unit, alternate(settings, *sides))
        return recording


@contextmanager
def both(ours: str, peer: str) -> Iterator[list[tuple[str, Engine]]]:
    """Opens both engines, the peer first: an engine that forks does so before this process has a thread."""
    one, other = KERNELS[ours](WORKERS), KERNELS[peer](WORKERS)
    with opened(other, one):
        yield [("ours", one), ("peer", other)]


class AppsRow(KernelRow):
    """No-op calls of a `python_app` one by one, then all results."""

    key = "apps"
    title = "python_app no-ops, all results"
    ours = "apps"
    beside: ClassVar = {"htex-logged": (300, 1000), "htex": (250, 1000)}


class OnThreadsRow(KernelRow):
    """The two kernels on the same executor, logging off in both."""

    key = "kernel"
    title = "our kernel on Parsl's threads"
    ours = "ours-threads"
    beside: ClassVar = {"parsl-threads": (2, None)}


class UnderParslRow(KernelRow):
    """Our executor and Parsl's threads under Parsl's kernel, as in `parsl-perf`: thousands of calls at a time."""

    key = "executor"
    count = 2_000
    title = "our executor under Parsl's kernel"
    ours = "parsl-ours"
    beside: ClassVar = {"parsl-threads": (1, None)}


class AppChainRow(Row):
    """A chain of 100,000 apps, each with the future of the one before as its argument."""

    key = "app-chain"
    title = "chain of 100,000 apps, per link"
    unit = "s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block("apps")]

    def lines(self) -> list[Line]:
        return [Line(self.title, "apps", "lower", must=Goal(5e-6), moonshot=Goal(1e-6))]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"links": LINKS})
        engine = KERNELS[block](WORKERS)
        with opened(engine):
            run: Callable[[int], object] = chain(engine)
            run(LINKS)
            recording.add(self.unit, alternate(settings, cost("ours", run, LINKS), samples=10))
        return recording


class ObjectsRow(Row):
    """Python objects of the client per outstanding no-op call, while sleeping tasks hold its workers.

    The row counts blocks of the interpreter's allocator: every object, whether the collector tracks it or not, and the
    separate tables of dicts and lists.
    """

    key = "objects"
    title = "Python objects per outstanding app call"
    unit = "objects"
    peers = ("parsl-threads",)

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block("apps"), *(Block(peer) for peer in self.peers)]

    def lines(self) -> list[Line]:
        return [
            Line(
                self.title,
                "apps",
                "lower",
                reference="ours",
                reference_name=KERNELS[peer].name,
                reference_block=peer,
                must=Goal(6),
                moonshot=Goal(3),
            )
            for peer in self.peers
        ]

    def measure(self, block: str, settings: Settings) -> Recording:
        engine = KERNELS[block](WORKERS)
        count = OUTSTANDING if engine.size_share == 1 else OUTSTANDING // 10
        recording = Recording(parameters={"outstanding": count})
        with scratch() as folder, opened(engine):
            recording.add(self.unit, {"ours": [objects(engine, count, f"{folder}/gate")]})
        return recording


def objects(engine: Engine, count: int, gate: str) -> float:
    """Returns the number of blocks per call by which this process grows while `count` calls wait."""
    submit = engine.submit
    engine.collect([submit(noop, None) for _ in range(1000)])
    os.mkfifo(gate)
    held = [submit(hold, gate) for _ in range(WORKERS)]
    futures: list[Any] = [None] * count
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(count):
        futures[number] = submit(noop, None)
    gc.collect()
    grown = sys.getallocatedblocks() - before
    with open(gate, "r+b", buffering=0) as opened_gate:
        opened_gate.write(b"..")
        engine.collect(held)
    engine.collect(futures)
    return grown / count
