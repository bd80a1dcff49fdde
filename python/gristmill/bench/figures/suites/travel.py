"""What data costs that travels with tasks."""

from __future__ import annotations

from collections.abc import Iterator

from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Relation, Sweep
from gristmill.bench.figures.rates import OTHERS, bare
from gristmill.bench.figures.relations import at_least, every
from gristmill.bench.figures.session import Point, Summary

_WAYS = {"": None, " with files": "pickled-files", " with ProxyStore": "proxystore"}
_SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_LARGEST = _SIZES[-1]
_TASKS = 100


class DataSize(Sweep):
    """A chain of tasks that take and return so many bytes, with the executor's own way of moving them, through pickled
    files, and through ProxyStore. The paper has 320 tasks on 32 workers, and a Redis server behind ProxyStore; here
    that is its connector for files.
    """

    key = "taps-5"
    source = "TaPS, figure 5"
    title = "Round trip of a task, by the size of its data"
    across = "bytes"
    upward = "seconds a task"
    relations = (
        Relation(
            "at 10 MB another way of moving data helps Dask and Parsl",
            every(
                *(
                    at_least(name, 1, f"{name} with files", (_LARGEST,))
                    for name in ("dask", "parsl")
                )
            ),
        ),
        Relation(
            "Ray moves large data well by itself: another way does not halve its time",
            lambda data: _is_not_halved(data, "ray"),
        ),
        Relation(
            "Gristmill's own way is faster than each of the others'",
            every(*(at_least(name, 1, "gristmill", _SIZES) for name in ("processes", *OTHERS))),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Each engine, each way and each size."""
        for size in _SIZES:
            for name in ("gristmill", "processes", *OTHERS):
                app = {"name": "synthetic", "structure": "sequence", "tasks": _TASKS, "size": size}
                for way, transformer in _WAYS.items():
                    tables = bare(app, name, 2)
                    if transformer is not None:
                        tables["transformer"] = {"name": transformer}
                    yield Point(name + way, size, tables)

    def value(self, summary: Summary) -> float:
        """A link of the chain."""
        return float(summary["seconds"]["run"]) / float(summary["tasks"])


def _is_not_halved(data: Data, name: str) -> tuple[bool, str]:
    ways = [way for way, transformer in _WAYS.items() if transformer is not None]
    other = min(data.at(name + way, _LARGEST) for way in ways)
    ratio = other / data.at(name, _LARGEST)
    return ratio > 0.5, f"{ratio:.3g} of its own time"
