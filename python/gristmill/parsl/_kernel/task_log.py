"""A log line for each step of each task, with the structured fields that Parsl's lines have.

The log is off by default, because it costs more than the tasks. A program turns it on by giving
``Config.initialize_logging`` a log configuration, by setting a level for the logger ``parsl.gristmill.tasks``, or by
``GRISTMILL_LOG_TASKS=1``.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.futures import AppFuture
from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from gristmill.parsl._kernel.tasks import Task

_log = logging.getLogger("parsl.gristmill.tasks")


def is_wanted(has_log_config: bool) -> bool:
    """Returns whether lines of single tasks were asked for."""
    is_set = logging.NOTSET < _log.level <= logging.INFO
    return has_log_config or is_set or os.environ.get("GRISTMILL_LOG_TASKS", "0") not in ("", "0")


class TaskLog:
    """The log of each step of one kernel's tasks."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def submitted(self, task: Task) -> None:
        """Logs that a task was submitted."""
        for future in task.depends:
            self._depends(task, future)
        waits = ", ".join(task.dfk.render_future_description(one) for one in task.depends)
        _log.info(
            "Task %s submitted for App %s, %s",
            task.id,
            task.func_name,
            f"waiting on {waits}" if waits else "not waiting on any dependency",
            extra={"parsl.task": task.id, "parsl.app_name": task.func_name},
        )

    def _depends(self, task: Task, future: Future[Any]) -> None:
        fields: dict[str, Any] = {"parsl.task": task.id}
        if isinstance(future, AppFuture) and future._kernel is task.dfk:
            fields["parsl.dependency_task"] = future.tid
        else:
            fields["parsl.dependency_object"] = repr(future)
        described = task.dfk.render_future_description(future)
        _log.info("Task %s has dependency %s", task.id, described, extra=fields)

    def moved(self, task: Task) -> None:
        """Logs a task's change of state."""
        fields = {
            "parsl.dfk": self._run_id,
            "parsl.task": task.id,
            "parsl.task_state": task.status.name,
        }
        _log.info("Task %s is now %s", task.id, task.status.name, extra=fields)
        if task.status is States.launched:
            self._launched(task)

    def _launched(self, task: Task) -> None:
        fields = {
            "parsl.dfk": self._run_id,
            "parsl.task": task.id,
            "parsl.try": task.try_id,
            "parsl.executor": task.executor,
        }
        number = getattr(task.exec_fu, "parsl_executor_task_id", None)
        if number is not None:
            fields["parsl.executor_task"] = number
        _log.info(
            "Task %s try %s launched on executor %s",
            task.id,
            task.try_id,
            task.executor,
            extra=fields,
        )
