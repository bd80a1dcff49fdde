"""The rows of one batch: only the last version of each task and each attempt."""

from __future__ import annotations

import datetime
import functools
import operator
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gristmill.parsl._kernel.monitoring import facts
from gristmill.parsl._kernel.monitoring.facts import TaskFacts
from gristmill.parsl._kernel.monitoring.schema import COLUMNS, adding, changing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gristmill.parsl._kernel.monitoring.database import Rows
    from gristmill.parsl._kernel.monitoring.engine_calls import CallRecord
    from gristmill.parsl._kernel.monitoring.measure import Measured
    from gristmill.parsl._kernel.monitoring.readings import Reading
    from gristmill.parsl._kernel.states import States
    from gristmill.parsl._kernel.tasks import Task

    #: A task that has ended, one that goes on, or a call that the engine runs alone. None of them keeps arguments in
    #: memory.
    KnownTask: TypeAlias = TaskFacts | weakref.ref[Task] | CallRecord

#: An attempt with its times and failures when a task entered a state.
_TRY = adding(
    "try",
    (
        "try_id",
        "task_id",
        "run_id",
        "task_executor",
        "task_try_time_launched",
        "task_try_time_returned",
        "task_fail_history",
        "task_joins",
    ),
)
#: The worker's data of an attempt.
_RUN = adding(
    "try",
    (
        "try_id",
        "task_id",
        "run_id",
        "task_executor",
        "hostname",
        "block_id",
        "task_try_time_running",
    ),
)
_TASK = adding("task", COLUMNS["task"])
_STATUS = adding("status", COLUMNS["status"])
_RESOURCE = adding("resource", COLUMNS["resource"])


#: Bytes of the texts of rows that are handed over at once.
_PART_SIZE = 16 << 20


class Attempt(NamedTuple):
    """One attempt of a task, as it is when the task enters a state. Times are in seconds since the epoch."""

    try_id: int
    executor: str
    launched: float | None
    returned: float | None
    #: The failures of the attempts so far.
    history: str
    #: The numbers of the tasks that a join app waits for.
    joins: str | None

    @property
    def size(self) -> int:
        """Bytes of the texts."""
        return len(self.history) + len(self.joins or "")


class Batch:
    """The rows of one batch.

    :param run_id: the run that the rows belong to.
    :param interval: seconds between two readings of a task.
    """

    def __init__(self, run_id: str, interval: float) -> None:
        self._run_id = run_id
        self._interval = interval
        self._tasks: dict[int, KnownTask] = {}
        self._tries: dict[tuple[int, int], Attempt] = {}
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        #: Bytes of the texts of tasks and attempts in these rows.
        self._size = 0

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Adds a row of some columns."""
        self._put(adding(table, tuple(row)), tuple(row.values()))

    def change(self, table: str, row: Mapping[str, Any]) -> None:
        """Changes some columns of all rows of this run."""
        statement = changing(table, tuple(row))
        self._put(statement, (*row.values(), self._run_id))

    def moved(
        self, task_id: int, task: KnownTask, state: States, at: float, attempt: Attempt
    ) -> None:
        """Adds a task's change of state, ``at`` seconds since the epoch."""
        # A thread that has seen the task before its end may tell of it after the end.
        if not isinstance(self._tasks.get(task_id), TaskFacts):
            self._tasks[task_id] = task
        self.state(task_id, attempt.try_id, facts.state_name(state), at)
        self._tries[task_id, attempt.try_id] = attempt

    def state(self, task_id: int, try_id: int, name: str, at: float) -> None:
        """Adds the state of a task."""
        row = (task_id, name, time_text(at), self._run_id, try_id)
        self._put(_STATUS, row)

    def ran(self, task_id: int, try_id: int, label: str, found: Measured) -> None:
        """Adds the measurements of an attempt that has run."""
        self.state(task_id, try_id, "running", found.began)
        self.state(task_id, try_id, "running_ended", found.ended)
        where = (found.hostname, found.block_id)
        self._put(_RUN, (try_id, task_id, self._run_id, label, *where, time_text(found.began)))
        for reading in found.readings:
            self._put(_RESOURCE, self._resource(task_id, try_id, found, reading))

    def _resource(
        self, task_id: int, try_id: int, found: Measured, reading: Reading
    ) -> tuple[Any, ...]:
        """Returns a row of the table ``resource``. Counters of a process are relative to the start of the task."""
        start = found.readings[0]
        return (
            *(try_id, task_id, self._run_id, time_text(reading.at), self._interval, found.pid),
            reading.memory_percent,
            reading.children_count,
            reading.time_user - start.time_user,
            reading.time_system - start.time_system,
            reading.memory_virtual,
            reading.memory_resident,
            reading.disk_read - start.disk_read,
            reading.disk_write - start.disk_write,
            reading.status,
            reading.cpu,
            reading.switches_voluntary - start.switches_voluntary,
            reading.switches_involuntary - start.switches_involuntary,
        )

    def _put(self, statement: str, row: tuple[Any, ...]) -> None:
        rows = self._rows.get(statement)
        if rows is None:
            rows = self._rows[statement] = []
        rows.append(row)

    @property
    def is_empty(self) -> bool:
        """True if the batch has no rows."""
        return not self._rows

    def rows(self) -> Iterator[list[Rows]]:
        """Yields all rows, by statement, in parts with a bounded size of texts."""
        for task in self._tasks.values():
            found = task() if isinstance(task, weakref.ref) else task
            # The end of a task that is gone is in a later event.
            if found is not None:
                self._put_task(found if isinstance(found, TaskFacts) else facts.facts_of(found))
            if self._size >= _PART_SIZE:
                yield self._taken()
        for (task_id, _), attempt in self._tries.items():
            self._put_try(task_id, attempt)
            if self._size >= _PART_SIZE:
                yield self._taken()
        yield self._taken()

    def _taken(self) -> list[Rows]:
        rows, self._rows, self._size = self._rows, {}, 0
        return list(rows.items())

    def _put_task(self, task: TaskFacts) -> None:
        row = dict(task.columns)
        row["run_id"] = self._run_id
        row["task_time_invoked"] = time_text(task.time_invoked)
        row["task_time_returned"] = time_text(task.time_returned)
        self._size += task.size
        self._put(_TASK, _in_order(row))

    def _put_try(self, task_id: int, attempt: Attempt) -> None:
        times = time_text(attempt.launched), time_text(attempt.returned)
        self._size += attempt.size
        row = (attempt.try_id, task_id, self._run_id, attempt.executor, *times)
        self._put(_TRY, (*row, attempt.history, attempt.joins))


_in_order = operator.itemgetter(*COLUMNS["task"])


@functools.lru_cache(256)
def time_text(at: float | None) -> str | None:
    """Formats seconds since the epoch like the times in the tables: local, to the microsecond."""
    if at is None:
        return None
    second = int(at)
    return f"{_second_text(second)}.{int((at - second) * 1e6):06}"


@functools.lru_cache(1024)
def _second_text(second: int) -> str:
    return datetime.datetime.fromtimestamp(second).isoformat(" ")
