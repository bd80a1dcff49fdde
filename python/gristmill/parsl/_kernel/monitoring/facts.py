"""The data of a task for the tables, taken from its record."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gristmill.parsl._kernel.futures import AppFuture, DataFuture
from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gristmill.parsl._kernel.monitoring.engine_calls import CallRecord
    from gristmill.parsl._kernel.tasks import Task

    #: Objects that describe a task for monitoring.
    MonitoredTask: TypeAlias = Task | CallRecord

_log = logging.getLogger("parsl.gristmill.monitoring")


#: Bytes of a task's data without its texts.
_FACTS_SIZE = 500
#: The block of our own workers, which no provider made.
OWN_BLOCK = "0"

_STATE_NAMES = {state: state.name for state in States} | {States.cancelled: States.failed.name}


def state_name(state: States) -> str:
    """Returns the state's name in the tables.

    The tables have no name for a cancelled task, and Parsl's programs reject unknown names, so it counts as failed.
    """
    return _STATE_NAMES[state]


class TaskFacts(NamedTuple):
    """The data of a task for the table ``task``, without its arguments."""

    #: The columns without the times and the run.
    columns: dict[str, Any]
    #: Seconds since the epoch, as the other time.
    time_invoked: float | None
    time_returned: float | None

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return _FACTS_SIZE + size_of_texts(self.columns.values())


def size_of_texts(values: Iterable[Any]) -> int:
    """Returns the bytes that the texts among some values take, about."""
    return sum(len(value) for value in values if type(value) is str)


def facts_of(task: MonitoredTask) -> TaskFacts:
    """Returns the data of a task as it is now."""
    return TaskFacts(of_task(task), task.time_invoked, task.time_returned)


def of_task(task: MonitoredTask) -> dict[str, Any]:
    """Returns the columns of the table ``task``, without the times and the run."""
    kwargs, depends = task.kwargs, task.depends
    return {
        "task_id": task.id,
        "task_depends": depends if isinstance(depends, str) else numbers_of(depends),
        "task_func_name": task.func_name,
        "task_memoize": task.memoize,
        "task_hashsum": None if task.hashsum is None else str(task.hashsum),
        "task_inputs": _text(kwargs.get("inputs")),
        "task_outputs": _text(kwargs.get("outputs")),
        "task_stdin": None if kwargs.get("stdin") is None else _text(kwargs["stdin"]),
        "task_stdout": _stream(kwargs.get("stdout")),
        "task_stderr": _stream(kwargs.get("stderr")),
        "task_fail_count": task.fail_count,
        "task_fail_cost": task.fail_cost,
    }


def failures(task: MonitoredTask) -> list[str]:
    """Returns the failures of the attempts so far, as in the table ``try``."""
    found = task.fail_history if task.fail_count else []
    return [*found, "CancelledError()"] if task.status is States.cancelled else found


def joined(task: MonitoredTask) -> str | None:
    """Returns the numbers of the tasks that a join app waits for."""
    if task.joins is None:
        return None
    return numbers_of(task.joins if isinstance(task.joins, list) else [task.joins])


def numbers_of(futures: Iterable[Any]) -> str:
    """Returns the numbers of the tasks of futures."""
    return ",".join(str(one.tid) for one in futures if isinstance(one, (AppFuture, DataFuture)))


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<no text: {error!r}>"


def _stream(specification: Any) -> str:
    """Returns the name of the file that a standard stream goes to, or an empty string for none."""
    if isinstance(specification, tuple) and specification:
        specification = specification[0]
    if specification is None:
        return ""
    url = getattr(specification, "url", None)
    if isinstance(url, str):
        return url
    try:
        return os.fsdecode(specification)
    except TypeError:
        _log.warning("no file for a standard stream: %r", specification)
        return ""
