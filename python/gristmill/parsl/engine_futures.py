"""What makes the futures of calls that the engine runs by itself ``AppFuture``s."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from gristmill._errors import DependencyFailed, TaskTimeout
from gristmill.parsl.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl.futures import AppFuture
from gristmill.parsl.states import States
from gristmill.parsl.tasks import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATES = {
    "waiting": States.pending,
    "running": States.launched,
    "succeeded": States.exec_done,
    "cancelled": States.cancelled,
}

_unwinding = threading.local()


class EngineFuture(AppFuture):
    """The part of the native type that is written in Python; it holds nothing itself."""

    __slots__ = ()

    #: The native part: the task's number, its lane, and its arguments until the value is there.
    _number: int
    _app: Any
    _arguments: tuple[tuple[Any, ...], dict[str, Any] | None] | None

    @property
    def tid(self) -> int:
        """The task's number in its kernel, from 0."""
        return self._number

    @property
    def task_record(self) -> TaskRecord:  # type: ignore[override]
        """What is known of the task, written down when it is asked for."""
        lane = self._app
        args, kwargs = self._arguments or ((), None)
        return TaskRecord(
            id=self._number,
            dfk=lane.kernel,
            executor=lane.label,
            func=lane.app.plain_function,
            func_name=lane.app.__name__,
            args=args,
            kwargs=kwargs or {},
            app_fu=self,
            depends=list(_parents(self)),
            memoize=lane.app.cache,
            from_memo=False,
            ignore_for_cache=lane.app.ignore_for_cache or [],
            join=False,
            resource_specification={},
            status=self._status(),
            time_invoked=None,
        )

    def _status(self) -> States:
        state = self._look()
        if state != "failed":
            return _STATES[state]
        from gristmill.parsl.errors import DependencyError

        is_dependency = isinstance(self.exception(), DependencyError)
        return States.dep_fail if is_dependency else States.failed

    def task_status(self) -> str:
        """The name of the task's state, one of ``States``."""
        return self._status().name

    def cancel(self, running: bool = True, grace: float = 1.0) -> bool:
        """Cancels the task, one that runs too.

        :param running: whether a task that has started is to be interrupted.
        :param grace: seconds that an interrupted task has to end; then its worker is killed.
        """
        return bool(super().cancel(running, grace))  # type: ignore[misc]

    @staticmethod
    def _translated(future: Any, error: BaseException) -> BaseException:
        """Says by Parsl's names what the engine said; called once, for what the task did not raise itself."""
        # Loading these makes the engine's own exceptions Parsl's too: `except` clauses see that.
        from gristmill.parsl.errors import AppTimeout

        if isinstance(error, TaskTimeout):
            return AppTimeout(str(error))
        if isinstance(error, DependencyFailed):
            return _dependency_error(future, error)
        return error


def _parents(future: Any) -> Iterator[Any]:
    args, kwargs = future._arguments or ((), None)
    for value in (*args, *(kwargs or {}).values()):
        yield from DEEP_DEPENDENCY_RESOLVER.traverse_to_gather(value)


def _failed_parents(future: Any) -> list[Any]:
    return [one for one in _parents(future) if one.cancelled() or (one.done() and one._failed())]


def _dependency_error(future: Any, error: BaseException) -> BaseException:
    if not getattr(_unwinding, "is_active", False):
        _unwind(future)
    from gristmill.parsl.errors import DependencyError

    describe = future._app.kernel.render_future_description
    failures = [(_failure(parent), describe(parent)) for parent in _failed_parents(future)]
    return DependencyError(failures, future._number) if failures else error


def _unwind(future: Any) -> None:
    """Has the failures above this one written from the first to the last: a chain may be longer than the stack."""
    path = [future]
    while parents := _failed_parents(path[-1]):
        path.append(parents[0])
    _unwinding.is_active = True
    try:
        for ancestor in reversed(path[1:]):
            _failure(ancestor)
    finally:
        _unwinding.is_active = False


def _failure(future: Any) -> BaseException:
    from concurrent.futures import CancelledError

    try:
        failure: BaseException = future.exception()
    except CancelledError as cancelled:
        return cancelled
    return failure
