"""A recorded run: each task comes after its parents, whatever the order in the file."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gristmill_bench.errors import BenchError

#: Seconds: no task takes a thousand years.
_LONGEST_S = 3.2e10
#: Bytes: no result is larger than all memories.
_LARGEST = 1 << 60


@dataclass(frozen=True, slots=True)
class Row:
    """A task as it is in a file: its parents are names, which may be undefined."""

    name: str
    function: str
    seconds: float
    parents: Sequence[str]
    #: The time of its submission, seconds by any clock; ``None``: unknown.
    submitted: float | None = None
    #: Bytes of its result; ``None``: unknown.
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a recording."""

    name: str
    function: str
    #: Duration of its execution.
    seconds: float
    #: The indices of its parents, all smaller than its own.
    parents: tuple[int, ...]
    #: Seconds from the first submission to this one; never less than for the task before.
    submitted: float
    #: Bytes of its result; 0: unknown.
    size: int


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run."""

    source: Path
    tasks: tuple[Task, ...]
    #: Seconds from the first submission to the last result; ``None``: unknown.
    makespan: float | None
    has_arrivals: bool
    has_sizes: bool
    #: Number of failed tasks: their durations are unknown and taken as zero.
    failed: int = 0

    @property
    def work(self) -> float:
        """The total duration of all tasks, seconds."""
        return math.fsum(task.seconds for task in self.tasks)

    @property
    def critical_path(self) -> float:
        """The length of the longest path through the graph, seconds."""
        ends: list[float] = []
        for task in self.tasks:
            begin = max((ends[parent] for parent in task.parents), default=0.0)
            ends.append(begin + task.seconds)
        return max(ends, default=0.0)

    def bound(self, workers: int) -> float:
        """Returns the least time of any engine, seconds: the critical path, or the work divided by the workers."""
        return max(self.critical_path, self.work / workers)


def arrange(
    source: Path, rows: Iterable[Row], *, makespan: float | None = None, failed: int = 0
) -> Recording:
    """Returns the recording of these rows; raises ``BenchError`` with the task that is wrong."""
    listed = list(rows)
    if not listed:
        raise BenchError(f"{source}: there is no task")
    places = _places(source, listed)
    for row in listed:
        _check(source, row, places)
    has_arrivals = all(row.submitted is not None for row in listed)
    has_sizes = any(row.size is not None for row in listed)
    order = _order(source, listed, places)
    new = {old: place for place, old in enumerate(order)}
    first = min((row.submitted or 0.0 for row in listed), default=0.0) if has_arrivals else 0.0
    tasks: list[Task] = []
    submitted = 0.0
    for old in order:
        row = listed[old]
        # A child cannot be submitted before its parents, because its call contains their futures.
        submitted = max(submitted, (row.submitted or 0.0) - first) if has_arrivals else 0.0
        parents = tuple(new[places[one]] for one in row.parents)
        tasks.append(Task(row.name, row.function, row.seconds, parents, submitted, row.size or 0))
    if makespan is not None and not 0 <= makespan < _LONGEST_S:
        raise BenchError(f"{source}: the makespan is {makespan} s")
    return Recording(source, tuple(tasks), makespan, has_arrivals, has_sizes, failed)


def _places(source: Path, rows: list[Row]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, row in enumerate(rows):
        if places.setdefault(row.name, place) != place:
            raise BenchError(f"{source}: there are two tasks {row.name!r}")
    return places


def _check(source: Path, row: Row, places: dict[str, int]) -> None:
    if not 0 <= row.seconds < _LONGEST_S:
        raise BenchError(f"{source}: task {row.name!r} ran for {row.seconds} s")
    if row.submitted is not None and not 0 <= row.submitted < _LONGEST_S:
        raise BenchError(f"{source}: task {row.name!r} was submitted at {row.submitted} s")
    if row.size is not None and not 0 <= row.size < _LARGEST:
        raise BenchError(f"{source}: the result of task {row.name!r} has {row.size} bytes")
    missing = next((one for one in row.parents if one not in places), None)
    if missing is not None:
        raise BenchError(f"{source}: task {row.name!r} needs {missing!r}, which is not there")


def _order(source: Path, rows: list[Row], places: dict[str, int]) -> list[int]:
    """Returns the indices in an order with parents first; among the ready tasks, the one submitted first comes next."""
    children: list[list[int]] = [[] for _ in rows]
    missing = [0] * len(rows)
    for place, row in enumerate(rows):
        for parent in set(row.parents):
            children[places[parent]].append(place)
            missing[place] += 1
    ready = [(row.submitted or 0.0, place) for place, row in enumerate(rows) if not missing[place]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        place = heapq.heappop(ready)[1]
        order.append(place)
        for child in children[place]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, (rows[child].submitted or 0.0, child))
    if len(order) < len(rows):
        raise BenchError(f"{source}: {_circle(rows, places, missing)}")
    return order


def _circle(rows: list[Row], places: dict[str, int], missing: list[int]) -> str:
    """Returns a message about tasks that need each other: follows parents that were never ready until one repeats."""
    place = next(one for one, count in enumerate(missing) if count)
    way: dict[int, None] = {}
    while place not in way:
        way[place] = None
        place = next(places[one] for one in rows[place].parents if missing[places[one]])
    names = [repr(rows[one].name) for one in itertools.dropwhile(lambda one: one != place, way)]
    return f"task {names[0]} needs itself" + (
        f", by way of {', '.join(names[1:6])}" if names[1:] else ""
    )
