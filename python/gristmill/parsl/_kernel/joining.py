"""Join apps: their functions return futures, whose values become the value of the task."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill.parsl._kernel.callbacks import Once
from gristmill.parsl._kernel.calls import post
from gristmill.parsl._kernel.endings import repr_of
from gristmill.parsl._kernel.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl._kernel.endings import Endings
    from gristmill.parsl._kernel.task_states import TaskStates
    from gristmill.parsl._kernel.tasks import Task


class Joining:
    """The end of tasks once all futures that they have joined are final.

    :param task_states: changes the states of tasks.
    :param endings: ends tasks.
    :param describe: describes a future in a few words, for messages.
    """

    def __init__(
        self, task_states: TaskStates, endings: Endings, describe: Callable[[Future[Any]], str]
    ) -> None:
        self._task_states = task_states
        self._endings = endings
        self._describe = describe

    def join(self, task: Task, joined: Any) -> None:
        """Makes a task wait for the future, or the list of futures, that its function returned.

        The task fails if the function returned anything else.
        """
        futures = joined if isinstance(joined, list) else [joined]
        if not all(isinstance(future, Future) for future in futures):
            what = f"{joined} of type {type(joined)}"
            error = TypeError(f"join_app body must return a Future or list of Futures, got {what}")
            self._endings.fail(task, States.failed, error)
            return
        task.joins = joined
        # One more than there are, so that the task cannot end before all futures are watched.
        task.unfinished = len(futures) + 1
        self._task_states.move(task, States.joining)
        for future in futures:
            future.add_done_callback(Once(self._part_done, task))
        self._part_arrived(task)

    def _part_done(self, task: Task, _future: Future[Any]) -> None:
        post(self._endings.guard, task, self._part_arrived)

    def _part_arrived(self, task: Task) -> None:
        with self._task_states.lock:
            task.unfinished -= 1
            if task.unfinished or task.status is not States.joining:
                return
        futures = joined_by(task)
        failures = failures_of(futures, self._describe)
        if failures:
            from gristmill.parsl._kernel.errors import JoinError

            error = JoinError(failures, task.id)
            task.note_failure(repr_of(error))
            self._endings.fail(task, States.failed, error)
            return
        values = [_forked.guarded(future.result) for future in futures]
        value = values if isinstance(task.joins, list) else values[0]
        self._endings.succeed(task, States.exec_done, value)


def joined_by(task: Task) -> Sequence[Future[Any]]:
    """Returns the futures that a task has joined."""
    if task.joins is None:
        return ()
    return task.joins if isinstance(task.joins, list) else [task.joins]


def failures_of(
    futures: Sequence[Future[Any]], describe: Callable[[Future[Any]], str]
) -> list[tuple[BaseException, str]]:
    """Returns the failure and a description of each of these final futures that failed or was cancelled."""
    return [
        (failure, describe(future))
        for future in futures
        if (failure := _failure_of(future)) is not None
    ]


def _failure_of(future: Future[Any]) -> BaseException | None:
    try:
        return _forked.guarded(future.exception)
    except CancelledError as cancelled:
        return cancelled
