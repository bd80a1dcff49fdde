"""Join apps: what they give instead of a value is futures, whose values are the value."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any

from gristmill.parsl.calls import post
from gristmill.parsl.endings import note_failure
from gristmill.parsl.states import States

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gristmill.parsl.census import Census
    from gristmill.parsl.endings import Endings
    from gristmill.parsl.tasks import TaskRecord


class Joining:
    """Ends tasks once all that they have joined is final.

    :param census: moves them.
    :param endings: ends them.
    :param describe: says in a few words what a future is, for messages.
    """

    def __init__(
        self, census: Census, endings: Endings, describe: Callable[[Future[Any]], str]
    ) -> None:
        self._census = census
        self._endings = endings
        self._describe = describe

    def join(self, task: TaskRecord, joined: Any) -> None:
        """Has a task wait for what its function gave: a future, or a list of some; else it fails."""
        futures = joined if isinstance(joined, list) else [joined]
        if not all(isinstance(future, Future) for future in futures):
            what = f"{joined} of type {type(joined)}"
            error = TypeError(f"join_app body must return a Future or list of Futures, got {what}")
            self._endings.fail(task, States.failed, error)
            return
        task.joins = joined
        # One more than there are, so that nothing ends before all are watched.
        task.unfinished = len(futures) + 1
        self._census.move(task, States.joining)
        for future in futures:
            future.add_done_callback(partial(self._part_done, task))
        self._part_arrived(task)

    def _part_done(self, task: TaskRecord, _future: Future[Any]) -> None:
        post(self._part_arrived, task)

    def _part_arrived(self, task: TaskRecord) -> None:
        with self._census.lock:
            task.unfinished -= 1
            if task.unfinished or task.status is not States.joining:
                return
        futures = joined_by(task)
        failures = failures_of(futures, self._describe)
        if failures:
            from gristmill.parsl.errors import JoinError

            error = JoinError(failures, task.id)
            note_failure(task, error)
            self._endings.fail(task, States.failed, error)
            return
        values = [future.result() for future in futures]
        value = values if isinstance(task.joins, list) else values[0]
        self._endings.succeed(task, States.exec_done, value)


def joined_by(task: TaskRecord) -> Sequence[Future[Any]]:
    """The futures that a task has joined."""
    if task.joins is None:
        return ()
    return task.joins if isinstance(task.joins, list) else [task.joins]


def failures_of(
    futures: Sequence[Future[Any]], describe: Callable[[Future[Any]], str]
) -> list[tuple[BaseException, str]]:
    """Which of these final futures failed or were cancelled: how, and what is said of each."""
    return [
        (failure, describe(future))
        for future in futures
        if (failure := _failure_of(future)) is not None
    ]


def _failure_of(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as cancelled:
        return cancelled
