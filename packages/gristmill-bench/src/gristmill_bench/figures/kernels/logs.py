"""The cost of writing logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill_bench.figures.figure import Relation
from gristmill_bench.figures.rates import Rate, bare
from gristmill_bench.figures.relations import every, grows
from gristmill_bench.figures.session import Point

_PARSL, _KERNEL, _OURS = "Parsl", "Gristmill's kernel", "Gristmill's executor"
_THREADS = "Parsl over its threads"
_OFF, _ON = "nothing written", "log or records written"
_TASKS = {_PARSL: 2_000, _THREADS: 5_000, _KERNEL: 200_000, _OURS: 200_000}


class Logs(Rate):
    """Tasks that do nothing, all submitted at once, on two workers, with all logs and with none. Parsl's logs are on
    unless its users turn them off: kernel and executor then write about ten lines for each task, a worker of HTEX three
    more, interchange and manager none. They are turned off by a configuration of Parsl with which none of its processes
    writes. With Gristmill's kernel for Parsl programs ``initialize_logging`` is off and on; it writes nothing about
    single tasks in either case. Gristmill's executor has no log: its tasks are run without records, and with a line of
    JSON for each, which has its times. Timings are always on. The thesis turned all logs off over HTEX, on 192 workers,
    where Parsl's kernel, which writes most of them, limited the rate. Here interchange, manager and workers take most
    of two cores, and logs are a smaller part of the cost of a task over HTEX; over Parsl's executor of threads the
    kernel limits the rate here too.
    """

    key = "thesis-logging"
    source = "Thesis, section 2.2"
    title = "Rate of tasks that do nothing, without and with logs"
    form = "bars"
    relations = (
        Relation(
            "Parsl runs three times as many tasks a second without its logs, over HTEX",
            grows(_PARSL, 3, _ON, _OFF),
        ),
        Relation(
            "so it does where its kernel is what bounds the rate, over threads",
            grows(_THREADS, 3, _ON, _OFF),
        ),
        Relation(
            "Parsl is faster without its logs, over HTEX and over threads",
            every(*(grows(name, 1.1, _ON, _OFF) for name in (_PARSL, _THREADS))),
        ),
        Relation(
            "the log of Gristmill's kernel does not show",
            lambda data: (
                1 / 1.2 <= (ratio := data.at(_KERNEL, _ON) / data.at(_KERNEL, _OFF)) <= 1.2,
                f"{ratio:.3g}x",
            ),
        ),
        Relation(
            "Gristmill that writes runs more than ten times as many as Parsl that does not",
            lambda data: (
                (ratio := data.at(_OURS, _ON) / data.at(_PARSL, _OFF)) > 10,
                f"{ratio:.3g}x",
            ),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each engine, with and without logs."""
        for at, is_on in ((_OFF, False), (_ON, True)):
            parsl = {"name": "parsl", "logs": is_on or "nowhere"}
            yield self._point(_PARSL, at, parsl)
            yield self._point(_THREADS, at, parsl | {"executor": "threads"})
            yield self._point(_KERNEL, at, {"name": "gristmill-parsl", "logs": is_on})
            records = "json-lines" if is_on else "none"
            yield self._point(_OURS, at, {"name": "gristmill"}, records)

    @staticmethod
    def _point(series: str, at: str, executor: dict[str, Any], records: str = "none") -> Point:
        tables = bare({"name": "synthetic", "tasks": _TASKS[series]}, executor["name"], 2)
        tables["executor"] |= executor
        tables["records"]["name"] = records
        return Point(series, at, tables)
