"""The objects that tasks leave for Python's garbage collector, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation, Sweep
from gristmill_bench.figures.rates import Rate, bare
from gristmill_bench.figures.relations import at_least
from gristmill_bench.figures.session import Point, Summary, Tables

_TASKS = (1_000, 10_000, 50_000)
_MOST = _TASKS[-1]
_PARSL, _KERNEL, _OURS = "Parsl", "Gristmill's kernel", "Gristmill's executor"
#: Parsl runs over its threads, so that only its kernel limits the rate.
_EXECUTORS: dict[str, dict[str, Any]] = {
    _PARSL: {"name": "parsl", "executor": "threads"},
    _KERNEL: {"name": "gristmill-parsl"},
    _OURS: {"name": "gristmill"},
}
_WITHOUT = "{}, no collector"


def _held(series: str, tasks: int) -> Tables:
    """Returns the tables of a run whose program keeps the futures of all tasks."""
    fields = _EXECUTORS[series]
    return bare({"name": "held", "tasks": tasks}, fields["name"], 2, fields)


class Objects(Sweep):
    """Tasks that do nothing, whose futures the program keeps, as programs do that want their results. The figure counts
    the objects that the garbage collector tracks in the program once all tasks have ended and garbage is collected,
    minus those that existed before the first task. Parsl runs over its executor of threads, which takes less time than
    HTEX and leaves as many objects. The thesis has all objects of 100,000 tasks at the last point, about 3.6 million
    with Parsl and 2.6 million with its kernel in C. The objects grow with the tasks, so that fewer tasks show the same.
    """

    key = "thesis-2.9"
    source = "Thesis, figure 2.9, left"
    title = "Objects that tasks leave in the program"
    across = "tasks"
    upward = "objects"
    relations = (
        Relation(
            "a native kernel leaves ten objects a task less than Parsl's",
            lambda data: _fewer(data, _PARSL, _KERNEL, 10),
        ),
        Relation(
            "with Parsl the objects grow as tasks do",
            lambda data: _in_proportion(data, _PARSL),
        ),
        Relation(
            "Gristmill leaves a third of the objects of Parsl at most",
            at_least(_PARSL, 3, _KERNEL, _TASKS),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each kernel with each number of tasks."""
        for tasks in _TASKS:
            for series in _EXECUTORS:
                yield Point(series, tasks, _held(series, tasks))

    def value(self, summary: Summary) -> float:
        """Returns the number of objects that the tasks left."""
        return float(summary["figures"]["objects_per_task"]) * float(summary["tasks"])


class Collector(Rate):
    """The same tasks with the garbage collector enabled in the program, as it is by default, and disabled. The thesis
    does so with up to 100,000 tasks, and says that the objects of many tasks make the collector a problem. Parsl runs
    over its executor of threads: over HTEX, interchange, manager and workers limit the rate on two cores, whatever the
    collector costs the program. The objects of 1,000 tasks are few, and their cost is less than the difference between
    repeated runs.
    """

    key = "thesis-2.9-collector"
    source = "Thesis, figure 2.9, right"
    title = "Rate of tasks, with and without the collector of garbage"
    across = "tasks"
    relations = (
        Relation(
            "Parsl's kernel is faster without the collector",
            lambda data: _gains(data, _PARSL, 1.05),
        ),
        Relation(
            "what the collector costs Parsl grows with tasks",
            lambda data: _cost_grows(data, _PARSL),
        ),
        Relation(
            "Gristmill's kernel gains less than Parsl's",
            lambda data: _gains_less(data, _KERNEL, _PARSL),
        ),
    )

    def points(self) -> Iterator[Point]:
        """Yields each kernel with and without the collector."""
        for tasks in _TASKS:
            for series in (_PARSL, _KERNEL):
                tables = _held(series, tasks)
                yield Point(series, tasks, tables)
                without = tables | {"run": {"collector": False}}
                yield Point(_WITHOUT.format(series), tasks, without)


def _fewer(data: Data, many: str, few: str, objects: float) -> tuple[bool, str]:
    """Returns whether ``few`` leaves at least ``objects`` fewer objects a task than ``many``."""
    of_many, of_few = (data.at(name, _MOST) / _MOST for name in (many, few))
    return of_many - of_few >= objects, f"{of_many:.3g} and {of_few:.3g} a task"


def _in_proportion(data: Data, series: str) -> tuple[bool, str]:
    first = _TASKS[0]
    ratio = data.at(series, _MOST) / data.at(series, first) / (_MOST / first)
    return 0.8 <= ratio <= 1.25, f"{ratio:.3g} of that"


def _gain(data: Data, series: str, tasks: int) -> float:
    """Returns the factor by which a series is faster without the collector."""
    return data.at(_WITHOUT.format(series), tasks) / data.at(series, tasks)


def _gains(data: Data, series: str, times: float) -> tuple[bool, str]:
    gain = _gain(data, series, _MOST)
    return gain >= times, f"{gain:.3g}x"


def _cost_grows(data: Data, series: str) -> tuple[bool, str]:
    few, many = (_gain(data, series, tasks) for tasks in (_TASKS[0], _MOST))
    return many > few, f"{few:.3g}x at {_TASKS[0]:,}, {many:.3g}x at {_MOST:,}"


def _gains_less(data: Data, one: str, other: str) -> tuple[bool, str]:
    less, more = _gain(data, one, _MOST), _gain(data, other, _MOST)
    return less < more, f"{less:.3g}x and {more:.3g}x"
