"""How many tasks a second engines run, by workers."""

from __future__ import annotations

from collections.abc import Iterator

from gristmill.bench.figures.figure import Relation
from gristmill.bench.figures.rates import OTHERS, Rate, bare, tasks_for
from gristmill.bench.figures.relations import at_least, every, highest
from gristmill.bench.figures.session import Point

_WORKERS = (1, 2, 4)


class Workers(Rate):
    """A bag of tasks without work or data. As many are under way as there are workers, and each that ends is followed
    by another: a round trip each, with nothing to hide it behind. The paper has 1,000 tasks and up to 128 workers.
    """

    key = "taps-4"
    source = "TaPS, figure 4"
    title = "Rate of tasks that do nothing, by workers"
    across = "workers"
    relations = (
        Relation(
            "a pool of processes is faster than Parsl, Ray and Dask on one node",
            every(*(at_least("processes", 1, name, (1, 2)) for name in OTHERS)),
        ),
        Relation("Ray is faster than Dask", at_least("ray", 1, "dask", _WORKERS)),
        Relation("Gristmill is faster than all of them", highest("gristmill", _WORKERS)),
    )

    def points(self) -> Iterator[Point]:
        """Each engine at each number of workers."""
        for workers in _WORKERS:
            for name in ("gristmill", "processes", "threads", *OTHERS):
                tasks = tasks_for(name) // 2
                app = {"name": "synthetic", "in_flight": workers, "tasks": tasks}
                yield Point(name, workers, bare(app, name, workers))
