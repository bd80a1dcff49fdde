"""Why a task does not run yet, or where it is, in a few sentences: the kernel's part, and then the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gristmill._native import Future as NativeFuture
from gristmill.parsl.executors.engine import GristmillExecutor
from gristmill.parsl.exits import CheckpointedFuture
from gristmill.parsl.futures import AppFuture, DataFuture
from gristmill.parsl.joining import joined_by
from gristmill.parsl.states import FINAL_STATES, States

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from gristmill.parsl.tasks import TaskRecord

#: Of how many futures that a task waits for the names are told.
_NAMED_MAX = 3


class Explanations:
    """Explains the tasks of one kernel.

    :param kernel: whose tasks these are.
    :param executors: by label.
    :param describe: says in a few words what a future is.
    """

    def __init__(
        self, kernel: object, executors: Mapping[str, Any], describe: Callable[[Future[Any]], str]
    ) -> None:
        self._kernel = kernel
        self._executors = executors
        self._describe = describe

    def of(self, future: Any) -> str:
        """Explains the task of a future. Raises ``TypeError`` for what is no future of this kernel's."""
        if isinstance(future, DataFuture):
            future = future.parent
        if isinstance(future, CheckpointedFuture):
            future = future.engine_future
        if not isinstance(future, AppFuture) or future.task_record.dfk is not self._kernel:
            raise TypeError("only a future that this kernel gave can be explained by it")
        task = future.task_record
        if isinstance(future, NativeFuture):
            # The engine runs it all by itself, and has named its function.
            return (
                f"Task {task.id} is one of executor {task.executor}. {self._engines(task, future)}"
            )
        return f"Task {task.id} ({task.func_name}) {self._state(task)}"

    def _state(self, task: TaskRecord) -> str:
        if task.status in FINAL_STATES:
            return f"has ended: {task.status.name}."
        if task.status is States.joining:
            waits = [one for one in joined_by(task) if not one.done()]
            return f"has run, and waits for what it gave: {self._names(waits)}."
        waits = [one for one in task.depends if not one.done()] if task.try_id == 0 else []
        if waits and task.status is States.pending:
            return f"waits in the graph for what is among its arguments: {self._names(waits)}."
        attempt = task.exec_fu
        if task.status is not States.launched or attempt is None:
            return f"is about to be given to executor {task.executor}."
        given = f"was given to executor {task.executor}"
        if task.try_id:
            given += f" again, which is attempt {task.try_id + 1}"
        return f"{given}. {self._engines(task, attempt)}"

    def _engines(self, task: TaskRecord, attempt: Future[Any]) -> str:
        executor = self._executors.get(task.executor)
        if not isinstance(executor, GristmillExecutor):
            return "That does not say what becomes of its tasks."
        try:
            return executor.explain(attempt)
        except TypeError:  # a call that it shares, remembered or not, is not this executor's own
            return "It has the result of another call, once that is there."

    def _names(self, futures: Sequence[Future[Any]]) -> str:
        named = [self._describe(one) for one in futures[:_NAMED_MAX]]
        if len(futures) > _NAMED_MAX:
            named.append(f"{len(futures) - _NAMED_MAX:,} more")
        return ", ".join(named)
