"""Explanations of why a task does not run yet, or where it is: the kernel's part, and then the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill._native import Future as NativeFuture
from gristmill.parsl._kernel.executors.engine import GristmillExecutor
from gristmill.parsl._kernel.exit_checkpoints import CheckpointedFuture
from gristmill.parsl._kernel.futures import AppFuture, DataFuture
from gristmill.parsl._kernel.joining import joined_by
from gristmill.parsl._kernel.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from gristmill.parsl._kernel.tasks import Task

#: Maximum number of futures that an explanation names.
_NAMED_MAX = 3


class Explanations:
    """Explanations of the tasks of one kernel.

    :param kernel: the kernel that owns the tasks.
    :param executors: by label.
    :param describe: describes a future in a few words.
    """

    def __init__(
        self, kernel: object, executors: Mapping[str, Any], describe: Callable[[Future[Any]], str]
    ) -> None:
        self._kernel = kernel
        self._executors = executors
        self._describe = describe

    def of(self, future: Any) -> str:
        """Explains the task of a future. Raises ``TypeError`` if the future is not one of this kernel's."""
        if isinstance(future, DataFuture):
            parent = future.parent
            if parent is None:
                return f"Task {future.tid} has ended."
            future = parent
        if isinstance(future, CheckpointedFuture):
            future = future.engine_future
        if not isinstance(future, AppFuture) or future._kernel is not self._kernel:
            raise TypeError("a kernel can explain only the futures that it returned")
        task = future.task_record
        if isinstance(future, NativeFuture):
            # The engine runs this task alone, and its explanation names the function.
            return (
                f"Task {task.id} is one of executor {task.executor}. {self._engines(task, future)}"
            )
        return f"Task {task.id} ({task.func_name}) {self._state(task)}"

    def _state(self, task: Task) -> str:
        if task.status in FINAL_STATES:
            return f"has ended: {task.status.name}."
        if task.status is States.joining:
            waits = [one for one in joined_by(task) if not one.done()]
            return f"has run, and waits for the futures that it returned: {self._names(waits)}."
        waits = [one for one in task.depends if not one.done()] if task.try_id == 0 else []
        if waits and task.status is States.pending:
            return f"waits in the graph for the futures among its arguments: {self._names(waits)}."
        attempt = task.exec_fu
        if task.status is not States.launched or attempt is None:
            return f"will be given to executor {task.executor}."
        given = f"was given to executor {task.executor}"
        if task.try_id:
            given += f" again, which is attempt {task.try_id + 1}"
        return f"{given}. {self._engines(task, attempt)}"

    def _engines(self, task: Task, attempt: Future[Any]) -> str:
        executor = self._executors.get(task.executor)
        if not isinstance(executor, GristmillExecutor):
            return "This executor cannot explain its tasks."
        try:
            return executor.explain(attempt)
        except TypeError:  # The future belongs to another call, whose result this task shares
            return "It takes the result of another call when that call has ended."

    def _names(self, futures: Sequence[Future[Any]]) -> str:
        named = [self._describe(one) for one in futures[:_NAMED_MAX]]
        if len(futures) > _NAMED_MAX:
            named.append(f"{len(futures) - _NAMED_MAX:,} more")
        return ", ".join(named)
