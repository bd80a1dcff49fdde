"""How many tasks a second engines run, by how long tasks take."""

from __future__ import annotations

from collections.abc import Iterator

from gristmill.bench.figures.data import Data
from gristmill.bench.figures.figure import Relation, Sweep
from gristmill.bench.figures.rates import OTHERS, Rate, bare, tasks_for
from gristmill.bench.figures.relations import alike, at_least, every
from gristmill.bench.figures.session import Point, Summary

_MICROSECONDS = (0.1, 1, 10, 100, 1_000, 10_000)
_SHORT = (0.1, 1, 10)


class Granularity(Rate):
    """Tasks that do not depend on each other compute for 0.1 to 10,000 microseconds, on two workers. The papers compare
    kernels of Parsl, in Python and in C, with Ray and Dask, on up to 256 workers.
    """

    key = "thesis-2.10"
    source = "Thesis, figures 2.10 and 2.11"
    title = "Rate of tasks, by how long they compute"
    across = "microseconds that a task computes"
    relations = (
        Relation(
            "the rate of Dask is the same for tasks of a microsecond and of a millisecond",
            lambda data: _steady(data, "dask", 1_000),
        ),
        Relation(
            "up to 10 us the time of tasks does not show with Parsl",
            lambda data: _steady(data, "parsl", 10),
        ),
        Relation(
            "a native kernel runs short tasks at more than ten times the rate of each of the others",
            every(*(at_least("gristmill", 10, name, _SHORT) for name in OTHERS)),
        ),
        Relation(
            "tasks of 10 ms are run alike by a native kernel and Ray",
            alike("gristmill", "ray", 2, (10_000,)),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Each engine at each length of tasks."""
        for microseconds in _MICROSECONDS:
            for name in ("gristmill", *OTHERS):
                steps = max(1, tasks_for(name, microseconds) // 100)
                app = {"name": "stencil", "pattern": "none", "width": 100, "steps": steps}
                yield Point(name, microseconds, bare(app | {"busy_us": microseconds}, name, 2))


class Metg(Sweep):
    """How long the tasks of a stencil have to take for half of the time of two workers to be spent in them: the lower,
    the shorter the tasks that an engine is good for.
    """

    key = "thesis-metg"
    source = "Thesis, section 2.5; Task Bench (Slaughter et al., 2020)"
    title = "METG(50 %) of each engine"
    upward = "microseconds"
    relations = (
        Relation(
            "a native kernel is good for tasks a tenth as long as those of Parsl, Ray and Dask",
            every(*(at_least(name, 10, "gristmill", ("METG",)) for name in OTHERS)),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Each engine."""
        for name in ("gristmill", "threads", "processes", "loky", *OTHERS):
            yield Point(name, "METG", bare({"name": "metg"}, name, 2))

    def value(self, summary: Summary) -> float:
        """The granularity that was found."""
        return float(summary["figures"]["metg_us"])


def _steady(data: Data, series: str, microseconds: float) -> tuple[bool, str]:
    """Whether tasks of a time run at three quarters of the rate of those of a microsecond, or more."""
    ratio = data.at(series, microseconds) / data.at(series, 1)
    return ratio >= 0.75, f"{ratio:.3g}x"
