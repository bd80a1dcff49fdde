"""The rate of tasks of each engine, by workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation
from gristmill_bench.figures.rates import OTHERS, Rate, bare, tasks_for
from gristmill_bench.figures.relations import at_least, every, grows, highest
from gristmill_bench.figures.session import Point

_WORKERS = (1, 2, 4)
#: The series without an executor.
_NONE = "none (what the suite costs)"
#: The executors that Gristmill is compared with.
_THEIRS = ("processes", "threads", *OTHERS)


class Workers(Rate):
    """A bag of tasks without work or data. As many are under way as there are workers, and each that ends is followed
    by another: one round trip each, which nothing hides. Each run has as many tasks as make it last about as long:
    50,000 with Gristmill, 10,000 with threads, 5,000 with processes, 500 with Parsl, Ray and Dask. A further series has
    no executor: its 50,000 tasks run where they are submitted, so that its rate is the cost of the suite and the
    ceiling of all others. With TaPS itself that was about 3,000 tasks a second on such a machine, fewer than some
    executors run. The paper has 1,000 tasks and up to 128 workers, and its Ray is 5 to 10 times as fast as Dask, with a
    core for each worker. With two cores for all workers, scheduler and program included, the round trip decides, and
    that of Ray is not so much shorter.
    """

    key = "taps-4"
    source = "TaPS, figure 4"
    title = "Rate of tasks that do nothing, by workers"
    across = "workers"
    relations = (
        Relation(
            "a pool of processes is faster than Parsl, Ray and Dask on one node",
            every(*(at_least("processes", 1, name, _WORKERS) for name in OTHERS)),
        ),
        Relation(
            "Ray is five times as fast as Dask, or more", at_least("ray", 5, "dask", _WORKERS)
        ),
        Relation(
            "Dask and Ray run more tasks a second with four workers than with one",
            every(*(grows(name, 1, _WORKERS[0], _WORKERS[-1]) for name in ("dask", "ray"))),
        ),
        Relation("with more workers Parsl comes closer to Ray", lambda data: _comes_closer(data)),
        Relation("Gristmill is faster than all of them", highest("gristmill", _THEIRS, _WORKERS)),
    )

    def points(self) -> Iterator[Point]:
        """Yields each engine at each number of workers, and the series without an executor with as many tasks."""
        for workers in _WORKERS:
            for name in ("gristmill", *_THEIRS):
                yield Point(name, workers, bare(_bag(name, workers), name, workers))
            yield Point(_NONE, workers, bare(_bag("inline", workers), "inline", 1))


def _bag(executor: str, in_flight: int) -> dict[str, Any]:
    tasks = tasks_for(executor) // 2
    return {"name": "synthetic", "in_flight": in_flight, "tasks": tasks}


def _comes_closer(data: Data) -> tuple[bool, str]:
    first, last = (
        data.at("parsl", one) / data.at("ray", one) for one in (_WORKERS[0], _WORKERS[-1])
    )
    return last > first, f"{first:.3g} of its rate, then {last:.3g}"
