"""What writing logs costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill.bench.figures.figure import Relation
from gristmill.bench.figures.rates import Rate, bare
from gristmill.bench.figures.relations import grows
from gristmill.bench.figures.session import Point

_PARSL, _KERNEL, _OURS = "Parsl", "Gristmill's kernel", "Gristmill's executor"
_OFF, _ON = "nothing written", "log or records written"
_TASKS = {_PARSL: 2_000, _KERNEL: 50_000, _OURS: 50_000}


class Logs(Rate):
    """Tasks that do nothing, all submitted at once, on two workers. With Parsl, and with Gristmill's kernel for Parsl
    programs, ``initialize_logging`` of their configuration is off and on, which is what it is where users do not say
    otherwise: Parsl's kernel and executor then write ten lines or so of each task. Logs of interchange, manager and
    workers are at their defaults in both. Gristmill's executor has no log: its tasks are run without records, and with
    a line of JSON for each, which has its times. Tags are always there. The thesis turned all logs off, on 192 workers,
    where Parsl's kernel, which writes most of them, was what bounded the rate. Here interchange, manager and workers
    take most of two cores, and what the kernel writes is a smaller part of what a task costs.
    """

    key = "thesis-logging"
    source = "Thesis, section 2.2"
    title = "Rate of tasks that do nothing, without and with logs"
    form = "bars"
    relations = (
        Relation(
            "Parsl runs three times as many tasks a second without its log",
            grows(_PARSL, 3, _ON, _OFF),
        ),
        Relation("Parsl is faster without its log", grows(_PARSL, 1.1, _ON, _OFF)),
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
        """Each engine, writing and not."""
        for at, is_on in ((_OFF, False), (_ON, True)):
            yield self._point(_PARSL, at, {"name": "parsl", "logs": is_on})
            yield self._point(_KERNEL, at, {"name": "gristmill-parsl", "logs": is_on})
            records = "json-lines" if is_on else "none"
            yield self._point(_OURS, at, {"name": "gristmill"}, records)

    @staticmethod
    def _point(series: str, at: str, executor: dict[str, Any], records: str = "none") -> Point:
        tables = bare({"name": "synthetic", "tasks": _TASKS[series]}, executor["name"], 2)
        tables["executor"] |= executor
        tables["records"]["name"] = records
        return Point(series, at, tables)
