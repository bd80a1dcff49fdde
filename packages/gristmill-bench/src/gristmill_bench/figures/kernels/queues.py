"""The way of tasks to workers: through an interchange or directly, over one queue or one for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gristmill_bench.figures.data import Data
from gristmill_bench.figures.figure import Relation
from gristmill_bench.figures.rates import Rate, bare
from gristmill_bench.figures.relations import alike, at_least, every
from gristmill_bench.figures.session import Point, Tables

_WORKERS = (1, 2, 4)
_MOST = _WORKERS[-1]
_TASKS = 1_000

HTEX, ONE, EACH, OURS = "HTEX", "direct, one queue", "direct, a queue each", "Gristmill's executor"
#: The executors under Parsl's kernel, by their names here.
OVER: dict[str, dict[str, Any]] = {
    HTEX: {"name": "parsl"},
    ONE: {"name": "parsl", "executor": "direct"},
    EACH: {"name": "parsl", "executor": "direct", "queues": "each"},
    OURS: {"name": "gristmill-parsl", "kernel": "parsl"},
}


def over(series: str, workers: int, tasks: int = _TASKS) -> Tables:
    """Returns the tables of a run of tasks that do nothing, submitted at once, on Parsl's kernel over an executor."""
    tables = bare({"name": "synthetic", "tasks": tasks}, OVER[series]["name"], workers)
    tables["executor"] |= OVER[series]
    return tables


class _ByWorkers(Rate):
    """The rate of Parsl's kernel over executors, by workers."""

    across = "workers"
    series: tuple[str, ...]

    def points(self) -> Iterator[Point]:
        """Yields each executor with each number of workers."""
        for workers in _WORKERS:
            for name in self.series:
                yield Point(name, workers, over(name, workers))


class Direct(_ByWorkers):
    """Tasks that do nothing, all submitted at once, on Parsl's own kernel: over HTEX, whose tasks pass an interchange
    and a manager; over processes that take them from one queue, which is how the thesis describes its DIREX; and over
    Gristmill's executor. The thesis has 10,000 tasks and hundreds of workers. On two cores interchange and manager take
    time from the kernel and from workers, which they did not do with 192 workers. A worker that is reached directly
    waits for most of its time, and is woken for a task. A second worker takes the next task meanwhile, which makes it
    up to a third faster.
    """

    key = "thesis-2.4"
    source = "Thesis, figure 2.4"
    title = "Parsl's kernel, with and without an interchange"
    series = (HTEX, ONE, OURS)
    relations = (
        Relation(
            "one worker that is reached directly is as good as any number behind an interchange",
            lambda data: _one_is_enough(data, ONE),
        ),
        Relation(
            "the gain is larger for one worker than for many",
            lambda data: _gain_shrinks(data),
        ),
        Relation(
            "more workers that are reached directly are no faster",
            lambda data: _no_faster(data, ONE),
        ),
        Relation(
            "Gristmill's executor is faster under Parsl's kernel than both",
            every(*(at_least(OURS, 1, name, _WORKERS) for name in (HTEX, ONE))),
        ),
    )


class Queues(_ByWorkers):
    """The same over processes that all take their tasks from one queue of ``multiprocessing``, behind a semaphore, or
    each from its own queue, filled in turn; nothing else differs. Gristmill's executor has a ring in memory for each
    worker and no semaphore. The thesis has up to some hundred workers, which wait for each other far more. Up to four
    workers wait so little that the two ways differ by less than repeated runs of one of them do.
    """

    key = "thesis-2.5"
    source = "Thesis, figure 2.5"
    title = "Parsl's kernel over one queue, or one for each worker"
    series = (ONE, EACH, OURS)
    relations = (
        Relation(
            "a queue for each worker is slower than one for all",
            at_least(ONE, 1, EACH, _WORKERS[1:]),
        ),
        Relation(
            "both have the same trend",
            alike(EACH, ONE, 1.5, _WORKERS),
        ),
        Relation(
            "neither scales with workers",
            every(*(lambda data, name=name: _no_faster(data, name) for name in (ONE, EACH))),
        ),
        Relation(
            "a ring for each worker is faster than both",
            every(*(at_least(OURS, 1, name, _WORKERS) for name in (ONE, EACH))),
        ),
    )


def _one_is_enough(data: Data, series: str) -> tuple[bool, str]:
    """Returns whether a series is as fast with one worker as HTEX is at its best."""
    ratio = data.at(series, 1) / max(one.value for one in data.of(HTEX).values())
    return ratio >= 0.9, f"{ratio:.3g}x"


def _gain_shrinks(data: Data) -> tuple[bool, str]:
    few, many = (data.at(ONE, workers) / data.at(HTEX, workers) for workers in (1, _MOST))
    return few > many, f"{few:.3g}x with 1 worker, {many:.3g}x with {_MOST}"


def _no_faster(data: Data, series: str) -> tuple[bool, str]:
    """Returns whether more workers are at most a fifth faster than one."""
    ratios = [data.at(series, workers) / data.at(series, 1) for workers in _WORKERS[1:]]
    text = ", ".join(f"{ratio:.3g}x" for ratio in ratios)
    return max(ratios) <= 1.2, f"{text} from 1 to {' and '.join(map(str, _WORKERS[1:]))}"
