"""The shortest tasks that an engine runs efficiently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import OTHERS, bare
from gristmill_bench.figures.relations import at_least, every
from gristmill_bench.figures.session import Point, Summary

_PLACE = "METG(50 %)"
#: Each executor of the suite that runs on one machine without an account, in each of its modes, by its name.
_EXECUTORS: dict[str, dict[str, Any]] = {
    "gristmill": {},
    "gristmill on 2 nodes": {"name": "gristmill", "nodes": 2},
    "gristmill under a lease": {"name": "gristmill", "lease": True},
    "gristmill in batches": {"name": "gristmill", "batches": 100},
    "gristmill-parsl": {},
    "threads": {},
    "pool": {},
    "processes": {},
    "loky": {},
    "mpi": {},
    "dask": {},
    "ray": {},
    "parsl": {},
    "parsl's threads": {"name": "parsl", "executor": "threads"},
    "taskvine's tasks": {"name": "taskvine"},
    "taskvine's invocations": {"name": "taskvine", "calls": "direct"},
}
_OF_PROCESSES = ("pool", "processes", "loky", "mpi", *OTHERS)


class Shortest(Sweep):
    """The duration of a stencil's tasks at which two workers spend half of their time in tasks: the lower, the shorter
    the tasks that an engine runs efficiently. A task needs its neighbours of the step before, so no task can be sent
    far ahead of those that run. The thesis names the measure and does not apply it. Both nodes are this machine. A task
    ends when its time has passed, even if it did not run meanwhile: threads, which share Python's one lock, therefore
    look better than they are.
    """

    key = "thesis-metg"
    source = "Thesis, section 2.5; Task Bench (Slaughter et al., 2020)"
    title = "METG(50 %) of each engine"
    upward = "microseconds"
    relations = (
        Relation(
            "a native kernel is good for tasks a tenth as long as those of Parsl, Ray and Dask",
            every(*(at_least(name, 10, "gristmill", (_PLACE,)) for name in OTHERS)),
        ),
        Relation(
            "so is a Parsl program on it",
            every(*(at_least(name, 10, "gristmill-parsl", (_PLACE,)) for name in OTHERS)),
        ),
        Relation(
            "Gristmill is good for shorter tasks than each other engine with processes",
            lambda data: _is_shortest(data, "gristmill", _OF_PROCESSES),
        ),
        Relation(
            "on two nodes Gristmill is good for shorter tasks than Parsl, Ray and Dask are on one",
            every(*(at_least(name, 1, "gristmill on 2 nodes", (_PLACE,)) for name in OTHERS)),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each executor, in each of its modes."""
        for series, fields in _EXECUTORS.items():
            yield Point(series, _PLACE, bare({"name": "metg"}, series, 2, fields))

    def value(self, summary: Summary) -> float:
        """Returns the granularity that was found."""
        return float(summary["figures"]["metg_us"])


def _is_shortest(data: Data, series: str, others: tuple[str, ...]) -> tuple[bool, str]:
    """Returns whether a series is below each of the others that were measured here."""
    own = data.at(series, _PLACE)
    ratios = {name: data.at(name, _PLACE) / own for name in others if name in data.series()}
    if not ratios:
        raise LookupError("none of the others was measured")
    text = ", ".join(f"{ratio:.3g}x {name}" for name, ratio in ratios.items())
    return min(ratios.values()) >= 1, text
