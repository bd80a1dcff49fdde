"""Rates of tasks that do nothing, by workers: two kernels, each over Parsl's executor and over direct dispatch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from gristmill_bench.apps.granularity import rate_name
from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import bare
from gristmill_bench.figures.relations import Check, alike, at_least, every, grows, highest
from gristmill_bench.figures.session import Point, Summary

_WORKERS = (1, 2, 4)
#: Pairs of numbers of workers of which one is twice the other.
_DOUBLED = tuple(pairwise(_WORKERS))
_ON_NODES = (2, 4, 6)
#: The names of the series, with the fields of each executor.
_NATIVE, _PARSL = "native kernel over HTEX", "Parsl's kernel over HTEX"
_BOTH, _DIRECT = "native kernel, direct dispatch", "Parsl's kernel, direct dispatch"
_ENGINES: dict[str, dict[str, Any]] = {
    _NATIVE: {"kernel": "gristmill", "executor": "htex"},
    _PARSL: {"kernel": "parsl", "executor": "htex"},
    _BOTH: {"kernel": "gristmill", "executor": "gristmill"},
    _DIRECT: {"kernel": "parsl", "executor": "gristmill"},
}


def _on(engine: str, nodes: int) -> str:
    """Returns the series of an engine on a number of nodes."""
    return f"{engine}, {nodes} node{'s' if nodes > 1 else ''}"


def _one_is_faster(engine: str) -> Check:
    return at_least(_on(engine, 1), 1, _on(engine, 2), _ON_NODES[:1])


def _are_alike(engine: str) -> Check:
    return alike(_on(engine, 1), _on(engine, 2), 1.1, _ON_NODES[-1:])


def _best(data: Data, series: str) -> float:
    return max(one.value for one in data.of(series).values())


def _at_best(data: Data, one: str, times: float, other: str) -> tuple[bool, str]:
    """Returns whether the highest rate of a series is at least ``times`` that of another."""
    ratio = _best(data, one) / _best(data, other)
    return ratio >= times, f"{ratio:.3g}x"


def _alone(data: Data, one: str, times: float, other: str) -> tuple[bool, str]:
    """Returns whether a series with one worker has at least ``times`` the highest rate of another."""
    ratio = data.at(one, _WORKERS[0]) / _best(data, other)
    return ratio >= times, f"{ratio:.3g}x"


def _peaks(data: Data, series: str) -> tuple[bool, str]:
    """Returns whether the rate is highest with fewer than the most workers."""
    found = data.of(series)
    place = max(found, key=lambda one: found[one].value)
    return place != _WORKERS[-1], f"with {place:g} workers"


def _grows_less(series: str, factor: float, first: int, last: int) -> Check:
    """Returns a check that a series grows by less than a factor from one place to another."""
    growth = grows(series, factor, first, last)

    def check(data: Data) -> tuple[bool, str]:
        is_as_much, text = growth(data)
        return not is_as_much, text

    return check


class _Empty(Sweep):
    """A figure of tasks that do nothing."""

    across = "workers"
    upward = "tasks/s"

    @staticmethod
    def point(series: str, engine: str, workers: int, **fields: Any) -> Point:
        """Returns a point with as many tasks as take half a second."""
        app = {"name": "granularity", "busy_us": (0,)}
        fields = _ENGINES[engine] | fields
        return Point(series, workers, bare(app, "gristmill-parsl", workers, fields))

    def value(self, summary: Summary) -> float:
        """Returns the rate of the longest measurement.

        The shorter ones before it determine its number of tasks and warm up the workers.
        """
        return float(summary["figures"][rate_name(0)])


class Kernels(_Empty):
    """A Parsl program whose tasks do nothing, over Parsl's own executor for many workers (HTEX): its data-flow kernel
    is Parsl's, in Python, or a native one. The paper has 100,000 tasks, a kernel in C, and 1 to 128 workers. Here there
    are as many tasks as take half a second, and up to four workers. On two cores the workers share the cores with the
    program, HTEX's interchange and its manager, none of which the kernel makes faster: their cost limits both kernels.
    """

    key = "thesis-2.7"
    source = "Thesis, figure 2.7; Fine-grained Parsl, figure 7"
    title = "Rate of tasks that do nothing over HTEX, by the program's kernel"
    relations = (
        Relation(
            "at its best a native kernel has twice the rate of Parsl's at its best",
            lambda data: _at_best(data, _NATIVE, 2, _PARSL),
        ),
        Relation(
            "with one worker a native kernel has the rate of Parsl's with many, within a quarter",
            lambda data: _alone(data, _NATIVE, 0.75, _PARSL),
        ),
        Relation(
            "with Parsl's kernel two workers have nearly twice the rate of one, and four nearly twice that",
            every(*(grows(_PARSL, 1.6, *two) for two in _DOUBLED)),
        ),
        Relation(
            "with a native kernel the rate never grows as the workers do",
            every(*(_grows_less(_NATIVE, 1.6, *two) for two in _DOUBLED)),
        ),
        Relation(
            "a native kernel has its highest rate before the most workers",
            lambda data: _peaks(data, _NATIVE),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each kernel with each number of workers."""
        for workers in _WORKERS:
            for engine in (_PARSL, _NATIVE):
                yield self.point(engine, engine, workers)


class Nodes(_Empty):
    """Workers on one node or, in equal parts, on two. It is a *model*: a node is no machine here, and only its
    processes separate it from the other one. A node of HTEX is a block with its own manager; a node of direct dispatch
    is one of Gristmill's node agents, whose connections are encrypted. Both nodes share the cores, the memory and the
    loopback network of this machine, whose links have no latency and no limit. The real part is that every task goes
    through a process and a TCP connection of its node. A second node adds no core: its cost stays, however many workers
    there are. Through HTEX, where that cost is small, one node and two differ by less than repeated runs of one of them
    do. The paper has 10,000 tasks that do nothing, over HTEX, on one and on eight nodes of 16 cores.
    """

    key = "thesis-2.8"
    source = "Thesis, figure 2.8; Fine-grained Parsl, figure 8"
    title = "Rate of tasks that do nothing, on one node and on two"
    relations = (
        Relation(
            "with few workers one node is faster than several, over HTEX with either kernel",
            every(*(_one_is_faster(name) for name in (_NATIVE, _PARSL))),
        ),
        Relation(
            "with more workers both come to the same, within a tenth, over HTEX with either kernel",
            every(*(_are_alike(name) for name in (_NATIVE, _PARSL))),
        ),
        Relation(
            "two nodes of ours have at least three quarters of the rate of one",
            at_least(f"{_BOTH}, 2 nodes", 0.75, f"{_BOTH}, 1 node", _ON_NODES),
        ),
        Relation(
            "two nodes of ours have ten times the rate of two nodes of HTEX",
            at_least(f"{_BOTH}, 2 nodes", 10, f"{_PARSL}, 2 nodes", _ON_NODES),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each kernel over each executor, on one node and on two."""
        for workers in _ON_NODES:
            for engine in _ENGINES:
                for nodes in (1, 2):
                    yield self.point(_on(engine, nodes), engine, workers, nodes=nodes)


class Dispatch(_Empty):
    """A Parsl program whose tasks do nothing, with the parts that the thesis makes native: the kernel, the way of a
    task from the program to a worker without an interchange (direct dispatch), or both. The paper has up to hundreds of
    workers. Here tasks go into memory that the program shares with its workers, and the rest of the program is as
    native as the kernel: with both parts native, the program itself limits the rate, from one worker on. Each worker
    has its own ring, so that more workers do not hold each other up. The rate therefore does not fall after a few
    workers, as the thesis' does; it differs by little more than repeated runs do, and may be highest with the most
    workers. Without direct dispatch HTEX limits the rate: it costs so much more than a native kernel that the choice of
    the kernel hardly matters.
    """

    key = "thesis-2.11"
    source = "Thesis, figure 2.11, left; Fine-grained Parsl, figure 11"
    title = "Rate of tasks that do nothing, by what of Parsl is native"
    relations = (
        Relation(
            "a native kernel with direct dispatch has the highest rate",
            every(highest(_BOTH, (_DIRECT, _PARSL), _WORKERS), at_least(_BOTH, 1, _NATIVE, (2,))),
        ),
        Relation(
            "with one worker that has more than half of its highest rate",
            lambda data: _alone(data, _BOTH, 0.5, _BOTH),
        ),
        Relation(
            "neither direct dispatch alone nor both have a rate that grows as the workers do",
            every(*(_grows_less(name, 1.6, *two) for name in (_DIRECT, _BOTH) for two in _DOUBLED)),
        ),
        Relation(
            "both together have their highest rate before the most workers",
            lambda data: _peaks(data, _BOTH),
        ),
        Relation(
            "a native kernel has a similar rate with and without direct dispatch: within a factor of two",
            alike(_BOTH, _NATIVE, 2, (2,)),
        ),
        Relation(
            "direct dispatch alone has with one worker what Parsl has at its best",
            lambda data: _alone(data, _DIRECT, 1, _PARSL),
        ),
        Relation(
            "both together have more than ten times the rate of Parsl",
            at_least(_BOTH, 10, _PARSL, _WORKERS),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each engine by workers; the native kernel over HTEX with two workers only: see thesis-2.7."""
        for workers in _WORKERS:
            for engine in (_BOTH, _DIRECT, _PARSL):
                yield self.point(engine, engine, workers)
        yield self.point(_NATIVE, _NATIVE, 2)
