"""The rows of one batch: only the last version of each task and each attempt."""

from __future__ import annotations

import datetime
import functools
import operator
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.monitoring import facts
from gristmill.parsl._kernel.monitoring.schema import COLUMNS, adding, changing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gristmill.parsl._kernel.monitoring.database import Rows
    from gristmill.parsl._kernel.monitoring.facts import MonitoredTask
    from gristmill.parsl._kernel.monitoring.measure import Measured
    from gristmill.parsl._kernel.monitoring.readings import Reading
    from gristmill.parsl._kernel.states import States

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


#: The times of an attempt: launched and returned.
Times = tuple[float | None, float | None]


class Batch:
    """The rows of one batch.

    :param run_id: the run that the rows belong to.
    :param interval: seconds between two readings of a task.
    """

    def __init__(self, run_id: str, interval: float) -> None:
        self._run_id = run_id
        self._interval = interval
        self._tasks: dict[int, MonitoredTask] = {}
        self._tries: dict[tuple[int, int], tuple[MonitoredTask, Times, list[str]]] = {}
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        """Adds a row of some columns."""
        self._put(adding(table, tuple(row)), tuple(row.values()))

    def change(self, table: str, row: Mapping[str, Any]) -> None:
        """Changes some columns of all rows of this run."""
        statement = changing(table, tuple(row))
        self._put(statement, (*row.values(), self._run_id))

    def moved(
        self,
        task: MonitoredTask,
        state: States,
        at: float,
        try_id: int,
        times: Times,
        failures: list[str],
    ) -> None:
        """Adds a task's change of state, ``at`` seconds since the epoch.

        :param times: the times at which the attempt was launched and returned.
        :param failures: of the attempts so far.
        """
        self._tasks[task.id] = task
        self.state(task.id, try_id, facts.state_name(state), at)
        self._tries[task.id, try_id] = (task, times, failures)

    def state(self, task_id: int, try_id: int, name: str, at: float) -> None:
        """Adds the state of a task."""
        row = (task_id, name, text_of(at), self._run_id, try_id)
        self._put(_STATUS, row)

    def ran(self, task_id: int, try_id: int, label: str, found: Measured) -> None:
        """Adds the measurements of an attempt that has run."""
        self.state(task_id, try_id, "running", found.began)
        self.state(task_id, try_id, "running_ended", found.ended)
        where = (found.hostname, found.block_id)
        self._put(_RUN, (try_id, task_id, self._run_id, label, *where, text_of(found.began)))
        for reading in found.readings:
            self._put(_RESOURCE, self._resource(task_id, try_id, found, reading))

    def _resource(
        self, task_id: int, try_id: int, found: Measured, reading: Reading
    ) -> tuple[Any, ...]:
        """Returns a row of the table ``resource``. Counters of a process are relative to the start of the task."""
        start = found.readings[0]
        return (
            *(try_id, task_id, self._run_id, text_of(reading.at), self._interval, found.pid),
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

    def rows(self) -> list[Rows]:
        """Returns all rows, by statement."""
        for task in self._tasks.values():
            self._put_task(task)
        for (_, try_id), attempt in self._tries.items():
            self._put_try(try_id, *attempt)
        return list(self._rows.items())

    def _put_task(self, task: MonitoredTask) -> None:
        row = facts.of_task(task)
        row["run_id"] = self._run_id
        row["task_time_invoked"] = text_of(task.time_invoked)
        row["task_time_returned"] = text_of(task.time_returned)
        self._put(_TASK, _in_order(row))

    def _put_try(self, try_id: int, task: MonitoredTask, times: Times, failures: list[str]) -> None:
        launched, returned = map(text_of, times)
        history = ",".join(failures)
        row = (try_id, task.id, self._run_id, task.executor, launched, returned, history)
        self._put(_TRY, (*row, facts.joined(task)))


_in_order = operator.itemgetter(*COLUMNS["task"])


@functools.lru_cache(256)
def text_of(at: float | None) -> str | None:
    """Formats seconds since the epoch like the times in the tables: local, to the microsecond."""
    if at is None:
        return None
    second = int(at)
    return f"{_second_text(second)}.{int((at - second) * 1e6):06}"


@functools.lru_cache(1024)
def _second_text(second: int) -> str:
    return datetime.datetime.fromtimestamp(second).isoformat(" ")
