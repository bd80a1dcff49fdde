"""The Python part of ``AppFuture`` for calls that the engine runs alone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from gristmill import _errors
from gristmill.parsl._kernel.dependencies import DEEP_DEPENDENCY_RESOLVER
from gristmill.parsl._kernel.futures import AppFuture
from gristmill.parsl._kernel.states import FINAL_STATES, States
from gristmill.parsl._kernel.tasks import TaskRecord

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, ValuesView

_STATES = {
    "waiting": States.pending,
    "running": States.launched,
    "succeeded": States.exec_done,
    "cancelled": States.cancelled,
}

_unwinding = threading.local()


class EngineRecord(TaskRecord):
    """The record of a call that the engine runs alone. Each read asks the engine for the state."""

    __slots__ = ()

    @classmethod
    def of(cls, future: Any) -> EngineRecord:
        """Makes the record of the task of an ``EngineFuture``."""
        fast_path = future._app
        args, kwargs = future._arguments or ((), None)
        record = cls(
            id=future._number,
            dfk=fast_path.kernel,
            executor=fast_path.label,
            func=fast_path.app.plain_function,
            func_name=fast_path.app.__name__,
            args=list(args),
            kwargs=dict(kwargs or {}),
            app_fu=future,
            depends=list(_parents(future)),
            memoize=fast_path.app.cache,
            from_memo=False,
            ignore_for_cache=fast_path.app.ignore_for_cache or [],
            resource_specification={},
        )
        record.exec_fu = future
        return record

    def _look(self) -> None:
        if self.status in FINAL_STATES:
            return
        attempt: Any = self.exec_fu
        state = attempt._status()
        if state in (States.failed, States.dep_fail):
            from gristmill.parsl._kernel.endings import repr_of

            budget = 0 if state is States.dep_fail else self.dfk.config.retries
            error = attempt.exception()
            self.fail_count = self.fail_cost = budget + 1
            self.try_id, self.fail_history = budget, [repr_of(error)]
        self.status = state

    def __getitem__(self, key: str) -> Any:
        self._look()
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a key, like ``dict.get``."""
        self._look()
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        # Without this method ``dict(record)`` would copy the raw dict and bypass the methods of this class.
        return super().__iter__()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Returns the items, like ``dict.items``."""
        self._look()
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Returns the values, like ``dict.values``."""
        self._look()
        return super().values()

    def copy(self) -> dict[str, Any]:
        """Returns a copy, like ``dict.copy``."""
        self._look()
        return super().copy()

    def __repr__(self) -> str:
        self._look()
        return super().__repr__()


class EngineFuture(AppFuture):
    """The Python part of the native future type. It has no fields of its own."""

    __slots__ = ()

    #: Fields of the native part: the task's number, its ``FastPath``, and its arguments until the value is there.
    _number: int
    _app: Any
    _arguments: tuple[tuple[Any, ...], dict[str, Any] | None] | None

    @property
    def tid(self) -> int:
        """The task's number in its kernel, from 0."""
        return self._number

    @property
    def _kernel(self) -> Any:
        return self._app.kernel

    @property
    def task_record(self) -> EngineRecord:  # type: ignore[override]
        """The record of the task. It is made at the first access and kept from then on."""
        record: EngineRecord | None = self.__dict__.get("_record")
        if record is None:
            record = self._record = EngineRecord.of(self)
        return record

    @property
    def stdout(self) -> None:
        """``None``: a call with a file for standard output does not run on the engine alone."""
        return

    @property
    def stderr(self) -> None:
        """``None``, as ``stdout``."""
        return

    def _status(self) -> States:
        state = self._look()
        if state != "failed":
            return _STATES[state]
        from gristmill.parsl._kernel.errors import DependencyError

        is_dependency = isinstance(self.exception(), DependencyError)
        return States.dep_fail if is_dependency else States.failed

    def task_status(self) -> str:
        """Returns the name of the task's state, one of ``States``."""
        return self._status().name

    def cancel(self, running: bool = True, grace: float = 1.0) -> bool:
        """Cancels the task, even if it is running.

        :param running: whether a task that has started is interrupted.
        :param grace: seconds that an interrupted task has to end. After that its worker is killed.
        """
        return bool(super().cancel(running, grace))  # type: ignore[call-arg]

    @staticmethod
    def _translated(future: Any, error: BaseException) -> BaseException:
        """Translates an exception of the engine into Parsl's. Called once, and only for what the task did not raise."""
        # This import also makes the engine's own exceptions subclasses of Parsl's, which ``except`` clauses need.
        from gristmill.parsl._kernel.errors import AppTimeout

        if issubclass(type(error), _errors.TaskTimeoutError):
            return AppTimeout(str(error))
        if issubclass(type(error), _errors.DependencyError):
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
    from gristmill.parsl._kernel.errors import DependencyError

    describe = future._app.kernel.render_future_description
    failures = [(_failure(parent), describe(parent)) for parent in _failed_parents(future)]
    return DependencyError(failures, future._number) if failures else error


def _unwind(future: Any) -> None:
    """Builds the failures of all ancestors from first to last: recursion could exceed the stack in a long chain."""
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
