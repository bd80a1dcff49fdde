"""The cost of data that travels with tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from gristmill_bench.errors import BenchError
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import OTHERS, bare
from gristmill_bench.figures.relations import at_least, every, grows
from gristmill_bench.figures.session import Point, Session, Summary
from gristmill_bench.figures.suites import redis_server

_REDIS = " with Redis"
_MEMORY = " with shared memory"
#: Ways other than an executor's own, as in the paper. The server of the last one has an address only while it runs.
_PAPERS = {
    " with files": {"name": "pickled-files"},
    " with ProxyStore": {"name": "proxystore"},
    _REDIS: {"name": "proxystore", "connector": "redis"},
}
_WAYS = {_MEMORY: {"name": "shared-memory"}} | _PAPERS
ENGINES = ("gristmill", "processes", *OTHERS)
_SIZES = (1_000, 100_000, 10_000_000)
_SMALLER, _LARGEST = _SIZES[-2:]
#: As in the paper, except for the largest data: the program keeps all results.
_TASKS = {1_000: 320, 100_000: 320, 10_000_000: 40}


def times_gained(data: Data, name: str) -> float:
    """Returns the time of a task with the largest data, relative to that with the best way of the paper."""
    others = [name + way for way in _PAPERS if name + way in data.series()]
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
    """The program gives each task a number of bytes, and gets as many from it: with the executor's own way of moving
    them, through pickled files, through ProxyStore with files and with a Redis server, and, which the paper does not
    have, through files in shared memory, one for each object. Gristmill's own way is an arena of shared memory, which
    is reused. Of 320 tasks (40 for the largest data) two are under way at any time, one for each worker. The first
    tasks wait for the worker to import the application, some hundredths of a second in all. The paper has 320 tasks on
    32 workers, and ProxyStore only with the server. There, other ways are 5.8 times as fast with Dask and 4.4 times
    with Parsl; here, twice counts as a gain. Here no crowd of 32 workers waits for the one process of Dask's scheduler
    or Parsl's interchange that all bytes go through. A pool of processes gains as well, because its pipes take 64 KiB
    at a time.
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
        Relation(
            "Gristmill's arena is faster than files in shared memory",
            at_least("gristmill" + _MEMORY, 1, "gristmill", _SIZES),
        ),
    )

    def points(self, server: str | None = None) -> Iterator[Point]:
        """Yields each engine, each way and each size; the way through Redis only if a server has an address."""
        for size in _SIZES:
            for name in ENGINES:
                app = {"name": "synthetic", "tasks": _TASKS[size], "in_flight": 2}
                app |= {"given": size, "size": size}
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
        """Returns the seconds of a task."""
        return float(summary["seconds"]["run"]) / float(summary["tasks"])

    def measure(self, session: Session) -> Data:
        """Measures the figure with its own server."""
        data = self.empty()
        with ExitStack() as stack:
            try:
                server = stack.enter_context(redis_server.running())
            except BenchError as error:
                server = None
                data.missing |= {name + _REDIS: str(error) for name in ENGINES}
            return self.limited(session).sweep(data, self.points(server), self.samples)
