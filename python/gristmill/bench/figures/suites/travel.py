"""What data costs that travels with tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from gristmill.bench.errors import BenchError
from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Relation, Sweep
from gristmill.bench.figures.rates import OTHERS, bare
from gristmill.bench.figures.relations import at_least, every, grows
from gristmill.bench.figures.session import Point, Session, Summary
from gristmill.bench.figures.suites import redis_server

_REDIS = " with Redis"
#: Other ways than an executor's own. The server of the last one has an address when it runs.
_WAYS = {
    " with files": {"name": "pickled-files"},
    " with ProxyStore": {"name": "proxystore"},
    _REDIS: {"name": "proxystore", "connector": "redis"},
}
ENGINES = ("gristmill", "processes", *OTHERS)
_SIZES = (1_000, 100_000, 10_000_000)
_SMALLER, _LARGEST = _SIZES[-2:]
_TASKS = 100


def times_gained(data: Data, name: str) -> float:
    """How many times as long as the best other way a link takes that has the largest data."""
    others = [name + way for way in _WAYS if name + way in data.series()]
    if not others:
        raise LookupError(f"no other way was measured with {name}")
    return data.at(name, _LARGEST) / min(data.at(other, _LARGEST) for other in others)


def _gains(name: str, data: Data) -> tuple[bool, str]:
    times = times_gained(data, name)
    return times >= 2, f"{name}: {times:.3g}x"


def _gains_little(name: str, data: Data) -> tuple[bool, str]:
    gains, said = _gains(name, data)
    return not gains, said


class DataSize(Sweep):
    """A chain of tasks that take and return so many bytes, with the executor's own way of moving them, through pickled
    files, and through ProxyStore with files and with a Redis server. The paper has 320 tasks at once on 32 workers, and
    the server alone behind ProxyStore; here each of 100 tasks waits for the one before, so that a way costs what it
    takes and not what a crowd waits for it. In the paper other ways are 5.8 times as fast with Dask and 4.4 times with
    Parsl: twice counts as a gain.
    """

    key = "taps-5"
    source = "TaPS, figure 5"
    title = "Round trip of a task, by the size of its data"
    across = "bytes"
    upward = "seconds a task"
    #: As in the paper.
    repeats_max = 3
    relations = (
        Relation(
            "data of more than 100 kB slow Dask and Parsl considerably",
            every(*(grows(name, 3, _SMALLER, _LARGEST) for name in ("dask", "parsl"))),
        ),
        Relation(
            "at 10 MB another way of moving data helps Dask and Parsl much",
            every(*(partial(_gains, name) for name in ("dask", "parsl"))),
        ),
        Relation(
            "a pool of processes does not benefit much from another way",
            partial(_gains_little, "processes"),
        ),
        Relation(
            "Ray moves large data well by itself: another way does not halve its time",
            partial(_gains_little, "ray"),
        ),
        Relation(
            "Gristmill's own way is faster than each of the others'",
            every(*(at_least(name, 1, "gristmill", _SIZES) for name in ("processes", *OTHERS))),
        ),
    )

    def points(self, server: str | None = None) -> Iterator[Point]:
        """Each engine, each way and each size; through Redis, if a server has an address."""
        for size in _SIZES:
            for name in ENGINES:
                app = {"name": "synthetic", "structure": "sequence", "tasks": _TASKS, "size": size}
                yield Point(name, size, bare(app, name, 2))
                for way, transformer in _WAYS.items():
                    if way != _REDIS:
                        moved = {"transformer": transformer}
                    elif server is not None:
                        moved = {"transformer": transformer | {"url": server}}
                    else:
                        continue
                    yield Point(name + way, size, bare(app, name, 2) | moved)

    def value(self, summary: Summary) -> float:
        """A link of the chain."""
        return float(summary["seconds"]["run"]) / float(summary["tasks"])

    def measure(self, session: Session) -> Data:
        """Measures it anew, with a server of its own."""
        data = self.empty()
        with ExitStack() as stack:
            try:
                server = stack.enter_context(redis_server.running())
            except BenchError as error:
                server = None
                data.missing |= {name + _REDIS: str(error) for name in ENGINES}
            return self.limited(session).sweep(data, self.points(server), self.samples)
